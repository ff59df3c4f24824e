"""Functions with right rules, at any size and dtype, and the ways to spoil them; none was used to tune the checker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

Rule = Callable[..., tuple[Any, Callable[[Any], Any]]]


def square(n: int) -> tuple[int, int]:
    side = max(1, int(np.sqrt(n)))
    return side, max(1, n // side)


# name: (shapes for n elements, the range values are drawn from, the rule)
def _wave(x):
    return tf.sin(3.0 * x) * tf.exp(-x), lambda u: u * tf.exp(-x) * (3.0 * tf.cos(3.0 * x) - tf.sin(3.0 * x))


def _atan(x):
    return tf.atan(2.0 * x), lambda u: u * 2.0 / (1.0 + 4.0 * x * x)


def _rational(x):
    return x / (1.0 + x * x), lambda u: u * (1.0 - x * x) / (1.0 + x * x) ** 2


def _erf(x):
    return tf.math.erf(x), lambda u: u * 2.0 / np.sqrt(np.pi) * tf.exp(-x * x)


def _log1p(x):
    return tf.math.log1p(x), lambda u: u / (1.0 + x)


def _rsqrt(x):
    return tf.math.rsqrt(x), lambda u: -0.5 * u * x ** (-1.5)


def _cosh(x):
    return tf.cosh(x), lambda u: u * tf.sinh(x)


def _power(x):
    return x**5, lambda u: u * 5.0 * x**4


def _steep(x):
    return tf.exp(7.0 * x), lambda u: u * 7.0 * tf.exp(7.0 * x)


def _fast(x):
    return tf.cos(40.0 * x), lambda u: -40.0 * u * tf.sin(40.0 * x)


def _tiny(x):
    return 1e-7 * tf.atan(x), lambda u: 1e-7 * u / (1.0 + x * x)


def _huge(x):
    return 1e9 * x * x, lambda u: 2e9 * u * x


def _offset(x):
    return tf.sqrt(x + 1e4), lambda u: 0.5 * u / tf.sqrt(x + 1e4)


def _near_zero(x):
    return tf.math.log(x * 1e-5), lambda u: u / x


def _logit(x):
    return tf.math.log(x) - tf.math.log1p(-x), lambda u: u / (x * (1.0 - x))


def _mish(x):
    t, s = tf.tanh(tf.nn.softplus(x)), tf.sigmoid(x)
    return x * t, lambda u: u * (t + x * s * (1.0 - t * t))


def _relu(x):
    return tf.nn.relu(x), lambda u: u * tf.cast(x > 0, x.dtype)


def _huber(x):
    return tf.where(tf.abs(x) < 0.5, 0.5 * x * x, 0.5 * tf.abs(x) - 0.125), lambda u: u * tf.clip_by_value(x, -0.5, 0.5)


def _triangle(x):
    return tf.abs(x - tf.round(x)), lambda u: u * tf.sign(x - tf.round(x))


def _maximum(x, y):
    first = tf.cast(x > y, x.dtype)
    return tf.maximum(x, y), lambda u: (u * first, u * (1.0 - first))


def _product(x, y):
    return x * y, lambda u: (u * y, u * x)


def _ratio(x, y):
    return x / (1.0 + y * y), lambda u: (u / (1.0 + y * y), -2.0 * u * x * y / (1.0 + y * y) ** 2)


def _hypot(x, y):
    r = tf.sqrt(x * x + y * y)
    return r, lambda u: (u * x / r, u * y / r)


def _row(x, b):
    return x * b, lambda u: (u * b, tf.reduce_sum(u * x, 0))


def _column(x, c):
    return x + c, lambda u: (u, tf.reduce_sum(u, 1, keepdims=True))


def _matmul(x, w):
    return x @ w, lambda u: (u @ tf.transpose(w), tf.transpose(x) @ u)


def _quadratic(x):
    return tf.reduce_sum(x * x * x), lambda u: 3.0 * u * x * x


def _mean(x):
    n = tf.cast(tf.size(x), x.dtype)
    return tf.reduce_mean(tf.exp(x)), lambda u: u * tf.exp(x) / n


def _logsumexp(x):
    return tf.reduce_logsumexp(x, -1), lambda u: u[..., None] * tf.nn.softmax(x)


def _softmax(x):
    s = tf.nn.softmax(x)
    return s, lambda u: s * (u - tf.reduce_sum(u * s, -1, keepdims=True))


def _log_softmax(x):
    return tf.nn.log_softmax(x), lambda u: u - tf.nn.softmax(x) * tf.reduce_sum(u, -1, keepdims=True)


def _normalise(x):
    r = tf.norm(x, axis=-1, keepdims=True)
    y = x / r
    return y, lambda u: (u - y * tf.reduce_sum(u * y, -1, keepdims=True)) / r


def _centre(x):
    return x - tf.reduce_mean(x, 0), lambda u: u - tf.reduce_mean(u, 0)


def _cumsum(x):
    return tf.cumsum(x, -1), lambda u: tf.cumsum(u, -1, reverse=True)


def _transpose(x):
    return tf.transpose(x), lambda u: tf.transpose(u)


def _difference(x):
    return x[..., 1:] - x[..., :-1], lambda u: tf.pad(u, [[0, 0], [1, 0]]) - tf.pad(u, [[0, 0], [0, 1]])


def _two(x):
    return (tf.sinh(x), x * x), lambda u, v: u * tf.cosh(x) + 2.0 * v * x


def _outer(x, y):
    return x[:, None] * y[None, :], lambda u: (tf.linalg.matvec(u, y), tf.linalg.matvec(u, x, transpose_a=True))


def _variance(x):
    m, n = tf.reduce_mean(x), tf.cast(tf.size(x), x.dtype)
    return tf.reduce_mean((x - m) ** 2), lambda u: 2.0 * u * (x - m) / n


def _swap(x):
    return tf.reverse(x, [0]), lambda u: tf.reverse(u, [0])


FLAT: dict[str, tuple[Rule, tuple[float, float]]] = {
    "wave": (_wave, (-2, 2)), "atan": (_atan, (-2, 2)), "rational": (_rational, (-3, 3)), "erf": (_erf, (-2, 2)),
    "log1p": (_log1p, (-0.9, 2)), "rsqrt": (_rsqrt, (0.05, 3)), "cosh": (_cosh, (-3, 3)), "power": (_power, (-2, 2)),
    "steep": (_steep, (-3, 3)), "fast": (_fast, (-1, 1)), "tiny": (_tiny, (-2, 2)), "huge": (_huge, (-2, 2)),
    "offset": (_offset, (-2, 2)), "near zero": (_near_zero, (1e-4, 1e-3)), "logit": (_logit, (0.01, 0.99)),
    "mish": (_mish, (-4, 4)), "relu": (_relu, (-1, 1)), "huber": (_huber, (-1, 1)), "triangle": (_triangle, (-2, 2)),
    "sum of cubes": (_quadratic, (-1, 1)), "mean of exp": (_mean, (-1, 1)), "variance": (_variance, (-1, 1)),
    "two outputs": (_two, (-2, 2)), "reverse": (_swap, (-1, 1)),
}  # fmt: skip
PAIRS: dict[str, tuple[Rule, tuple[float, float]]] = {
    "maximum": (_maximum, (-1, 1)), "product": (_product, (-2, 2)), "ratio": (_ratio, (-2, 2)),
    "hypot": (_hypot, (0.1, 2)),
}  # fmt: skip
TABLES: dict[str, tuple[Rule, tuple[float, float]]] = {
    "logsumexp": (_logsumexp, (-3, 3)), "softmax": (_softmax, (-3, 3)), "log softmax": (_log_softmax, (-3, 3)),
    "normalise": (_normalise, (-1, 1)), "centre": (_centre, (-1, 1)), "cumsum": (_cumsum, (-1, 1)),
    "transpose": (_transpose, (-1, 1)), "difference": (_difference, (-1, 1)),
}  # fmt: skip
JOINED: dict[str, tuple[Rule, Callable[[int], list[tuple[int, ...]]]]] = {
    "row": (_row, lambda n: [square(n), square(n)[1:]]),
    "column": (_column, lambda n: [square(n), (square(n)[0], 1)]),
    "matmul": (_matmul, lambda n: [square(n), square(n)[::-1]]),
    "outer": (_outer, lambda n: [(max(1, min(n, 300)),), (7,)]),
}


def all_of(n: int) -> dict[str, tuple[Rule, list[tuple[int, ...]], tuple[float, float]]]:
    """Every function at about n elements: the rule, the shapes of its arguments, their range."""
    found = {name: (rule, [(n,)], span) for name, (rule, span) in FLAT.items()}
    found |= {name: (rule, [(n,), (n,)], span) for name, (rule, span) in PAIRS.items()}
    found |= {name: (rule, [square(n)], span) for name, (rule, span) in TABLES.items()}
    return found | {name: (rule, shapes(n), (-1.0, 1.0)) for name, (rule, shapes) in JOINED.items()}


def draw(shapes: list[tuple[int, ...]], span: tuple[float, float], dtype: str, seed: int) -> list[Any]:
    """Arguments for a function."""
    rng = np.random.default_rng(1000 + seed)
    kind = tf.as_dtype(dtype).as_numpy_dtype
    return [tf.constant(rng.uniform(*span, shape).astype(kind)) for shape in shapes]


def spoiled(rule: Rule, how: Callable[[Any, Any], Any]) -> Rule:
    """The rule with each gradient g for upstream u replaced by how(g, u)."""

    def wrong(*xs: Any) -> Any:
        y, grad = rule(*xs)

        def pulled(*us: Any) -> Any:
            gs = grad(*us)
            return tuple(how(g, us[0]) for g in gs) if isinstance(gs, tuple) else how(gs, us[0])

        return y, pulled

    return wrong


def _one(factor: float) -> Callable[[Any, Any], Any]:
    def spoil(g: Any, _: Any) -> Any:
        flat = np.ones(int(np.prod(g.shape)))
        flat[len(flat) * 2 // 3] = factor
        return g * tf.cast(tf.reshape(tf.constant(flat), g.shape), g.dtype)

    return spoil


SPOILS: dict[str, Callable[[Any, Any], Any]] = {
    "negated": lambda g, u: -g,
    "doubled": lambda g, u: 2.0 * g,
    "zero": lambda g, u: tf.zeros_like(g),
    "1 % too large": lambda g, u: g * tf.cast(1.01, g.dtype),
    "0.01 % too large": lambda g, u: g * tf.cast(1.0001, g.dtype),
    "one coordinate zero": _one(0.0),
    "one coordinate 10 % off": _one(1.1),
    "clipped": lambda g, u: tf.clip_by_value(g, -1e-3 * tf.reduce_max(tf.abs(g)), 1e-3) * 0.5 + 0.1 * g * tf.abs(g),
    "first half lost": lambda g, u: tf.reshape(
        tf.where(tf.range(tf.size(g)) < (tf.size(g) + 1) // 2, tf.zeros([], g.dtype), tf.reshape(g, [-1])), tf.shape(g)
    ),
    "not of the upstream": lambda g, u: g / (tf.reduce_max(tf.abs(u)) + 1.0),
}
