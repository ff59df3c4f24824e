"""What one partial is called with: its parameters are bound to the arguments of a call by name, or all by place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gradwright.errors import ArgumentError, Fault

OUTPUT = -1
_OUTPUT_NAMES = ("out", "output")
_PLACES = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Default:
    """The value of an argument that a call left out."""

    value: Any


@dataclass(frozen=True, slots=True)
class Partial:
    """One partial and what it is called with: places among the arguments, OUTPUT, or defaults; None: every argument."""

    value: Any
    sources: tuple[Any, ...] | None = None

    def __call__(self, args: tuple[Any, ...], out: Any) -> Any:
        """Compute the partial of a call."""
        if not callable(self.value):
            return self.value
        if self.sources is None:
            return self.value(*args)
        return self.value(*(_found(source, args, out) for source in self.sources))

    def places(self, arguments: int) -> set[int]:
        """Which of so many arguments it uses."""
        if self.sources is None:
            return set(range(arguments))
        return {s for s in self.sources if not isinstance(s, Default) and s != OUTPUT}

    @property
    def wants_output(self) -> bool:
        """Whether it uses the output."""
        return self.sources is not None and OUTPUT in self.sources


def _found(source: Any, args: tuple[Any, ...], out: Any) -> Any:
    if isinstance(source, Default):
        return source.value
    return out if source == OUTPUT else args[source]


def bind(value: Callable[..., Any], names: tuple[str, ...], defaults: Mapping[str, Any]) -> Partial:
    """Bind a partial to a call by the names of its arguments; `defaults` are those of arguments left out.

    By name where each parameter, besides the output, has the name of an argument; by place where there is one
    parameter an argument. The output is named `out` or `output`, or comes last, one more than the arguments.

    >>> bind(lambda b, out: out / b, ("a", "b"), {}).sources
    (1, -1)
    """
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return Partial(value)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return Partial(value)
    placed = [p for p in parameters if p.kind in _PLACES]
    required = [p.name for p in placed if p.default is p.empty]
    named: dict[str, Any] = {name: Default(v) for name, v in defaults.items()}
    named |= dict.fromkeys(_OUTPUT_NAMES, OUTPUT) | {name: place for place, name in enumerate(names)}
    if all(name in named for name in required):
        return Partial(value, tuple(_by_name(placed, named, len(required))))
    return Partial(value, _by_place(required, names))


def _by_name(placed: list[inspect.Parameter], named: Mapping[str, Any], required: int) -> list[Any]:
    """The sources of the required parameters, and of the optional ones as far as they are arguments too."""
    sources = [named[p.name] for p in placed[:required]]
    for p in placed[required:]:
        sources.append(named.get(p.name, Default(p.default)))
    return sources


def _by_place(required: list[str], names: tuple[str, ...]) -> tuple[int, ...]:
    """One parameter an argument, in order, and the output after them."""
    count, wants = len(names), required[-1] in _OUTPUT_NAMES or len(required) > len(names)
    if len(required) - wants != count:
        raise _miscounted(required, len(required) - wants, names)
    return (*range(count), OUTPUT) if wants else tuple(range(count))


def _miscounted(required: list[str], taken: int, names: tuple[str, ...]) -> Fault:
    """Say that a partial takes another number of arguments than the call has, under names that are not theirs."""
    known = all(name.isidentifier() for name in names)
    own = names if known else tuple(f"x{i}" for i in range(len(names)))
    return Fault(
        ArgumentError,
        f"a partial takes {taken} {'argument' if taken == 1 else 'arguments'} ({', '.join(required)}) of the "
        f"{len(names)} of the call ({', '.join(names)}), and its names do not say which",
        f"take them all, lambda {', '.join(own)}: ...{', or some by their own names' if known else ''}",
    )
