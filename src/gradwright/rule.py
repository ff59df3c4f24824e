"""A rule and its life: the user's function, its call, and the pullback that a call leaves behind."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar, overload

from gradwright import events, frameworks
from gradwright.captured import split, takes_variables
from gradwright.errors import Fault, GradientCountError, GradwrightError, compose
from gradwright.fit import AtRunTime
from gradwright.matching import listed, match
from gradwright.outputs import Outputs
from gradwright.signature import Bound, Signature, Slot
from gradwright.space import Space

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Options:
    """What a rule was declared with; see `custom_gradient`."""

    strict: bool = False
    surrogate: Callable[..., Any] | bool | None = None
    variables: str = "rule"
    example: Callable[[], Any] | None = None
    name: str | None = None
    sparse: bool = False


class Rule:
    """A function with a gradient of its own. Made by `custom_gradient`; called like the function.

    Attributes:
        name: the name in messages, tables and records.
        where: "file.py:12", the place of the user's function.
        pair: the user's function, which returns (output, grad).
        forward: the same function without its rule; the framework differentiates it by itself.
        options: what the rule was declared with.
    """

    # AutoGraph calls what carries this mark as it is, instead of converting our source.
    autograph_info__: ClassVar[dict[str, Any]] = {}

    def __init__(self, pair: Callable[..., Any], options: Options):
        functools.update_wrapper(self, pair, updated=())
        self.pair = self.__wrapped__ = pair
        self.options = options
        self.name = options.name or getattr(pair, "__name__", type(pair).__name__)
        self.where = place_of(pair)
        self.signature = Signature(pair)
        self.__signature__ = self.signature.python
        self.__name__ = self.name if self.name.isidentifier() else getattr(pair, "__name__", "rule")
        # The number of arguments where each is one plain place; -1 where the signature is richer.
        self.simple = len(self.signature.names) if self.signature.simple else -1
        self._seam: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the forward and leave its pullback with the framework."""
        seam = self._seam
        if seam is None:
            seam = self._seam = frameworks.of_call(self.pair, args, kwargs)
        return seam.call(self, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound.pair = bound.__wrapped__ = types.MethodType(self.pair, instance)
        bound.signature = _signature_of_method(self)
        bound.__signature__ = bound.signature.python
        bound.simple = len(bound.signature.names) if bound.signature.simple else -1
        return bound

    def __eq__(self, other: object) -> bool:
        """Two rules are one if their functions are: a method's rule is made anew at each look."""
        return isinstance(other, Rule) and self.pair == other.pair and self.options == other.options

    def __hash__(self) -> int:
        return hash(self.pair)

    def __tf_tracing_type__(self, context: Any) -> Any:
        """Let `tf.function` take a rule as an argument; without this it would look through to the bare function."""
        return frameworks.adapter("tensorflow").tracing_type(self)

    def __reduce__(self) -> Any:
        """Travel by name, as functions do."""
        found: Any = sys.modules.get(self.__module__)
        for name in self.__qualname__.split("."):
            found = getattr(found, name, None)
        return self.__qualname__ if found is self else super().__reduce__()

    def __repr__(self) -> str:
        return f"<rule {self.name} at {self.where}>"

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Give the output alone, with no gradient of its own."""
        return self.unpack(self.pair(*args, **kwargs))[0]

    def open(self, *args: Any, **kwargs: Any) -> OpenCall:
        """Run the forward once, eagerly, and keep everything a prover wants to look at."""
        seam = frameworks.of_call(self.pair, args, kwargs)
        return OpenCall(self, self.bind(args, kwargs, seam), seam)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any], seam: Any) -> Bound:
        """Split a call into slots."""
        return self.signature.bind(args, kwargs, seam)

    def unpack(self, result: Any) -> tuple[Any, Callable[..., Any]]:
        """Take (output, grad) apart, or say what came instead."""
        if isinstance(result, tuple) and len(result) == 2 and callable(result[1]):
            return result
        raise GradwrightError(
            compose(
                self.name,
                self.where,
                f"must return (output, grad) with grad a function of the upstream, but returned {describe(result)}",
                "return output, grad",
            )
        )

    def refuse(self, fault: Fault) -> GradwrightError:
        """Name this rule in an error."""
        return fault.of(self.name, self.where)


@functools.lru_cache(maxsize=1024)
def _signature_of_method(rule: Rule) -> Signature:
    """The signature of a rule seen through an instance, without `self`."""
    return Signature(functools.partial(rule.pair, None))


def describe(value: Any) -> str:
    """Say what a value is, for the message of a wrong return."""
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)} ({', '.join(type(v).__name__ for v in value)})"
    return "None" if value is None else f"a {type(value).__name__}"


def place_of(function: Callable[..., Any]) -> str:
    """Where a function is written: "file.py:12" with the line of `def`, past its decorators."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    if code is None:
        return "builtin"
    return f"{os.path.basename(code.co_filename)}:{line_of(code)}"


def line_of(code: types.CodeType) -> int:
    """The line of `def` itself; `co_firstlineno` is the first decorator's."""
    first = code.co_firstlineno
    if code.co_name == "<lambda>":
        return first
    import linecache

    for number in range(first, first + 60):
        text = linecache.getline(code.co_filename, number).lstrip()
        if text.startswith(("def ", "async def ")):
            return number
    return first


class Fitted(NamedTuple):
    """A gradient that fits, and what was repaired on the way."""

    gradient: Any
    repairs: tuple[str, ...] = ()


@dataclass(slots=True)
class Pulled:
    """One backward of an open call; `matched` holds the gradients in order before they were made to fit."""

    raw: Any
    gradients: list[Any]
    variable_gradients: list[Any]
    repairs: list[tuple[str, str]]
    matched: list[Any] = field(default_factory=list)


class _Pulling(threading.local):
    depth = 0


_pulling = _Pulling()


def inside_a_pullback() -> bool:
    """Whether the gradient of some rule is being computed on this thread."""
    return _pulling.depth > 0


class Pullback:
    """What a call leaves behind: upstreams in, one fitting gradient per tensor argument and captured variable out.

    It holds facts about the inputs, the structure of the output, and the user's grad; no tensor of its own.
    """

    __slots__ = (
        "dynamic_shape", "grad", "output_spaces", "outputs", "reads", "restrictions", "rule", "seam", "slots",
        "spaces", "takes", "variable_spaces", "variables",
    )  # fmt: skip

    def __init__(
        self,
        rule: Rule,
        slots: list[Slot],
        spaces: list[Space],
        outputs: Outputs,
        output_spaces: list[Space],
        grad: Callable[..., Any],
        seam: Any,
        reads: Sequence[Any] = (),
    ):
        self.rule, self.slots, self.spaces, self.seam = rule, slots, spaces, seam
        self.outputs, self.output_spaces, self.grad = outputs, output_spaces, grad
        self.reads = list(reads)
        self.variables = [v for v in self.reads if seam.is_trainable(v)]
        self.variable_spaces: list[Space] = [seam.space(v) for v in self.variables]
        self.takes = bool(self.variables) and takes_variables(grad)
        self.dynamic_shape: Callable[[int], Any] | None = None
        self.restrictions: dict[int, Callable[[Any], Any]] = {}

    @classmethod
    def of(cls, rule: Rule, bound: Bound, outputs: Outputs, grad: Any, reads: list[Any], seam: Any) -> Pullback:
        """The pullback of a call that has just run."""
        tensors = bound.tensors()
        made = cls(
            rule,
            [slot.skeleton() for slot in bound.slots],
            [seam.space(tensor) for tensor in tensors],
            outputs,
            [seam.space(outputs.leaves[i]) for i in outputs.tensors],
            grad,
            seam,
            seam.not_among(reads, tensors),
        )
        if hasattr(seam, "restrictions"):
            made.restrictions = seam.restrictions(tensors)
        return made

    def names(self) -> list[str]:
        """The path of each tensor argument, then the name of each captured variable."""
        own = [name for slot in self.slots for name in slot.names()]
        return own + [self.seam.variable_name(v) for v in self.variables]

    def __call__(self, upstreams: list[Any]) -> list[Any]:
        """Pull upstreams back; every gradient fits its input."""
        pulled = self.pull(upstreams)
        if events.watched():
            for listener in events.listeners:
                listener.watch(self, upstreams, pulled)
        return pulled.gradients + pulled.variable_gradients

    def pull(self, upstreams: list[Any], fit: bool = True) -> Pulled:
        """Pull upstreams back, and keep what the user's grad returned and what was repaired."""
        try:
            raw = self.returned(upstreams)
        except Fault as fault:
            raise self.rule.refuse(fault) from None
        return self.settle(raw, fit)

    def settle(self, raw: Any, fit: bool = True) -> Pulled:
        """Make gradients of what the user's grad returned: split, matched, fitted."""
        try:
            matched, answered = self.matched(raw)
            if not fit:
                return Pulled(raw, matched, answered, [])
            return self.fitted(raw, matched + answered, len(matched))
        except Fault as fault:
            raise self.rule.refuse(fault) from None

    def returned(self, upstreams: list[Any]) -> Any:
        """Call the user's grad on dense upstreams, shaped like the output."""
        sparse = self.rule.options.sparse
        ups = [self.seam.upstream(u, s, sparse) for u, s in zip(upstreams, self.output_spaces, strict=True)]
        args, kwargs = self.outputs.spread(ups, self.grad)
        if self.takes:
            kwargs["variables"] = list(self.variables)
        _pulling.depth += 1
        try:
            return self.grad(*args, **kwargs)
        finally:
            _pulling.depth -= 1

    def matched(self, raw: Any) -> tuple[list[Any], list[Any]]:
        """Split and order what grad returned: per tensor argument, and per captured variable."""
        inputs, answered = split(raw, self.variables, self.reads, self.seam)
        gradients = match(inputs, self.slots, self.seam, [space.kind != "none" for space in self.spaces])
        self.refuse_nothing(gradients, answered)
        return gradients, answered

    def refuse_nothing(self, gradients: list[Any], answered: list[Any]) -> None:
        """Refuse a rule that returned no gradient at all although some input could take one."""
        if any(g is not None for g in gradients + answered):
            return
        takers = [n for n, s in zip(self.names(), self.spaces + self.variable_spaces, strict=True) if s.kind != "none"]
        if takers:
            raise Fault(
                GradientCountError,
                f"expected {len(takers)} gradient{'s' * (len(takers) != 1)}, for {listed(takers)}, "
                "but grad returned nothing (None) for everything",
                "is a `return` missing in grad? To stop the gradient on purpose, use the framework's stop_gradient",
            )

    def fitted(self, raw: Any, gradients: list[Any], inputs: int) -> Pulled:
        """Make every gradient fit its input."""
        done, repairs = [], []
        for i, (gradient, space) in enumerate(zip(gradients, self.spaces + self.variable_spaces, strict=True)):
            if i in self.restrictions:
                gradient = self.restrictions[i](gradient)
            try:
                made = self.seam.fit(gradient, space, strict=self.rule.options.strict, at=self.at_run_time(i))
            except Fault as fault:
                name = self.names()[i]
                raise Fault(fault.kind, f"the gradient of `{name}` {fault.fact}", fault.repair) from None
            done.append(made.gradient)
            if made.repairs:
                repairs.extend((self.names()[i], text) for text in made.repairs)
        return Pulled(raw, done[:inputs], done[inputs:], repairs, gradients)

    def at_run_time(self, index: int) -> AtRunTime | None:
        """How to learn the shape of an input at run time, where sizes are unknown."""
        if self.dynamic_shape is None:
            return None
        label = f"rule `{self.rule.name}` ({self.rule.where}): the gradient of `{self.names()[index]}`"
        return AtRunTime(functools.partial(self.dynamic_shape, index), label)


class OpenCall:
    """A call taken apart for provers: the forward has run, the pullback can be asked at will."""

    def __init__(self, rule: Rule, bound: Bound, seam: Any):
        self.rule, self.seam = rule, seam
        self.names, self.leaves = bound.names(), bound.tensors()
        self.output, grad, outputs, reads = seam.run(rule, bound)
        self.outputs = [outputs.leaves[i] for i in outputs.tensors]
        self._pullback = Pullback.of(rule, bound, outputs, grad, reads, seam)
        self.variables = self._pullback.variables
        self.variable_names = [seam.variable_name(v) for v in self.variables]
        self.grad = grad

    def pull(self, upstreams: list[Any], fit: bool = True) -> Pulled:
        """Pull upstreams (one per tensor of the output) back."""
        return self._pullback.pull(list(upstreams), fit)


@overload
def custom_gradient(function: F, /) -> F: ...
@overload
def custom_gradient(
    *,
    strict: bool = ...,
    surrogate: Callable[..., Any] | bool | None = ...,
    variables: str = ...,
    example: Callable[[], Any] | None = ...,
    name: str | None = ...,
    sparse: bool = ...,
) -> Callable[[F], F]: ...
def custom_gradient(
    function: Any = None,
    /,
    *,
    strict: bool = False,
    surrogate: Callable[..., Any] | bool | None = None,
    variables: str = "rule",
    example: Callable[[], Any] | None = None,
    name: str | None = None,
    sparse: bool = False,
) -> Any:
    """Give a function a gradient of its own; a drop-in for `tf.custom_gradient`.

    >>> import tensorflow as tf, gradwright as gw
    >>> @gw.custom_gradient
    ... def scale(x, s):
    ...     return x * s, lambda upstream: (upstream * s, upstream * x)
    >>> x, s = tf.ones([2, 3]), tf.constant([1.0, 2.0, 3.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(s)
    ...     y = scale(x, s)
    >>> tape.gradient(y, s).numpy().tolist()  # summed over the axis that broadcasting added
    [2.0, 2.0, 2.0]

    Args:
        function: returns (output, grad). grad receives one upstream per output (a dict for a dict) and returns one
            gradient, a tuple or list in the order of the tensor arguments, or a dict by argument name. Where the
            forward reads trainable variables, grad returns (gradients, variable gradients), the second as a list in
            order of first use, a mapping by `v.ref()`, (variable, gradient) pairs, or a function of the variables.
        strict: make every repair (a sum, a cast) an error.
        surrogate: the gradient differs from the forward's on purpose: True, or the function whose gradient it is.
        variables: "rule", or "autodiff" to let the framework differentiate the captured variables.
        example: a function that returns arguments, for `gw.check` and the command line.
        name: the name in messages.
        sparse: hand a sparse upstream (IndexedSlices) through instead of making it dense.

    Returns:
        A `Rule`, called like the function, in every mode the framework has.

    Raises:
        GradientShapeError, GradientDtypeError, GradientCountError, VariablesError: in the backward pass, naming the
            rule, the argument and the repair.
        ModeError: the rule cannot work in the mode it is used in.
    """
    if variables not in ("rule", "autodiff"):
        raise ValueError(f'variables must be "rule" or "autodiff", not {variables!r}')
    options = Options(strict, surrogate, variables, example, name, sparse)
    if function is None:
        return lambda decorated: custom_gradient_of(decorated, options)
    return custom_gradient_of(function, options)


def custom_gradient_of(function: Any, options: Options) -> Rule:
    """Make the rule, or say what cannot be one."""
    if isinstance(function, Rule):
        raise GradwrightError(compose(function.name, function.where, "is a rule already", "decorate it once"))
    if not callable(function):
        raise TypeError(f"gw.custom_gradient decorates a function that returns (output, grad), not {function!r}")
    if options.variables == "autodiff":
        function = frameworks.with_variables_by_autodiff(function)
    return Rule(function, options)
