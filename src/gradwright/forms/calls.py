"""What the forms share: a rule that speaks of the user's own function, and one call of it taken apart."""

from __future__ import annotations

import inspect
import os
import site
import sys
from collections.abc import Callable, Mapping
from typing import Any

from gradwright import tree
from gradwright.backends import backend_of
from gradwright.forms.partials import NotImplementedPartial, carries_none
from gradwright.places import place_of
from gradwright.rule import Options, Rule

# Files that are not the user's: installed packages, python itself, and this package.
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARIES = (_OWN, *site.getsitepackages(), sys.prefix + "/lib")


class Form(Rule):
    """A rule whose pair was put together from other functions of the user; it is named and placed by those."""

    def __init__(self, pair: Callable[..., Any], function: Callable[..., Any], options: Options, *others: Any):
        signature = signature_of(function)
        if signature is not None:
            pair.__signature__ = signature  # type: ignore[attr-defined]
        pair.__name__ = pair.__qualname__ = getattr(function, "__name__", type(function).__name__)
        pair.__doc__ = function.__doc__
        pair.__module__ = getattr(function, "__module__", None) or pair.__module__
        super().__init__(pair, options)
        self.where = place_of_first([function, *others])


def place_of_first(functions: list[Any]) -> str:
    """The place of the first function that the user wrote, rather than a library."""
    flat = [f for group in functions for f in (group if isinstance(group, list | tuple) else [group]) if callable(f)]
    own = [f for f in flat if not _of_a_library(f)]
    return place_of((own or flat)[0])


def _of_a_library(function: Any) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is None or code.co_filename.startswith(_LIBRARIES)


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature, where Python knows it."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def named_values(signature: inspect.Signature | None, args: tuple, kwargs: dict) -> dict[str, Any]:
    """The arguments of a call by name and in order; an element of `*xs` is named `xs[0]`."""
    if signature is None:
        return {f"args[{i}]": a for i, a in enumerate(args)} | kwargs
    return _spread(signature, signature.bind(*args, **kwargs).arguments)


def aligned_values(signature: inspect.Signature | None, args: tuple, kwargs: dict) -> dict[str, Any]:
    """As `named_values`, with the defaults of what the call skipped: each argument is in its own place."""
    if signature is None:
        return named_values(signature, args, kwargs)
    bound = signature.bind(*args, **kwargs)
    last = [name for name in signature.parameters if name in bound.arguments][-1:]
    bound.apply_defaults()
    through = list(bound.arguments).index(last[0]) + 1 if last else 0
    return _spread(signature, dict(list(bound.arguments.items())[:through]))


def _spread(signature: inspect.Signature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            values |= {f"{name}[{i}]": v for i, v in enumerate(value)}
        elif kind is inspect.Parameter.VAR_KEYWORD:
            values |= value
        else:
            values[name] = value
    return values


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor or variable of any framework."""
    return hasattr(value, "dtype") and hasattr(value, "shape")


def is_leaf(value: Any) -> bool:
    """Whether structures end at a value."""
    return is_tensor(value)


class Call:
    """One call: positional arguments, keyword-only ones, and the float tensors in the positional ones."""

    def __init__(self, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]):
        try:
            bound = signature.bind(*args, **kwargs)
            self.args, self.kwargs = bound.args, bound.kwargs
        except TypeError:
            self.args, self.kwargs = args, kwargs
        self.leaves, self.spec = tree.flatten(list(self.args), is_leaf)
        self.tensors = [i for i, leaf in enumerate(self.leaves) if is_tensor(leaf)]
        self.floats = [i for i in self.tensors if not carries_none(self.leaves[i].dtype)]

    def filled(self, places: list[int], values: Any, rest: Any = None) -> tuple[Any, ...]:
        """The positional arguments with some leaves replaced, and `rest` (or None) in the other places."""
        leaves = [None] * len(self.leaves) if rest is None else list(rest)
        for place, value in zip(places, values, strict=True):
            leaves[place] = value
        return tuple(tree.unflatten(self.spec, leaves))

    def by_argument(self, places: list[int], gradients: Any) -> Any:
        """Gradients of leaves as one a tensor argument, in the argument's structure; constants get None."""
        values = [g for a, g in zip(self.args, self.filled(places, gradients), strict=True) if _holds_tensor(a)]
        values += [None for value in self.kwargs.values() if _holds_tensor(value)]
        return values[0] if len(values) == 1 else values

    def arranger(self) -> Callable[[Any], Any]:
        """A function that drops, from gradients with one a positional argument, those of static arguments."""
        holds = [_holds_tensor(a) for a in self.args]
        constants = [None for value in self.kwargs.values() if _holds_tensor(value)]

        def arranged(returned: Any) -> Any:
            if not isinstance(returned, tuple | list) or hasattr(returned, "_fields") or len(returned) != len(holds):
                return returned
            if any(g is not None and not held for g, held in zip(returned, holds, strict=True)):
                return returned
            return [g for g, held in zip(returned, holds, strict=True) if held] + constants

        return arranged if constants or not all(holds) else lambda returned: returned

    def pushforward(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """A function of one tangent a tensor argument, by the user's `jvp(primals, tangents)`."""
        args, kwargs, own = self.args, self.kwargs, [i for i, a in enumerate(self.args) if _holds_tensor(a)]

        def push(*tangents: Any) -> Any:
            every: list[Any] = [None] * len(args)
            for place, tangent in zip(own, tangents, strict=False):
                every[place] = tangent
            result = jvp(args, tuple(every), **kwargs)
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise TypeError(f"jvp must return (output, tangent of the output), got a {type(result).__name__}")
            return result[1]

        return push

    def transpose(self, push: Any) -> Callable[..., Any]:
        """The grad that is the transpose of a pushforward."""
        call, b = self, backend_of(*(self.leaves[i] for i in self.tensors))
        zeros = [b.zeros_like(self.leaves[i]) for i in self.floats]
        own = [i for i, a in enumerate(self.args) if _holds_tensor(a)]

        def pushed(tangents: list[Any]) -> list[Any]:
            every = call.filled(call.floats, tangents)
            return tree.flatten(push(*(every[i] for i in own)), is_leaf)[0]

        def grad(*upstreams: Any) -> Any:
            flat = tree.flatten(list(upstreams), is_leaf)[0]
            return call.by_argument(call.floats, b.transposed(pushed, zeros, flat))

        return grad


def _holds_tensor(value: Any) -> bool:
    return any(map(is_tensor, tree.flatten(value, is_leaf)[0])) if tree.is_structure(value) else is_tensor(value)


def settled(returned: Any, wanted: tuple[bool, ...] | None = None) -> Any:
    """Compute gradients that were given lazily, as functions of no arguments.

    `wanted` tells for each tensor argument whether its gradient may be asked for; where it is known that nobody can,
    a lazy gradient is not computed.
    """
    if isinstance(returned, NotImplementedPartial):
        return returned() if wanted is None or any(wanted) else None
    if is_tensor(returned):
        return returned
    if isinstance(returned, dict):
        return {name: settled(value) for name, value in returned.items()}
    if isinstance(returned, tuple | list) and not hasattr(returned, "_fields"):
        if wanted is None or len(wanted) != len(returned):
            return type(returned)(settled(value) for value in returned)
        pairs = zip(returned, wanted, strict=True)
        return type(returned)(None if callable(v) and not w and not is_tensor(v) else settled(v) for v, w in pairs)
    return returned() if callable(returned) else returned
