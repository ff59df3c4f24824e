"""The forms in which people write rules, each with what mathematics says of it.

Where a rule differs from its forward's own derivative, it does so on purpose (factors 3, 10, 14), so that nothing but
the rule itself can give the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

import gradwright as gw

X = np.array([[0.1, 0.2], [0.3, -0.4]], "float32")
S = np.array([[0.5, 2.0], [1.5, -1.0]], "float32")
E, ONE = np.exp(X), np.ones_like(X)


@dataclass
class Form:
    """A rule, its inputs, what each kind of mode must give for it, and what it lacks."""

    rule: Any
    inputs: list[Any]
    gives: dict[str, list[Any]]
    lacks: str = ""
    how: dict[str, Any] = field(default_factory=dict)


@gw.custom_gradient
def marked(x):
    y = tf.exp(x)
    return y, lambda up: 3.0 * up * y


@gw.custom_gradient
def product(x, s):
    return x * s, lambda up: (10.0 * up * s, 10.0 * up * x)


@gw.custom_gradient
def broadcast(x, s):
    return x * s, lambda up: (10.0 * up * s, 10.0 * up * x)  # not summed to the shape of s


w = tf.Variable([2.0, 3.0], name="w")


@gw.custom_gradient
def weighted(x):
    return x * w, lambda up, variables=None: (3.0 * up * w, [7.0 * up * x])


@gw.custom_gradient
def two(x):
    return {"square": x * x, "same": x}, lambda up: 14.0 * up["square"] * x + 5.0 * up["same"]


@gw.custom_gradient
def clipped(x):
    return tf.identity(x), lambda up: tf.clip_by_value(up, -2.0, 2.0)


@gw.custom_gradient
def own_jvp(x):
    y = tf.exp(x)

    def grad(up):
        return 3.0 * up * y

    grad.jvp = lambda t: 3.0 * t * y
    return y, grad


def shaped(y, x):
    y.set_shape(x.shape)
    return y


@gw.custom_gradient
def in_numpy(x):
    slope = lambda up, x: up * 3 * np.cos(x)
    y = shaped(tf.numpy_function(np.sin, [x], tf.float32), x)
    return y, lambda up: shaped(tf.numpy_function(slope, [up, x], tf.float32), x)


@gw.custom_gradient
def by_numbers(x):
    return tf.constant(np.sin(x.numpy())), lambda up: tf.constant(up.numpy() * 3 * np.cos(x.numpy()))


@gw.custom_gradient
def whole(x, n):
    return (x * tf.cast(n, x.dtype), tf.argmax(x, -1)), lambda up, _: 3.0 * up * tf.cast(n, up.dtype)


N = np.array([[1, 2], [3, 4]])
COS = 3.0 * np.cos(X)

FORMS = {
    "closure over the output": Form(
        marked, [X], {"gradients": [3 * E], "second": [9 * E], "third": [27 * E], "tangents": [3 * E]}
    ),
    "two arguments": Form(
        product,
        [X, S],
        {
            "gradients": [10 * S, 10 * X],
            "second": [10 * ONE, 10 * ONE],
            "third": [None, None],
            "tangents": [10 * S + 10 * X],
        },
    ),
    "broadcast operand": Form(
        broadcast,
        [X, S[0]],
        {
            "gradients": [10 * S[0] * ONE, 10 * X.sum(0)],
            "second": [10 * ONE, 20 * np.ones(2, "float32")],
            "third": [None, None],
            "tangents": [10 * S[0] + 10 * X],
        },
        "rows",
    ),
    "captured variable": Form(
        weighted,
        [X],
        {
            "gradients": [3 * ONE * [2, 3], 7 * X.sum(0)],
            "second": [None],
            "third": [None],
            "tangents": [3 * ONE * [2, 3]],
        },
        "values half",
        {"variables": [w]},
    ),
    "dict output": Form(
        two,
        [X],
        {"gradients": [14 * X + 5], "second": [14 * ONE], "third": [None], "tangents": [5 * ONE, 14 * X]},
    ),
    "integers beside": Form(
        whole,
        [X, N],
        {"gradients": [3 * N * ONE, None], "second": [None, None], "third": [None, None], "tangents": [3 * N * ONE]},
    ),
    "not linear in the upstream": Form(
        clipped,
        [X],
        {"gradients": [2 * ONE], "second": [None], "third": [None], "tangents": ["refused"]},
        "linear",
        {"upstream": [5 * ONE]},
    ),
    "jvp of its own": Form(
        own_jvp, [X], {"gradients": [3 * E], "second": [9 * E], "third": [27 * E], "tangents": [3 * E]}
    ),
    "numpy_function": Form(in_numpy, [X], {"gradients": [COS], "tangents": [COS]}, "xla half saved"),
    "numpy by numbers": Form(by_numbers, [X], {"gradients": [COS], "tangents": [COS]}, "graph half xla saved"),
}
