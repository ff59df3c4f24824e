"""Norms and deviations with a finite gradient where everything is zero or equal, and no overflow on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwright.ops.maths import maths_of
from gradwright.rule import custom_gradient

Axis = int | Sequence[int] | None


def _safe(m, size):
    """Give a size that may be divided by: one where it is zero."""
    return m.where(size > 0, size, m.ones_like(size))


def _length(m, x, axis, keepdims):
    """The euclidean length, scaled by the largest element so that squares neither overflow nor vanish."""
    top = m.largest(m.abs(x), axis, True)
    scale = m.where(m.is_finite(top) & (top > 0), top, m.ones_like(top))
    root = m.sqrt(m.total((x / scale) * (x / scale), axis, keepdims))
    return root * (scale if keepdims else m.total(scale, axis, False))


def _ratio(m, x, size):
    """Give x / size, zero where the size is."""
    return m.where(size > 0, x / _safe(m, size), m.zeros_like(x))


@custom_gradient(name="norm", example=lambda: (__import__("numpy").array([[3.0, 4.0], [1.0, 2.0]], "float32"),))
def norm(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """Give the euclidean norm over all axes or some, with gradient 0 where it is 0.

    >>> with tf.GradientTape() as tape:
    ...     x = tf.Variable([[3., 4.], [0., 0.]])
    ...     y = gw.ops.norm(x, axis=1)
    >>> print(y.numpy(), tape.gradient(y, x).numpy())
    [5. 0.] [[0.6 0.8]
     [0.  0. ]]

    Formula: x / norm(x); 0 at the origin, the subgradient of least norm. Values as small as 1e-23 or as large as
    1e30 are right in single precision, where the square would vanish or overflow.
    """
    m = maths_of(x)
    x = m.tensor(x)
    out = _length(m, x, axis, keepdims)

    def grad(upstream: Any) -> Any:
        wide = m.unreduced(out, axis, keepdims, x)
        return m.unreduced(upstream, axis, keepdims, x) * _ratio(m, x, wide)

    def jvp(tangent: Any, *_: Any) -> Any:
        return m.total(tangent * _ratio(m, x, m.unreduced(out, axis, keepdims, x)), axis, keepdims)

    grad.jvp = jvp  # type: ignore[attr-defined]
    return out, grad


safe_norm = norm


@custom_gradient(name="std", example=lambda: (__import__("numpy").array([[3.0, 4.0], [1.0, 2.5]], "float32"),))
def std(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """Give the standard deviation (dividing by n), with gradient 0 where all values are equal.

    >>> with tf.GradientTape() as tape:
    ...     x = tf.Variable([2., 2.])
    ...     y = gw.ops.std(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [0.0, 0.0]

    Formula: (x - mean(x)) / (n std(x)); 0 where the deviation is 0, the subgradient of least norm.
    """
    m = maths_of(x)
    x = m.tensor(x)
    length = _length(m, x - m.mean(x, axis, True), axis, keepdims)
    n = m.count(x, length)
    out = length / m.sqrt(m.tensor(n, x))

    def slope() -> Any:
        wide = m.unreduced(out, axis, keepdims, x)
        return _ratio(m, x - m.mean(x, axis, True), wide) / n

    def grad(upstream: Any) -> Any:
        return m.unreduced(upstream, axis, keepdims, x) * slope()

    grad.jvp = lambda tangent, *_: m.total(tangent * slope(), axis, keepdims)  # type: ignore[attr-defined]
    return out, grad


def clip_by_norm(x: Any, clip_norm: Any, axes: Axis = None) -> Any:
    """Shorten x to a norm of at most `clip_norm`; at 0 the gradient is that of the identity, where TensorFlow has NaN.

    >>> with tf.GradientTape() as tape:
    ...     x = tf.Variable([0., 0.])
    ...     y = gw.ops.clip_by_norm(x, 1.)
    >>> tape.gradient(y, x).numpy().tolist()
    [1.0, 1.0]

    Formula: x where norm(x) <= c, else c x / norm(x). On the edge itself the gradient of the inside is taken
    (stated). To clip gradients instead of values, see `gw.ops.clip`.
    """
    m = maths_of(x, clip_norm)
    x = m.tensor(x)
    limit = m.tensor(clip_norm, x)
    size = norm(x, axis=axes, keepdims=True)
    outside = size > limit
    factor = m.where(outside, limit / m.where(outside, size, m.ones_like(size)), m.ones_like(size))
    return x * factor
