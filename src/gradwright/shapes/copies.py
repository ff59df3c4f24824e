"""Functions that copy numbers to several places; back adds the copies up again."""

from __future__ import annotations

from typing import Any

from gradwright.backends import backend_of
from gradwright.shapes import plan
from gradwright.shapes.pair import Pair, linear_pair, shape_function

MODES = ("constant", "reflect", "symmetric", "edge", "wrap")


@shape_function
def broadcast_to(x: Any, shape: Any) -> Pair:
    """Stretch x to a shape; back sums over the axes that were added or stretched.

    >>> y, back = gw.shapes.broadcast_to(tf.ones([3, 1]), [2, 3, 4])
    >>> back(tf.ones_like(y)).numpy().tolist()
    [[8.0], [8.0], [8.0]]
    """
    b = backend_of(x, shape)
    x, to = b.tensor(x), plan.int_list(b, shape)
    origin = b.shape(x)
    return linear_pair(
        "broadcast_to",
        b,
        x,
        b.broadcast_to(x, to),
        lambda up: _summed(b, up, origin),
        lambda t: b.broadcast_to(t, to),
    )


def _summed(b, up, origin):
    target = b.shape(up)
    if not (plan.all_known(origin) and plan.all_known(target)):
        return b.unbroadcast(up, origin)
    axes = plan.stretched_axes(origin, target)
    return b.reshape(b.total(up, axes), origin) if axes else up


@shape_function
def tile(x: Any, multiples: Any) -> Pair:
    """Lay copies of x side by side, `multiples[i]` of them along axis i; back adds the copies.

    >>> y, back = gw.shapes.tile(tf.constant([1., 2.]), [3])
    >>> y.numpy().tolist(), back(tf.range(6.)).numpy().tolist()
    ([1.0, 2.0, 1.0, 2.0, 1.0, 2.0], [6.0, 9.0])
    """
    b = backend_of(x, multiples)
    x, times = b.tensor(x), plan.int_list(b, multiples)
    sizes = b.static(x)
    if isinstance(times, tuple) and sizes is not None and len(times) != len(sizes):
        raise ValueError(f"`multiples` has {len(times)} numbers, `x` has {len(sizes)} axes")
    origin = b.shape(x)
    return linear_pair(
        "tile", b, x, b.tile(x, times), lambda up: _untiled(b, up, times, origin), lambda t: b.tile(t, times)
    )


def _untiled(b, up, times, origin):
    if not (plan.all_known(times) and plan.all_known(origin)):
        return b.untile(up, times, origin)
    paired = [n for pair in zip(times, origin, strict=True) for n in pair]
    return b.total(b.reshape(up, paired), list(range(0, len(paired), 2)))


@shape_function
def repeat(x: Any, repeats: Any, axis: Any = None) -> Pair:
    """Repeat each element along an axis (of the flat x by default); back adds the repeats.

    >>> y, back = gw.shapes.repeat(tf.constant([5., 7.]), [1, 2])
    >>> y.numpy().tolist(), back(tf.constant([1., 10., 100.])).numpy().tolist()
    ([5.0, 7.0, 7.0], [1.0, 110.0])
    """
    from gradwright.shapes.chaining import chain

    b = backend_of(x, repeats)
    x = b.tensor(x)
    if axis is None:
        from gradwright.shapes.axes import flatten

        return chain(x, flatten, lambda flat: repeat(flat, repeats, 0))
    along = _counted(b, x, axis)
    size = b.size_along(x, along)
    counts = b.known(repeats)
    if hasattr(counts, "tolist"):
        counts = counts.tolist()
    if isinstance(counts, list | tuple) and isinstance(size, int) and len(counts) not in (1, size):
        raise ValueError(f"`repeats` has {len(counts)} numbers, axis {along} of `x` has size {size}")
    return _picked("repeat", b, x, b.index(b.repeated(size, counts)), along)


