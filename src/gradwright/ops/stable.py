"""Elementwise functions whose native gradient is NaN or infinite somewhere, with a finite one that is stated.

At a point where the derivative is infinite or undefined the gradient is 0, the one value that leaves the rest of a
sum alone. Outside the domain the value is the framework's NaN and the gradient 0, so that a `where` around the
function is safe.
"""

from __future__ import annotations

import math

from gradwright.forms import elementwise
from gradwright.ops.maths import maths_of


def _over(numerator, denominator, holds):
    """Divide where a condition holds, zero elsewhere; neither branch can give NaN to any order."""
    m = maths_of(denominator)
    safe = m.where(holds, denominator, m.ones_like(denominator))
    return m.where(holds, numerator / safe, m.zeros_like(denominator))


def _sqrt(x):
    """Give the square root, with gradient 0 at 0 where the native one is infinite.

    >>> x = tf.constant([0., 4.])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gw.ops.sqrt(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [0.0, 0.25]

    Formula: 1 / (2 sqrt(x)) for x > 0; 0 at 0 (stated: the derivative is infinite there) and for x < 0 (value NaN).
    """
    m = maths_of(x)
    return m.sqrt(m.tensor(x))


def _log(x):
    """Give the natural logarithm, with gradient 0 at 0 where the native one is infinite.

    >>> with tf.GradientTape() as tape:
    ...     x = tf.Variable([0., 2.])
    ...     y = gw.ops.log(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [0.0, 0.5]

    Formula: 1 / x for x > 0; 0 elsewhere (stated). The value is -inf at 0 and NaN below.
    """
    m = maths_of(x)
    return m.log(m.tensor(x))


def _log1p_exp(x):
    """Give log(1 + exp(x)) without overflow; also called softplus.

    >>> gw.ops.log1p_exp(tf.constant([-9e9, 0., 9e9])).numpy().tolist()
    [0.0, 0.6931471824645996, 8999999488.0]

    Formula: max(x, 0) + log1p(exp(-|x|)); its derivative is sigmoid(x), which needs x alone, so nothing else is kept
    for the backward pass.
    """
    m = maths_of(x)
    x = m.tensor(x)
    return m.maximum(x, m.zeros_like(x)) + m.log1p(m.exp(-m.abs(x)))


def _log1mexp(x):
    """Give log(1 - exp(-|x|)) to full precision near 0 and far from it.

    >>> print(gw.ops.log1mexp(tf.constant([1e-4, 1.])).numpy().round(4))
    [-9.2104 -0.4587]

    Formula: log(-expm1(-|x|)) up to |x| = log 2, log1p(-exp(-|x|)) above; derivative sign(x) / expm1(|x|), and 0 at 0
    (stated; the value there is -inf). Source: Maechler, Accurately computing log(1 - exp(-|a|)), 2012.
    """
    m = maths_of(x)
    a = m.abs(m.tensor(x))
    small = a < math.log(2)
    one = m.ones_like(a)
    near, far = m.where(small, a, one), m.where(small, one, a)
    return m.where(small, m.log(-m.expm1(-near)), m.log1p(-m.exp(-far)))


def _log1mexp_slope(x):
    m = maths_of(x)
    a = m.abs(x)
    return m.sign(x) * _over(m.exp(-a), -m.expm1(-a), a > 0)


def _acos(x):
    """Give the inverse cosine, with gradient 0 at 1 and -1 where the native one is infinite.

    >>> with tf.GradientTape() as tape:
    ...     x = tf.Variable([0., 1.])
    ...     y = gw.ops.acos(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [-1.0, -0.0]

    Formula: -1 / sqrt((1 - x)(1 + x)) inside (-1, 1); 0 at the ends and outside (stated).
    """
    m = maths_of(x)
    return m.acos(m.tensor(x))


def _asin(x):
    """Give the inverse sine, with gradient 0 at 1 and -1 where the native one is infinite.

    >>> with tf.GradientTape() as tape:
    ...     x = tf.Variable([0., -1.])
    ...     y = gw.ops.asin(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [1.0, 0.0]

    Formula: 1 / sqrt((1 - x)(1 + x)) inside (-1, 1); 0 at the ends and outside (stated).
    """
    m = maths_of(x)
    return m.asin(m.tensor(x))


def _arc_slope(x):
    m = maths_of(x)
    square = (1 - x) * (1 + x)
    inside = square > 0
    return _over(m.ones_like(x), m.sqrt(m.where(inside, square, m.ones_like(x))), inside)


def _xlogy(x, y):
    """Give x log(y), which is 0 where x is 0, whatever y is.

    >>> with tf.GradientTape() as tape:
    ...     x, y = tf.Variable([0., 0., 3.]), tf.Variable([0., 2., 1.])
    ...     z = gw.ops.xlogy(x, y)
    >>> print(*[g.numpy().round(4) for g in tape.gradient(z, [x, y])])
    [0.     0.6931 0.    ] [0. 0. 3.]

    Formula: by x it is log(y), by y it is x / y; each is 0 where y <= 0 (stated). TensorFlow's own gives 0 for the
    derivative by x at every x = 0, where it is log(y).
    """
    m = maths_of(x, y)
    x, y = _pair(m, x, y)
    zero = x == m.zeros_like(x)
    return m.where(zero, m.zeros_like(x * y), x * m.log(m.where(zero, m.ones_like(y), y)))


def _pair(m, x, y):
    """Make tensors of both; numbers and whole-number tensors take the dtype of the other."""
    x, y = (m.tensor(x), m.tensor(y, x)) if hasattr(x, "dtype") else (m.tensor(x, y), m.tensor(y))
    if m.is_float(x) == m.is_float(y):
        return x, y
    return (x, m.cast(y, x)) if m.is_float(x) else (m.cast(x, y), y)


