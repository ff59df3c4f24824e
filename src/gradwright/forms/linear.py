"""Linear functions: the adjoint is derived, the pushforward is the function itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwright import tree
from gradwright.backends import backend_of
from gradwright.errors import ArgumentError, Fault, GradwrightError, ModeError
from gradwright.forms.calls import Call, Form, is_leaf, settled
from gradwright.forms.linearity import Linearity
from gradwright.rule import Options


def linear(
    f: Callable[..., Any] | None = None,
    *,
    adjoint: Callable[..., Any] | None = None,
    verify: bool = True,
    name: str | None = None,
    example: Callable[[], Any] | None = None,
) -> Any:
    """Make a rule of a function that is linear in its positional tensors; its adjoint is derived.

    >>> diff = gw.linear(lambda x: x[1:] - x[:-1])
    >>> x = tf.constant([1., 4., 9.])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = diff(x)
    >>> tape.gradient(y, x, output_gradients=tf.constant([1., 10.])).numpy().tolist()
    [-1.0, -9.0, 10.0]

    Nothing of the forward is kept for the backward pass but the shapes. Keyword-only arguments and static ones are
    constants: the function need not be linear in them, and they get no gradient.

    Args:
        f: the function. It is linear in all its positional tensors together.
        adjoint: of the upstreams, where the framework cannot differentiate f: returns the gradients.
        verify: try on the first call with known shapes whether f is linear, at random inputs.
        name: the name in messages.
        example: a function that returns arguments, for `gw.check` and the command line.

    Raises:
        GradwrightError: f is not linear; the message says in what way.
    """
    if f is None:
        return lambda decorated: linear(decorated, adjoint=adjoint, verify=verify, name=name, example=example)
    if not callable(f):
        raise ArgumentError(f"gw.linear: a function is wanted, got {f!r}")
    return LinearRule(f, adjoint, verify, Options(name=name, example=example))


class LinearRule(Form):
    """A linear function with its adjoint. Made by `gw.linear`."""

    def __init__(self, function: Callable[..., Any], adjoint: Any, verify: bool, options: Options):
        self.function, self.adjoint = function, adjoint
        self.linearity = Linearity(function) if verify else None

        def pair(*args: Any, **kwargs: Any) -> Any:
            return self._run(args, kwargs)

        super().__init__(pair, function, options)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Give the function itself, which the framework differentiates by its own rules."""
        return self.function(*args, **kwargs)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = Call(self.signature.python, args, kwargs)
        reason = self.linearity.broken(call) if self.linearity else None
        if reason:
            repair = "gw.custom_gradient or gw.elementwise, or make what it is not linear in a keyword-only argument"
            raise self.refuse(Fault(GradwrightError, f"is no linear function: {reason}", repair))
        output = self.function(*call.args, **call.kwargs)
        return output, self._pullback(call)

    def _pullback(self, call: Call) -> Callable[..., Any]:
        function, adjoint, refuse = self.function, self.adjoint, self.refuse
        b = backend_of(*(call.leaves[i] for i in call.tensors))
        sizes = [(b.shape(call.leaves[i]), call.leaves[i].dtype) for i in call.floats]
        empty = [None if i in call.floats else leaf for i, leaf in enumerate(call.leaves)]

        def push(tangents: list[Any]) -> list[Any]:
            return tree.flatten(function(*call.filled(call.floats, tangents, empty), **call.kwargs), is_leaf)[0]

        def inputs(upstreams: Any) -> Any:
            if adjoint is not None:
                return settled(adjoint(*upstreams))
            zeros = [b.zeros(size, b.like(dtype)) for size, dtype in sizes]
            found = b.transposed(push, zeros, tree.flatten(list(upstreams), is_leaf)[0])
            if all(g is None for g in found):
                fact = "the framework finds no gradient through it"
                raise refuse(Fault(ModeError, fact, "gw.linear(f, adjoint=lambda upstream: ...)"))
            return call.by_argument(call.floats, [z if g is None else g for g, z in zip(found, zeros, strict=True)])

        def grad(*upstreams: Any, variables: Any = None) -> Any:
            if not variables:
                return inputs(upstreams)
            flat = tree.flatten(list(upstreams), is_leaf)[0]
            run = lambda: tree.flatten(function(*call.args, **call.kwargs), is_leaf)[0]  # noqa: E731
            return inputs(upstreams), b.gradients_of(run, list(variables), flat)

        def jvp(*tangents: Any) -> Any:
            arrived = dict(zip(call.tensors, tree.flatten(list(tangents), is_leaf)[0], strict=False))
            given = [arrived[i] for i in call.floats]
            return function(*call.filled(call.floats, given, empty), **call.kwargs)

        grad.jvp = jvp  # type: ignore[attr-defined]
        return grad
