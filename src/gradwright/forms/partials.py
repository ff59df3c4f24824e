"""Partials of an elementwise function: which argument each belongs to, and what it is called with."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any, NoReturn

from gradwright.errors import ArgumentError, Fault, GradientCountError, ModeError
from gradwright.forms.binding import Partial, bind
from gradwright.space import kind_of


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


class Partials:
    """All partials of a function, as they were written."""

    def __init__(self, written: Any, signature: inspect.Signature | None):
        parameters = list(signature.parameters.values()) if signature else []
        names = [p.name for p in parameters]
        self.defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
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
        self._read: dict[tuple[str, ...], list[Partial]] = {}

    def read(self, names: tuple[str, ...]) -> list[Partial]:
        """The partials of a call whose arguments have these names."""
        if names not in self._read:
            left_out = {name: value for name, value in self.defaults.items() if name not in names}
            self._read[names] = [
                bind(value, names, left_out)
                if callable(value) and not isinstance(value, NotImplementedPartial)
                else Partial(value, ())
                for value in self.written
            ]
        return self._read[names]

    def needs(self, names: tuple[str, ...]) -> tuple[set[int], bool]:
        """Which of the arguments, and whether the output, must be kept for the partials."""
        read = self.read(names)
        return set().union(*(p.places(len(names)) for p in read)), any(p.wants_output for p in read)

    def all_at(self, args: tuple[Any, ...], out: Any, names: tuple[str, ...], dtypes: list[Any]) -> list[Any]:
        """The partials of a call, one an argument: None where it is no float tensor or not differentiable."""
        wanted = [i for i, dtype in enumerate(dtypes) if dtype is not None and not carries_none(dtype)]
        read = self.read(names)
        if self.alone:
            value = read[0](args, out)
            values = list(value) if isinstance(value, list | tuple) else [value]
        else:
            live = [i in wanted and p.value is not None for i, p in enumerate(read)]
            values = [p(args, out) if alive else None for alive, p in zip(live, read, strict=True)]
        if any(i >= len(values) for i in wanted):
            raise too_few(len(values), len(wanted))
        return [values[i] if i in wanted else None for i in range(len(names))]


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
