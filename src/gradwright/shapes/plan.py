"""Decisions on axes and sizes, free of frameworks: which axis is meant, what undoes a permutation."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import ModuleType
from typing import Any


def whole(value: Any, name: str) -> int:
    """Read an axis or a count that must be one whole number known now."""
    try:
        return operator.index(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be one whole number that is known now, got {value!r}") from None


def known_int(b: ModuleType, value: Any, name: str) -> int:
    """Read one number that may be a python, numpy or tensor value."""
    return whole(b.known(value), name)


def int_list(b: ModuleType, value: Any) -> Any:
    """Read a list of sizes: python ints where all are known, else the framework's index tensor."""
    value = b.known(value)
    if hasattr(value, "shape") and not hasattr(value, "tolist"):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, int):
        return (value,)
    items = [b.known(v) for v in value]
    if any(hasattr(v, "shape") and not hasattr(v, "item") for v in items):
        return b.integers(items)
    return tuple(whole(v, "sizes") for v in items)


def axis_of(axis: int, rank: int | None, name: str = "axis") -> int:
    """Count an axis from the front.

    >>> axis_of(-1, 3)
    2
    """
    if rank is None:
        return axis
    if not -rank <= axis < rank:
        raise ValueError(f"`{name}` is {axis}, and there are {rank} axes")
    return axis % rank


def axes_of(axes: Any, rank: int | None, name: str = "axis") -> list[int]:
    """Count one axis or several from the front; none may be named twice."""
    listed = [axes] if isinstance(axes, int) else list(axes)
    found = [axis_of(whole(a, name), rank, name) for a in listed]
    if len(set(found)) < len(found):
        raise ValueError(f"`{name}` names an axis twice: {listed}")
    return found


def inverse(perm: Sequence[int]) -> tuple[int, ...]:
    """Give the permutation that undoes another.

    >>> inverse((1, 2, 0))
    (2, 0, 1)
    """
    undone = [0] * len(perm)
    for place, axis in enumerate(perm):
        undone[axis] = place
    return tuple(undone)


def moved(rank: int, source: Sequence[int], destination: Sequence[int]) -> tuple[int, ...]:
    """Give the permutation that moves axes to new places and keeps the order of the others.

    >>> moved(3, (0,), (2,))
    (1, 2, 0)
    """
    rest = iter(axis for axis in range(rank) if axis not in source)
    target = dict(zip(destination, source, strict=True))
    return tuple(target[place] if place in target else next(rest) for place in range(rank))


def stretched_axes(sizes: Sequence[int], target: Sequence[int]) -> list[int]:
    """Give the axes of the target that broadcasting added or stretched.

    >>> stretched_axes((3, 1), (5, 3, 4))
    [0, 2]
    """
    extra = len(target) - len(sizes)
    grown = [extra + i for i, size in enumerate(sizes) if size == 1 != target[extra + i]]
    return [*range(extra), *grown]


def all_known(sizes: Any) -> bool:
    """Say whether every size is an int."""
    return isinstance(sizes, tuple | list) and all(isinstance(s, int) for s in sizes)
