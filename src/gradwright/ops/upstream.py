"""The identity with another gradient: the upstream is turned round, scaled, clipped or masked on its way back.

Under loss scaling, the upstream is S times the true one. Reversing, scaling and masking are linear, so the scale
comes out again by itself. Clipping is not: give `clip` the scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwright import tree
from gradwright.errors import ArgumentError
from gradwright.forms.calls import is_leaf
from gradwright.ops import limits
from gradwright.ops.maths import maths_of
from gradwright.rule import custom_gradient


def _mapped(function: Callable[..., Any], structure: Any) -> Any:
    """Apply a function to every float tensor of a structure; everything else stays."""
    leaves, spec = tree.flatten(structure, is_leaf)
    return tree.unflatten(spec, [function(leaf) if _is_float(leaf) else leaf for leaf in leaves])


def _is_float(leaf: Any) -> bool:
    if leaf is None or isinstance(leaf, str):
        return False
    m = maths_of(leaf)
    return m.is_float(m.tensor(leaf))


def _copied(x: Any) -> Any:
    return _mapped(lambda leaf: maths_of(leaf).identity(leaf), x)


def _upstream(x_is_sequence: bool, upstreams: tuple[Any, ...]) -> Any:
    return list(upstreams) if x_is_sequence else upstreams[0]


def _transform(x: Any, change: Callable[[Any], Any], others: tuple[str, ...], linear: bool = True) -> Any:
    """The pair of the identity on a structure, with the upstream (of the same structure) changed.

    The other arguments get no gradient, be they numbers or tensors.
    """
    sequence = isinstance(x, list | tuple) and not hasattr(x, "_fields")

    def grad(*upstreams: Any) -> Any:
        return {"x": change(_upstream(sequence, upstreams)), **dict.fromkeys(others)}

    if linear:
        grad.jvp = lambda tangent, *_: change(tangent)  # type: ignore[attr-defined]
    return _copied(x), grad


def _factor(m: Any, value: Any, like: Any) -> Any:
    """A factor in the dtype of what it multiplies."""
    if isinstance(value, list | tuple):
        return m.tensor(value, like)
    return m.cast(value, like) if hasattr(value, "dtype") else value


@custom_gradient(surrogate=lambda x, scale=1.0: -scale * x, example=lambda: (_row(),))
def reverse(x: Any, scale: Any = 1.0) -> Any:
    """Give x; its gradient is the upstream reversed: -scale times it.

    >>> x = tf.Variable([1., 2.])
    >>> with tf.GradientTape() as tape:
    ...     y = gw.ops.reverse(x, scale=.3)
    >>> print(tape.gradient(y, x).numpy())
    [-0.3 -0.3]

    Args:
        x: a tensor or a structure of tensors.
        scale: a number, tensor or variable; it gets no gradient itself.

    Source: Ganin and Lempitsky, Unsupervised domain adaptation by backpropagation, 2015.
    Under loss scaling: linear, the scale comes out again.
    """
    return _scaled("reverse", x, scale, -1, "scale")


def _scaled(op: str, x: Any, factor: Any, sign: int, other: str) -> Any:
    limits.number(op, other, factor)
    limits.within(op, other, factor, x)
    factor = maths_of(x).tensor(factor) if hasattr(factor, "dtype") else factor

    def change(upstream: Any) -> Any:
        return _mapped(lambda up: sign * _factor(maths_of(up), factor, up) * up, upstream)

    return _transform(x, change, (other,))


@custom_gradient(surrogate=lambda x, factor: factor * x, example=lambda: (_row(), 0.5))
def scale(x: Any, factor: Any) -> Any:
    """Give x; its gradient is `factor` times the upstream.

    >>> x = tf.Variable([1., 2.])
    >>> with tf.GradientTape() as tape:
    ...     y = gw.ops.scale(x, .1)
    >>> print(tape.gradient(y, x).numpy())
    [0.1 0.1]

    Args:
        x: a tensor or a structure of tensors.
        factor: a number, tensor or variable; it gets no gradient itself.

    Under loss scaling: linear, the scale comes out again.
    """
    return _scaled("scale", x, factor, 1, "factor")


@custom_gradient(surrogate=lambda x, mask: _masked(x, mask), example=lambda: (_row(), _row() > 0))
def mask(x: Any, mask: Any) -> Any:
    """Give x; the gradient passes only where the mask holds.

    >>> x = tf.Variable([1., 2.])
    >>> with tf.GradientTape() as tape:
    ...     y = gw.ops.mask(x, [True, False])
    >>> tape.gradient(y, x).numpy().tolist()
    [1.0, 0.0]

    Args:
        x: a tensor.
        mask: truth values, which stop even a NaN, or weights, which multiply; it broadcasts to x.

    Under loss scaling: linear, the scale comes out again.
    """
    limits.number("mask", "mask", mask)
    limits.within("mask", "mask", mask, x)
    held = maths_of(x, mask).tensor(mask)
    return _transform(x, lambda up: _masked(up, held), ("mask",))


def _masked(up: Any, mask: Any) -> Any:
    m = maths_of(up, mask)
    held = m.tensor(mask)
    return m.where(held, up, m.zeros_like(up)) if m.is_bool(held) else m.cast(held, up) * up


@custom_gradient(surrogate=True, example=lambda: (_row(), -0.1, 0.1))
def clip(
    x: Any,
    low: Any = None,
    high: Any = None,
    *,
    value: Any = None,
    norm: Any = None,
    global_norm: Any = None,
    axis: Any = None,
    loss_scale: Any = 1.0,
) -> Any:
    """Give x; its gradient is the upstream clipped: by value, by norm, or by the norm of a whole structure.

    >>> x = tf.Variable([1., 2.])
    >>> with tf.GradientTape() as tape:
    ...     y = 5. * gw.ops.clip(x, norm=1.)
    >>> print(tape.gradient(y, x).numpy().round(4))
    [0.7071 0.7071]

    Args:
        x: a tensor or a structure of tensors.
        low, high: clip every element between two values; `clip(x, .1)` is `clip(x, -.1, .1)`.
        value: the same as `low` alone: between -value and value.
        norm: shorten each tensor's upstream to this euclidean norm; over `axis` where that is given.
        global_norm: shorten the whole structure to this norm, all tensors by one factor.
        axis: the axes of `norm`.
        loss_scale: what the loss is multiplied by: a number, a tensor, or Keras's LossScaleOptimizer. The limits
            are those of the true gradient; without it, a scaled loss is clipped too early.

    Formula: S clip(upstream / S). Powers of two from 1 to 32768 give the same gradient after unscaling; half
    precision is clipped in single. Not linear in the upstream, so forward mode is refused.
    """
    way = _limits(low, high, value, norm, global_norm)
    amount = limits.of_the_loss(loss_scale)
    for limit in way[1] if way[0] == "value" else [way[1]]:
        limits.within("clip", way[0], limit, x if way[0] != "global norm" else ())

    def change(upstream: Any) -> Any:
        return _unscaled(way, upstream, amount, axis)

    return _transform(x, change, ("low", "high", "value", "norm", "global_norm", "loss_scale"), linear=False)


def _limits(low: Any, high: Any, value: Any, norm: Any, global_norm: Any) -> tuple[str, Any]:
    """Decide which of the ways to clip was asked for: exactly one."""
    single = "value" if low is None else "low"
    low = value if low is None else low
    given = [("value", low if high is None else (low, high)), ("norm", norm), ("global norm", global_norm)]
    given = [(name, limit) for name, limit in given if limit is not None]
    if high is not None and low is None:
        raise ArgumentError("gw.ops.clip: `high` without `low`; write gw.ops.clip(x, low, high)")
    if len(given) != 1:
        ways = "gw.ops.clip(x, -.1, .1), gw.ops.clip(x, norm=1.) or gw.ops.clip(xs, global_norm=1.)"
        raise ArgumentError(f"gw.ops.clip: one way to clip is wanted, {len(given)} were given; write {ways}")
    name, limit = given[0]
    if name == "value" and high is not None:
        limits.in_order("clip", *limit)
        return name, limit
    limits.at_least_zero("clip", single if name == "value" else name.replace(" ", "_"), limit)
    return name, (-limit, limit) if name == "value" else limit


def _unscaled(way: tuple[str, Any], upstream: Any, amount: Any, axis: Any) -> Any:
    """Clip the true upstream and put the loss scale on again, in single precision at least."""
    from gradwright.ops.reductions import norm as length

    kind, limit = way

    def opened(up: Any) -> Any:
        m = maths_of(up)
        wide = m.widened(m.tensor(up))
        return wide / _factor(m, amount, wide)

    def closed(up: Any, like: Any) -> Any:
        m = maths_of(up)
        return m.cast(up * _factor(m, amount, up), like)

    leaves, spec = tree.flatten(upstream, is_leaf)
    true = [opened(up) for up in leaves]
    if kind == "value":
        clipped = [maths_of(up).clip(up, *(_factor(maths_of(up), edge, up) for edge in limit)) for up in true]
    elif kind == "norm":
        clipped = [up * _shrink(length(up, axis=axis, keepdims=True), limit) for up in true]
    else:
        total = sum(length(up) ** 2 for up in true) ** 0.5
        clipped = [up * _factor(maths_of(up), _shrink(total, limit), up) for up in true]
    return tree.unflatten(spec, [closed(up, like) for up, like in zip(clipped, leaves, strict=True)])


def _shrink(size: Any, limit: Any) -> Any:
    """The factor that takes a norm down to its limit."""
    m = maths_of(size)
    limit = _factor(m, limit, size)
    outside = size > limit
    return m.where(outside, limit / m.where(outside, size, m.ones_like(size)), m.ones_like(size))


def _row() -> Any:
    """An example for the prover."""
    import numpy as np

    return np.array([-2.0, -0.05, 0.5, 3.0], "float32")
