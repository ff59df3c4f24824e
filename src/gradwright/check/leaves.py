"""The arguments of a call as a flat list of named leaves, and back."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast


@dataclass(frozen=True)
class Slot:
    """One leaf of the arguments: its path name and the value the user gave."""

    name: str
    value: Any


@dataclass
class Call:
    """A call, bound to its signature; `fill` makes the same call with other leaves.

    >>> call = Call.bind(lambda x, k=2: None, (1.0,), {})
    >>> [slot.name for slot in call.slots], call.fill([3.0])
    (['x'], ((3.0,), {}))
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    slots: list[Slot] = field(default_factory=list)

    @classmethod
    def bind(cls, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], keep: bool = False) -> Call:
        """Bind and name. Keywords that may stand in a position move there, unless the call is to be kept as it is.

        Raises TypeError when the arguments do not fit the signature.
        """
        signature = _signature(fn)
        if signature is None:
            slots = [slot for i, value in enumerate(args) for slot in walk(f"args[{i}]", value)]
            return cls(args, kwargs, slots + [slot for key in kwargs for slot in walk(key, kwargs[key])])
        bound = signature.bind(*args, **kwargs)
        slots = []
        places = list(bound.arguments.items())
        if keep:
            # The order of `fill`: what was given by position first, then the keywords as they were written.
            places.sort(key=lambda item: list(kwargs).index(item[0]) + len(places) if item[0] in kwargs else 0)
        for name, value in places:
            if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                slots += [slot for key in value for slot in walk(key, value[key])]
            else:
                slots += walk(name, value)
        return cls(args, kwargs, slots) if keep else cls(bound.args, bound.kwargs, slots)

    def fill(self, values: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with their leaves, in order, replaced."""
        source = iter(values)
        args = tuple(_refill(value, source) for value in self.args)
        return args, {key: _refill(value, source) for key, value in self.kwargs.items()}


def _signature(fn: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return None


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """The children of a container with their path endings; None for a leaf."""
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", value[key]) for key in _keys(value)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", getattr(value, name)) for name in cast(Any, value)._fields]
    if isinstance(value, (list, tuple)):
        return [(f"[{i}]", item) for i, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f".{f.name}", getattr(value, f.name)) for f in dataclasses.fields(value)]
    return None


def _keys(value: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(value)
    except TypeError:
        return list(value)


def walk(name: str, value: Any) -> Iterator[Slot]:
    """All leaves below `value`, named by their paths: `grads['b']`, `xs[0]`."""
    parts = _parts(value)
    if parts is None:
        yield Slot(name, value)
        return
    for ending, part in parts:
        yield from walk(name + ending, part)


def _refill(value: Any, source: Iterator[Any]) -> Any:
    if isinstance(value, Mapping):
        filled = {key: _refill(value[key], source) for key in _keys(value)}
        return {key: filled[key] for key in value}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_refill(item, source) for item in value])
    if isinstance(value, (list, tuple)):
        return type(value)([_refill(item, source) for item in value])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: _refill(getattr(value, name), source) for name in names})
    return next(source)
