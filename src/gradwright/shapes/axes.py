"""Functions that rename, order, join and cut apart axes; no number changes its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwright.backends import backend_of
from gradwright.shapes import plan
from gradwright.shapes.pair import Pair, linear_pair, shape_function


def _reshaped(name: str, b, x, to) -> Pair:
    origin = b.shape(x)
    return linear_pair(name, b, x, b.reshape(x, to), lambda up: b.reshape(up, origin), lambda t: b.reshape(t, to))


@shape_function
def reshape(x: Any, shape: Any) -> Pair:
    """Reshape, and the way back.

    >>> y, back = gw.shapes.reshape(tf.ones([2, 6]), [3, -1])
    >>> y.shape, back(y).shape
    (TensorShape([3, 4]), TensorShape([2, 6]))
    """
    b = backend_of(x, shape)
    return _reshaped("reshape", b, b.tensor(x), plan.int_list(b, shape))


@shape_function
def flatten(x: Any, start: int = 0, end: int = -1) -> Pair:
    """Join the axes from `start` to `end` (both included) into one; all of them by default.

    >>> y, back = gw.shapes.flatten(tf.ones([2, 3, 4]))
    >>> y.shape, back(y).shape
    (TensorShape([24]), TensorShape([2, 3, 4]))
    >>> y, back = gw.shapes.flatten(tf.ones([2, 3, 4]), 1)      # keep the batch axis
    >>> y.shape
    TensorShape([2, 12])
    """
    b = backend_of(x)
    x = b.tensor(x)
    sizes = b.static(x)
    if sizes is None and (start, end) == (0, -1):
        return _reshaped("flatten", b, x, (-1,))
    if sizes is None:
        raise ValueError("the rank of `x` must be known when only some axes are joined")
    if not sizes:
        return _reshaped("flatten", b, x, (1,))
    first, last = plan.axis_of(start, len(sizes), "start"), plan.axis_of(end, len(sizes), "end")
    if first > last:
        raise ValueError(f"`start` (axis {first}) lies behind `end` (axis {last})")
    return _reshaped("flatten", b, x, _joined(b, x, sizes, first, last))


def _joined(b, x, sizes, first, last):
    inner = sizes[first : last + 1]
    middle = -1 if None in inner else _product(inner)
    kept = [b.size_along(x, i) for i in range(len(sizes)) if not first <= i <= last]
    to = [*kept[:first], middle, *kept[first:]]
    return tuple(to) if plan.all_known(to) else b.integers(to)


def _product(sizes: Sequence[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


@shape_function
def expand_dims(x: Any, axis: Any) -> Pair:
    """Add axes of size 1; `axis` is one place of the result or several.

    >>> y, back = gw.shapes.expand_dims(tf.ones([2, 3]), -1)
    >>> y.shape, back(y).shape
    (TensorShape([2, 3, 1]), TensorShape([2, 3]))
    """
    b = backend_of(x, axis)
    x, axis, origin = b.tensor(x), b.known(axis), None
    count = 1 if not isinstance(axis, list | tuple) else len(axis)
    rank = None if b.static(x) is None else len(b.static(x)) + count
    axes = sorted(plan.axes_of(axis if isinstance(axis, list | tuple) else plan.whole(axis, "axis"), rank))
    origin = b.shape(x)
    return linear_pair(
        "expand_dims", b, x, b.expand_dims(x, axes), lambda up: b.reshape(up, origin), lambda t: b.expand_dims(t, axes)
    )


@shape_function
def squeeze(x: Any, axis: Any = None) -> Pair:
    """Drop axes of size 1: the given ones, or all.

    >>> y, back = gw.shapes.squeeze(tf.ones([1, 3, 1]), -1)
    >>> y.shape, back(y).shape
    (TensorShape([1, 3]), TensorShape([1, 3, 1]))
    """
    b = backend_of(x, axis)
    x, axis = b.tensor(x), b.known(axis)
    sizes = b.static(x)
    if axis is not None:
        axis = axis if isinstance(axis, list | tuple) else plan.whole(axis, "axis")
        axis = plan.axes_of(axis, None if sizes is None else len(sizes))
        wide = [] if sizes is None else [(a, sizes[a]) for a in axis if sizes[a] not in (1, None)]
        if wide:
            raise ValueError(f"axis {wide[0][0]} has size {wide[0][1]}, only size 1 can be dropped")
    origin = b.shape(x)
    return linear_pair(
        "squeeze", b, x, b.squeeze(x, axis), lambda up: b.reshape(up, origin), lambda t: b.squeeze(t, axis)
    )


@shape_function
def transpose(x: Any, perm: Any = None) -> Pair:
    """Order the axes by `perm` (reversed by default); back is the inverse permutation, not the same one.

    >>> y, back = gw.shapes.transpose(tf.ones([2, 3, 4]), [1, 2, 0])
    >>> y.shape, back(y).shape
    (TensorShape([3, 4, 2]), TensorShape([2, 3, 4]))
    """
    b = backend_of(x, perm)
    x = b.tensor(x)
    return _transposed("transpose", b, x, None if perm is None else plan.int_list(b, perm))


def _transposed(name: str, b, x, perm) -> Pair:
    sizes = b.static(x)
    if perm is None and sizes is not None:
        perm = tuple(reversed(range(len(sizes))))
    if not isinstance(perm, tuple):
        return linear_pair(
            name, b, x, b.transpose(x, perm), lambda up: b.untranspose(up, perm), lambda t: b.transpose(t, perm)
        )
    order = plan.axes_of(perm, len(perm), "perm")
    if sizes is not None and len(order) != len(sizes):
        raise ValueError(f"`perm` orders {len(order)} axes, `x` has {len(sizes)}")
    undo = plan.inverse(order)
    return linear_pair(
        name, b, x, b.transpose(x, order), lambda up: b.transpose(up, undo), lambda t: b.transpose(t, order)
    )


@shape_function
def moveaxis(x: Any, source: Any, destination: Any) -> Pair:
    """Move axes to new places; the others keep their order.

    >>> y, back = gw.shapes.moveaxis(tf.ones([2, 3, 4]), 0, -1)
    >>> y.shape, back(y).shape
    (TensorShape([3, 4, 2]), TensorShape([2, 3, 4]))
    """
    b = backend_of(x, source, destination)
    x = b.tensor(x)
    if b.static(x) is None:
        raise ValueError("the rank of `x` must be known")
    rank = len(b.static(x))
    start = plan.axes_of(plan.int_list(b, source), rank, "source")
    goal = plan.axes_of(plan.int_list(b, destination), rank, "destination")
    if len(start) != len(goal):
        raise ValueError(f"`source` names {len(start)} axes, `destination` {len(goal)}")
    return _transposed("moveaxis", b, x, plan.moved(rank, start, goal))