def _positive_log(y):
    m = maths_of(y)
    inside = y > 0
    return m.where(inside, m.log(m.where(inside, y, m.ones_like(y))), m.zeros_like(y))


def _pow(x, y):
    """Give x to the power y, with finite gradients at 0 and for negative x.

    >>> with tf.GradientTape() as tape:
    ...     x = tf.Variable([0., 0., -2., 4.])
    ...     z = gw.ops.pow(x, tf.constant([.5, 0., 2., 1.5]))
    >>> tape.gradient(z, x).numpy().tolist()
    [0.0, 0.0, -4.0, 3.0]

    Formula: by x it is y x^(y-1), and 0 where that is not finite (stated: at 0 for y < 1, and for negative x with y
    not whole, where the value is NaN); by y it is x^y log(x), and 0 for x <= 0 (stated). At x = 0 the orders one and
    two are exact, higher ones are 0.
    """
    m = maths_of(x, y)
    return m.power(*_pair(m, x, y))


def _pow_by_base(x, y):
    m = maths_of(x, y)
    x, y = _pair(m, x, y)
    slope = _inner_pow(x, y - 1)
    fine = m.is_finite(slope) & (y != 0)
    return m.where(fine, y * m.where(fine, slope, m.zeros_like(slope)), m.zeros_like(slope))


def _inner_pow_by_base(x, y):
    """The last level, where a rule may not call itself: the derivative of a power at 0 is that of x alone."""
    m = maths_of(x, y)
    x, y = _pair(m, x, y)
    zero = (x == 0) & (y == y)
    raised = m.power(m.where(zero, m.ones_like(x * y), x), y - 1)
    fine = m.is_finite(raised)
    slope = m.where(fine, y * m.where(fine, raised, m.zeros_like(raised)), m.zeros_like(raised))
    return m.where(zero, m.cast(y == 1, x) * m.ones_like(x), slope)


def _pow_by_exponent(x, y, out):
    m = maths_of(x, y)
    x, y = _pair(m, x, y)
    fine = m.is_finite(out) & (x > 0)
    return m.where(fine, m.where(fine, out, m.zeros_like(out)) * _positive_log(x), m.zeros_like(out))


def _atan2(y, x):
    """Give the angle of the point (x, y), with gradient 0 at the origin where the native one is NaN.

    >>> with tf.GradientTape() as tape:
    ...     y, x = tf.Variable([0., 1e-30]), tf.Variable([0., 0.])
    ...     z = gw.ops.atan2(y, x)
    >>> [g.numpy().tolist() for g in tape.gradient(z, [y, x])]
    [[0.0, 0.0], [0.0, -1.0000000150474662e+30]]

    Formula: x / (x^2 + y^2) by y and -y / (x^2 + y^2) by x, scaled by the larger of the two so that squares neither
    overflow nor vanish; 0 at the origin (stated: the angle jumps there).
    """
    m = maths_of(y, x)
    return m.atan2(*_pair(m, y, x))


def _atan2_slopes(y, x):
    m = maths_of(y, x)
    y, x = _pair(m, y, x)
    size = m.stop_gradient(m.maximum(m.abs(x), m.abs(y)))
    there = size > 0
    # The slopes do not depend on this factor, so their own derivatives may take it for a constant.
    # Products by the reciprocal, for XLA turns u / a / b into u / (a b), which vanishes for small a and b.
    small = 1 / m.where(there, size, m.ones_like(size))
    u, v = x * small, y * small
    square = m.where(there, u * u + v * v, m.ones_like(size))
    zero = m.zeros_like(size)
    return m.where(there, u / square * small, zero), m.where(there, -v / square * small, zero)


def _one(values):
    """An example for the prover: points inside the domain."""

    def example():
        import numpy as np

        return (np.array(values, "float32"),)

    return example


def _two(first, second):
    def example():
        import numpy as np

        return np.array(first, "float32"), np.array(second, "float32")

    return example


sqrt = elementwise(_sqrt, lambda x, out: 0.5 * _over(1.0, out, x > 0), name="sqrt", example=_one([0.5, 2.0, 9.0]))
log = elementwise(_log, lambda x: _over(1.0, x, x > 0), name="log", example=_one([0.5, 2.0, 9.0]))
log1p_exp = elementwise(_log1p_exp, lambda x: maths_of(x).sigmoid(x), name="log1p_exp", example=_one([-3.0, 0.5, 20.0]))
softplus = log1p_exp
log1mexp = elementwise(_log1mexp, _log1mexp_slope, name="log1mexp", example=_one([0.1, 0.5, 3.0]))
acos = elementwise(_acos, lambda x: -_arc_slope(x), name="acos", example=_one([-0.5, 0.1, 0.9]))
asin = elementwise(_asin, _arc_slope, name="asin", example=_one([-0.5, 0.1, 0.9]))
xlogy = elementwise(
    _xlogy,
    (lambda x, y: _positive_log(y), lambda x, y: _over(x, y, y > 0)),
    name="xlogy",
    example=_two([0.5, 1.5, -2.0], [0.5, 2.0, 3.0]),
)
_inner_pow = elementwise(_pow, (_inner_pow_by_base, _pow_by_exponent), name="pow")
pow = elementwise(_pow, (_pow_by_base, _pow_by_exponent), name="pow", example=_two([0.5, 1.5, 2.0], [0.5, 2.0, -1.5]))
atan2 = elementwise(_atan2, _atan2_slopes, name="atan2", example=_two([0.5, -1.5, 2.0], [0.5, 2.0, -1.0]))