def _counted(b, x, axis) -> int:
    sizes = b.static(x)
    return plan.axis_of(plan.known_int(b, axis, "axis"), None if sizes is None else len(sizes))


def _picked(name: str, b, x, indices, axis: int, batch_dims: int = 0) -> Pair:
    """Take places along an axis, any number of times; back adds each to the place it came from."""
    origin, sizes = b.shape(x), b.static(x)
    rank = None if sizes is None else len(sizes)
    return linear_pair(
        name,
        b,
        x,
        b.gather(x, indices, axis, batch_dims),
        lambda up: b.ungather(up, indices, axis, batch_dims, origin, rank),
        lambda t: b.gather(t, indices, axis, batch_dims),
    )


@shape_function
def gather(x: Any, indices: Any, axis: Any = None, batch_dims: int = 0) -> Pair:
    """Take places along an axis; a place taken twice gets both upstreams added.

    >>> y, back = gw.shapes.gather(tf.constant([5., 6., 7.]), [2, 0, 2])
    >>> y.numpy().tolist(), back(tf.constant([1., 10., 100.])).numpy().tolist()
    ([7.0, 5.0, 7.0], [10.0, 0.0, 101.0])
    """
    b = backend_of(x, indices)
    x, indices = b.tensor(x), b.index(indices)
    batch = plan.known_int(b, batch_dims, "batch_dims")
    batch = batch if batch >= 0 else batch + len(b.static(indices) or ())
    along = _counted(b, x, batch if axis is None else axis)
    if along >= 0 and not 0 <= batch <= along:
        raise ValueError(f"`batch_dims` is {batch} and may be at most `axis`, which is {along}")
    return _picked("gather", b, x, indices, along, batch)


@shape_function
def pad(x: Any, paddings: Any, mode: str = "constant", constant_values: Any = 0) -> Pair:
    """Put a border around x: constant, or mirrored (reflect, symmetric), or edge, or wrap.

    >>> y, back = gw.shapes.pad(tf.constant([1., 2., 3.]), [[1, 1]], "reflect")
    >>> y.numpy().tolist(), back(tf.ones_like(y)).numpy().tolist()
    ([2.0, 1.0, 2.0, 3.0, 2.0], [1.0, 3.0, 1.0])
    """
    from gradwright.shapes.chaining import chain

    b = backend_of(x, paddings)
    x, kind = b.tensor(x), str(mode).lower()
    if kind not in MODES:
        raise ValueError(f"`mode` must be one of {', '.join(MODES)}")
    widths = b.known(paddings)
    if not hasattr(widths, "shape"):
        widths = [plan.int_list(b, pair) for pair in widths]
    sizes = b.static(x)
    if sizes is not None and len(widths) != len(sizes):
        raise ValueError(f"`paddings` has {len(widths)} pairs, `x` has {len(sizes)} axes")
    if kind == "constant":
        return _bordered(b, x, widths, constant_values)
    if sizes is None:
        raise ValueError(f"the rank of `x` must be known for {kind!r}")
    return chain(x, *(_mirror(b, axis, pair, kind) for axis, pair in enumerate(widths)))


def _bordered(b, x, widths, value) -> Pair:
    origin = b.shape(x)
    before = plan.int_list(b, [pair[0] for pair in widths]) if isinstance(widths, list) else widths[:, 0]
    return linear_pair(
        "pad", b, x, b.pad(x, widths, value), lambda up: b.cut(up, before, origin), lambda t: b.pad(t, widths, 0)
    )


def _mirror(b, axis: int, pair, mode: str):
    before, after = pair[0], pair[1]
    if all(isinstance(p, int) and p == 0 for p in (before, after)):
        return lambda x: linear_pair("pad", b, x, x, lambda up: up, lambda t: t)
    return lambda x: _picked("pad", b, x, b.index(b.mirrored(b.size_along(x, axis), before, after, mode)), axis)
