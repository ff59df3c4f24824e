"""`gw.rule`: a function whose derivatives are defined apart from it, with explicit residuals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from gradwright.errors import ArgumentError, Fault, GradwrightError, compose
from gradwright.forms.calls import Call, Form, place_of_first, settled
from gradwright.rule import Options, describe


class DefinedRule(Form):
    """A function with `defvjp` and `defjvp`. Made by `gw.rule`."""

    def __init__(self, function: Callable[..., Any], options: Options):
        self.function = function
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.jvp: Callable[..., Any] | None = None

        def pair(*args: Any, **kwargs: Any) -> Any:
            return self._run(args, kwargs)

        super().__init__(pair, function, options)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Give the function itself, which the framework differentiates by its own rules."""
        return self.function(*args, **kwargs)

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> DefinedRule:
        """Define reverse mode, in the order and the forms of `jax.custom_vjp`.

        Args:
            fwd: of the same arguments as the function; returns (output, residuals).
            bwd: of (residuals, upstream), the upstream shaped like the output; returns the gradients as any rule
                does: a tuple with one an argument (static ones None or left out), or a dict by name. In a
                gradient's place may stand a function of no arguments, which is called only where somebody wants
                that gradient; None where the argument is not differentiable; `gw.forms.not_implemented("why")`.
        """
        self.fwd, self.bwd = _function(self, "fwd", fwd), _function(self, "bwd", bwd)
        return self

    def defjvp(self, jvp: Callable[..., Any]) -> DefinedRule:
        """Define forward mode: `jvp(primals, tangents)` returns (output, tangent of the output), as `jax.custom_jvp`.

        Both arguments are tuples with one an argument of the call; the tangent of a static argument is None.
        Without `defvjp`, reverse mode is the transpose of this.
        """
        self.jvp = _function(self, "jvp", jvp)
        return self

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.bwd is None and self.jvp is None:
            fact, repair = "has no derivative yet", f"{self.name}.defvjp(fwd, bwd) or {self.name}.defjvp(jvp)"
            raise GradwrightError(compose(self.name, self.where, fact, repair))
        call = Call(self.signature.python, args, kwargs)
        push = call.pushforward(self.jvp) if self.jvp else None
        if self.fwd and self.bwd:
            output, residuals = self._forwarded(self.fwd(*call.args, **call.kwargs))
            grad = reverse(self.bwd, residuals, output, call, self.refuse)
        else:
            output = self.function(*call.args, **call.kwargs)
            grad = call.transpose(push)
        if push:
            grad.jvp = push  # type: ignore[attr-defined]
        return output, grad

    def _forwarded(self, result: Any) -> Any:
        if isinstance(result, tuple | list) and len(result) == 2:
            return result
        fact = f"fwd must return (output, residuals), but returned {describe(result)}"
        raise GradwrightError(compose(self.name, place_of_first([self.fwd]), fact, "return output, (x, ...)"))


def reverse(
    bwd: Callable[..., Any], residuals: Any, output: Any, call: Call, refuse: Callable[[Fault], Exception]
) -> Callable[..., Any]:
    """The grad of a call: it hands bwd its residuals, and an upstream that is shaped like the output."""
    kind = type(output) if isinstance(output, tuple | list) else None
    arranged = call.arranger()
    del output, call

    def whole(upstreams: tuple[Any, ...]) -> Any:
        if kind is None:
            return upstreams[0]
        return kind(*upstreams) if hasattr(kind, "_fields") else kind(upstreams)

    def run(upstreams: tuple[Any, ...], **known: Any) -> Any:
        try:
            returned = settled(bwd(residuals, whole(upstreams), **known), told.wanted)
        except Fault as fault:
            raise refuse(fault) from None
        if known.get("variables") and isinstance(returned, tuple | list) and len(returned) == 2:
            return arranged(returned[0]), returned[1]
        return arranged(returned)

    if takes_variables(bwd):
        told: Any = lambda *upstreams, variables=(): run(upstreams, variables=variables)  # noqa: E731
    else:
        told = lambda *upstreams: run(upstreams)  # noqa: E731
    # The core writes here, for each tensor argument, whether anybody may ask for its gradient.
    told.wanted = None
    return told


def takes_variables(bwd: Callable[..., Any]) -> bool:
    """Whether bwd asks for the captured variables."""
    from gradwright import captured

    return captured.takes_variables(bwd)


def _function(rule: DefinedRule, name: str, value: Any) -> Callable[..., Any]:
    if not callable(value):
        raise ArgumentError(compose(rule.name, rule.where, f"`{name}` must be a function, got {value!r}"))
    return value


@overload
def rule(function: Callable[..., Any], /) -> DefinedRule: ...
@overload
def rule(**options: Any) -> Callable[[Callable[..., Any]], DefinedRule]: ...
def rule(function: Any = None, /, **options: Any) -> Any:
    """Give a function derivatives that are defined apart from it: `f.defvjp(fwd, bwd)`, `f.defjvp(jvp)`, or both.

    >>> @gw.rule
    ... def cube(x):
    ...     return x**3
    >>> cube.defvjp(lambda x: (x**3, x), lambda x, upstream: (upstream * 3 * x**2,))
    <rule cube at ...>
    >>> cube.defjvp(lambda primals, tangents: (primals[0]**3, 3 * primals[0]**2 * tangents[0]))
    <rule cube at ...>
    >>> x = tf.constant(2.)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = cube(x)
    >>> float(tape.gradient(y, x))
    12.0

    With the jvp alone, the vjp is its transpose. With the vjp alone, the jvp is its transpose where it is linear in
    the upstream, and is refused where it is not. Residuals are explicit: nothing else is kept for the backward pass.

    Args:
        function: the primal function.
        options: those of `gw.custom_gradient`.
    """
    if function is None:
        return lambda decorated: rule(decorated, **options)
    if not callable(function):
        raise ArgumentError(f"gw.rule decorates a function, got {function!r}")
    return DefinedRule(function, Options(**options))
