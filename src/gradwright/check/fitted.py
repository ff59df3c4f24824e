"""One raw gradient against its input: what fits, what would have to be repaired, what cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwright.check.report import Fault


@dataclass(frozen=True)
class Leaf:
    """An input whose gradient is to be proven: an argument's leaf or a captured variable."""

    name: str
    kind: str
    like: Any
    dtype: str
    shape: tuple[int, ...]

    @property
    def complex(self) -> bool:
        """Whether the input is complex."""
        return self.dtype.startswith("complex")


@dataclass(frozen=True)
class Fitted:
    """A gradient in the shape of its input (None where there is none), and what had to be said about it."""

    value: np.ndarray | None
    raw: np.ndarray | None
    fault: Fault | None = None
    repair: Fault | None = None


def fit(leaf: Leaf, raw: np.ndarray | None, dtype: str | None, code: Any) -> Fitted:
    """Bring a raw gradient into the input's shape and say what was wrong with it, by the table of repairs."""
    if raw is None:
        return Fitted(None, None)
    wide = raw.astype(np.complex128 if np.iscomplexobj(raw) else np.float64)
    odd = _dtype_fault(leaf, dtype or raw.dtype.name, code)
    if odd and odd[0] == "fault" and np.iscomplexobj(wide) and not leaf.complex:
        wide = wide.real
    axes = surplus(leaf.shape, raw.shape)
    if axes is None:
        return Fitted(None, wide, _shape_fault(leaf, raw.shape, code))
    value = wide.sum(axis=axes).reshape(leaf.shape) if axes else wide.reshape(leaf.shape)
    fault = odd[1] if odd and odd[0] == "fault" else None
    repair = odd[1] if odd and odd[0] == "repair" else None
    if axes:
        repair = unsummed(leaf, raw.shape, axes, code)
    return Fitted(value, wide, fault, repair)


def no_tensor(leaf: Leaf, raw: Any) -> Fault:
    """The fault of a gradient that is no dense tensor of numbers."""
    kind = getattr(getattr(raw, "dtype", None), "name", None)
    what = f"a {type(raw).__name__}" + (f" of dtype {kind}" if kind else "")
    said = f"the gradient of `{leaf.name}` is {what}, which is no tensor of numbers"
    return Fault("dtype", leaf.name, said, f"return a dense {leaf.dtype} tensor")


def surplus(shape: tuple[int, ...], got: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of `got` that broadcasting of `shape` added; None when broadcasting does not explain `got`.

    >>> surplus((3,), (2, 3)), surplus((3, 1), (3, 4)), surplus((3,), (3, 2))
    ((0,), (1,), None)
    """
    lead = len(got) - len(shape)
    if lead < 0:
        return None
    pairs = list(enumerate(zip(shape, got[lead:], strict=True), start=lead))
    if any(want != have and want != 1 for _, (want, have) in pairs):
        return None
    return (*range(lead), *[axis for axis, (want, have) in pairs if want != have])


def unsummed(leaf: Leaf, got: tuple[int, ...], axes: tuple[int, ...], code: Any) -> Fault:
    """The fault (or the repair) of a gradient that still has the broadcast axes."""
    told = f"axis {axes[0]}" if len(axes) == 1 else "axes " + ", ".join(map(str, axes))
    return Fault(
        "not-summed",
        leaf.name,
        f"the gradient of `{leaf.name}` was not summed over {told}: it has shape {tuple(got)}, "
        f"the input {tuple(leaf.shape)}",
        repair=code.sum("g", axes, len(got) - len(leaf.shape)),
    )


def _shape_fault(leaf: Leaf, got: tuple[int, ...], code: Any) -> Fault:
    fact = f"the gradient of `{leaf.name}` has shape {tuple(got)}, the input has {tuple(leaf.shape)}"
    if int(np.prod(got)) == int(np.prod(leaf.shape)):
        repair = code.reshape("g", leaf.shape)
    elif surplus(got, leaf.shape) is not None:
        repair = code.broadcast("g", leaf.name)
    else:
        repair = None
    return Fault("shape", leaf.name, fact, repair=repair)


def _dtype_fault(leaf: Leaf, got: str, code: Any) -> tuple[str, Fault] | None:
    if got == leaf.dtype:
        return None
    message = f"the gradient of `{leaf.name}` is {got}, the input is {leaf.dtype}"
    fault = Fault("dtype", leaf.name, message, repair=code.cast("g", leaf.name))
    numeric = got.startswith(("float", "bfloat", "complex"))
    castable = numeric and (leaf.complex or not got.startswith("complex"))
    return ("repair" if castable else "fault"), fault
