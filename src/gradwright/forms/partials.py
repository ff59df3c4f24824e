"""Partials of an elementwise function: which argument each belongs to, and what it is called with."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from gradwright.errors import ArgumentError, Fault, GradientCountError, ModeError
from gradwright.space import kind_of

_PLACES = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class NotImplementedPartial:
    """A partial or a gradient that nobody has written; using it is an error, having it is none."""

    def __init__(self, reason: str):
        self.reason = reason

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: somebody wanted this gradient."""
        raise Fault(ModeError, f"a gradient that is not implemented was asked for: {self.reason}", "write this partial")


def not_implemented(reason: str) -> NotImplementedPartial:
    """Stand in for a partial or a gradient that is not written; it raises only when it is computed.

    >>> f = gw.elementwise(tf.math.igamma, (gw.forms.not_implemented("by the order a"), lambda a, x: ...))
    """
    return NotImplementedPartial(reason)


@dataclass(frozen=True, slots=True)
class Partial:
    """One partial and what it is called with: how many of the arguments (None: all), and the output or not."""

    value: Any
    takes: int | None = None
    wants_output: bool = False

    def __call__(self, args: tuple[Any, ...], out: Any) -> Any:
        """Compute the partial of a call."""
        if not callable(self.value):
            return self.value
        given = args if self.takes is None else args[: self.takes]
        return self.value(*given, out) if self.wants_output else self.value(*given)


def read_partial(value: Any, arguments: int | None) -> Partial:
    """Look at the parameters of a partial for a call with so many arguments.

    The output comes last, where the parameter is named `out` or `output`, or there is one more than arguments.

    >>> read_partial(lambda x, out: 1 + out**2, 1).wants_output
    True
    """
    if not callable(value) or isinstance(value, NotImplementedPartial):
        return Partial(value, 0)
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return Partial(value)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return Partial(value)
    names = [p.name for p in parameters if p.kind in _PLACES and p.default is p.empty]
    wants = bool(names) and (names[-1] in ("out", "output") or (arguments is not None and len(names) > arguments))
    return Partial(value, len(names) - wants, wants)


class Partials:
    """All partials of a function, as they were written."""

    def __init__(self, written: Any, names: list[str]):
        if written is None or isinstance(written, str):
            raise ArgumentError(f"gw.elementwise: partials are functions or constants, got {written!r}")
        if isinstance(written, Mapping):
            unknown = [name for name in written if name not in names]
            if unknown:
                raise ArgumentError(
                    f"gw.elementwise: a partial for `{unknown[0]}`; the arguments are {', '.join(names)}"
                )
            written = [written.get(name) for name in names]
        self.alone = not isinstance(written, list | tuple)
        self.written = [written] if self.alone else list(written)
        self._read: dict[int, list[Partial]] = {}

    def read(self, arguments: int) -> list[Partial]:
        """The partials of a call with so many arguments."""
        if arguments not in self._read:
            self._read[arguments] = [read_partial(value, arguments) for value in self.written]
        return self._read[arguments]

    def needs(self, arguments: int) -> tuple[int, bool]:
        """How many of the arguments, and whether the output, must be kept for the partials."""
        read = self.read(arguments)
        return max(arguments if p.takes is None else p.takes for p in read), any(p.wants_output for p in read)

    def all_at(self, args: tuple[Any, ...], out: Any, arguments: int, dtypes: list[Any]) -> list[Any]:
        """The partials of a call, one an argument: None where it is no float tensor or not differentiable."""
        wanted = [i for i, dtype in enumerate(dtypes) if dtype is not None and not carries_none(dtype)]
        read = self.read(arguments)
        if self.alone:
            value = read[0](args, out)
            values = list(value) if isinstance(value, list | tuple) else [value]
        else:
            live = [i in wanted and p.value is not None for i, p in enumerate(read)]
            values = [p(args, out) if alive else None for alive, p in zip(live, read, strict=True)]
        if any(i >= len(values) for i in wanted):
            raise too_few(len(values), len(wanted))
        return [values[i] if i in wanted else None for i in range(arguments)]


@functools.lru_cache(maxsize=128)
def carries_none(dtype: Any) -> bool:
    """Whether a tensor of this dtype has no gradient: integers, bools, strings."""
    dtype = getattr(dtype, "base_dtype", dtype)
    return kind_of((getattr(dtype, "name", None) or str(dtype)).removeprefix("torch.")) == "none"


def too_few(partials: int, wanted: int) -> Fault:
    """Say that there are fewer partials than arguments that want one."""
    return Fault(
        GradientCountError,
        f"there {'is 1 partial' if partials == 1 else f'are {partials} partials'}, and the call has "
        f"{wanted} arguments to differentiate",
        "give one partial an argument, None for one that is not differentiable: "
        f"gw.elementwise(f, ({', '.join(['lambda ...'] * wanted)}))",
    )
