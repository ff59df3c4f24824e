"""Functions that cut tensors apart and join them; back does the other."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from gradwright.backends import backend_of
from gradwright.shapes import plan
from gradwright.shapes.pair import Pair, linear_pair, shape_function

KEYS = (builtins.slice, type(Ellipsis), type(None), int)


@shape_function
def slice(x: Any, begin: Any, size: Any = None) -> Pair:
    """Cut a block out, by `begin` and `size` or by a key as in `x[key]`; back puts it back among zeros.

    >>> y, back = gw.shapes.slice(tf.range(5.), [1], [3])
    >>> y.numpy().tolist(), back(y).numpy().tolist()
    ([1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0, 0.0])
    >>> y, back = gw.shapes.slice(tf.range(5.), np.s_[::2])
    >>> y.numpy().tolist(), back(y).numpy().tolist()
    ([0.0, 2.0, 4.0], [0.0, 0.0, 2.0, 0.0, 4.0])

    A size of -1 reaches to the end. Slices that overlap each give their own gradient; their sum is the rule's.
    """
    b = backend_of(x, begin, size)
    x = b.tensor(x)
    if size is None:
        return _keyed(b, x, begin)
    begin, size, sizes = plan.int_list(b, begin), plan.int_list(b, size), b.static(x)
    for name, value in (("begin", begin), ("size", size)):
        if isinstance(value, tuple) and sizes is not None and len(value) != len(sizes):
            raise ValueError(f"`{name}` has {len(value)} numbers, `x` has {len(sizes)} axes")
    return _block(b, x, begin, size)


def _block(b, x, begin, size) -> Pair:
    origin = b.shape(x)
    if plan.all_known(begin) and plan.all_known(size) and plan.all_known(origin):
        size = tuple(o - s if n == -1 else n for o, s, n in zip(origin, begin, size, strict=True))
        behind = tuple(o - s - n for o, s, n in zip(origin, begin, size, strict=True))
        if any(n < 0 for n in (*begin, *behind, *size)):
            raise ValueError(f"from {builtins.list(begin)}, {builtins.list(size)} numbers do not lie within the shape")
        part = b.cut(x, begin, size)
    else:
        part = b.cut(x, begin, size)
        behind = b.rest(origin, begin, part)
    return linear_pair("slice", b, x, part, lambda up: b.uncut(up, begin, behind), lambda t: b.cut(t, begin, size))


def _keyed(b, x, key) -> Pair:
    parts = key if isinstance(key, tuple) else (key,)
    if not all(isinstance(p, KEYS) or getattr(p, "ndim", None) == 0 for p in parts):
        raise TypeError("without `size`, the second argument is a key: slices, whole numbers, `...` or None")
    origin = b.shape(x)
    return linear_pair(
        "slice", b, x, b.take_key(x, key), lambda up: b.untake_key(up, key, origin), lambda t: b.take_key(t, key)
    )


def _list(xs: Any) -> list:
    if not isinstance(xs, Sequence) or isinstance(xs, str) or not xs:
        raise TypeError("the first argument must be a list of one or more tensors")
    return [*xs]


def _tensors(b, xs: list) -> list:
    like = next((x for x in xs if hasattr(x, "dtype")), None)
    return [b.tensor(x, like) for x in xs]


@shape_function
def concat(xs: Sequence[Any], axis: Any) -> Pair:
    """Join tensors along an axis that they have; back gives each its part.

    >>> y, back = gw.shapes.concat([tf.ones([2, 1]), tf.ones([2, 3])], -1)
    >>> y.shape, [g.shape for g in back(y)]
    (TensorShape([2, 4]), [TensorShape([2, 1]), TensorShape([2, 3])])
    """
    xs = _list(xs)
    b = backend_of(*xs)
    xs = _tensors(b, xs)
    rank = next((len(s) for s in map(b.static, xs) if s is not None), None)
    along = plan.axis_of(plan.known_int(b, axis, "axis"), rank)
    sizes = [b.size_along(x, along) for x in xs]
    return linear_pair(
        "concat",
        b,
        xs,
        b.concat(xs, along),
        lambda up: b.unconcat(up, sizes, along),
        lambda ts: b.concat(ts, along),
    )


@shape_function
def stack(xs: Sequence[Any], axis: Any = 0) -> Pair:
    """Join tensors along a new axis; back gives each its part.

    >>> y, back = gw.shapes.stack([tf.ones([2]), tf.zeros([2])], -1)
    >>> [g.numpy().tolist() for g in back(y)]
    [[1.0, 1.0], [0.0, 0.0]]
    """
    xs = _list(xs)
    b = backend_of(*xs)
    xs = _tensors(b, xs)
    rank = next((len(s) + 1 for s in map(b.static, xs) if s is not None), None)
    along, count = plan.axis_of(plan.known_int(b, axis, "axis"), rank), len(xs)
    return linear_pair(
        "stack", b, xs, b.stack(xs, along), lambda up: b.unstack(up, count, along), lambda ts: b.stack(ts, along)
    )


@shape_function
def split(x: Any, parts: Any, axis: Any = 0) -> Pair:
    """Cut x along an axis, into so many equal parts or into parts of given sizes; back joins them.

    >>> (a, c), back = gw.shapes.split(tf.range(5.), [2, 3])
    >>> a.numpy().tolist(), back(a, 10. * c).numpy().tolist()
    ([0.0, 1.0], [0.0, 1.0, 20.0, 30.0, 40.0])

    The pullback takes one upstream a part, apart or as a list; None stands for zeros.
    """
    b = backend_of(x, parts)
    x, sizes = b.tensor(x), b.static(x)
    along = plan.axis_of(plan.known_int(b, axis, "axis"), None if sizes is None else len(sizes))
    counts, size = _parts(b, parts), b.size_along(x, along)
    if isinstance(size, int):
        counts = _checked(counts, size, along)
    outputs = [*b.split(x, counts, along)]
    return linear_pair("split", b, x, outputs, lambda ups: b.concat(ups, along), lambda t: [*b.split(t, counts, along)])


def _parts(b, parts: Any) -> Any:
    parts = b.known(parts)
    if isinstance(parts, int) or getattr(parts, "ndim", 1) == 0:
        return plan.whole(parts, "parts")
    return plan.int_list(b, parts)


def _checked(counts: Any, size: int, axis: int) -> Any:
    if isinstance(counts, int):
        if counts < 1 or size % counts:
            raise ValueError(f"axis {axis} has size {size}, which does not make {counts} equal parts")
        return counts
    if not isinstance(counts, tuple):
        return counts
    if counts.count(-1) == 1:
        counts = tuple(size - sum(counts) - 1 if n == -1 else n for n in counts)
    if sum(counts) != size or min(counts) < 0:
        raise ValueError(f"axis {axis} has size {size}, the parts {builtins.list(counts)} make {sum(counts)}")
    return counts
