"""A rule and its life: the user's function, its call, and the pullback that a call leaves behind."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, overload

from gradwright import frameworks
from gradwright.errors import Fault, GradwrightError, compose
from gradwright.places import place_of
from gradwright.pullback import OpenCall
from gradwright.signature import Bound, Signature, Unbound

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
    __name__: str
    __qualname__: str

    def __init__(self, pair: Callable[..., Any], options: Options):
        functools.update_wrapper(self, pair, updated=())
        self.pair = self.__wrapped__ = pair
        self.options = options
        self.name = options.name or getattr(pair, "__name__", type(pair).__name__)
        self.where = place_of(pair)
        self.signature = Signature(pair)
        self.__signature__ = self.signature.python
        self.__name__ = self.name if self.name.isidentifier() else getattr(pair, "__name__", "rule")
        self._count_places()
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
        bound._count_places()
        return bound

    def _count_places(self) -> None:
        """Count the arguments, most and fewest, where each is one plain place; -1 where the signature is richer."""
        self.simple = len(self.signature.names) if self.signature.simple else -1
        self.fewest = self.signature.required

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
        try:
            return self.signature.bind(args, kwargs, seam)
        except Unbound as error:
            raise TypeError(f"rule `{self.name}` ({self.where}): {error}") from None

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
