"""One of three gradients has the wrong sign: a step along it makes the loss larger. Here: `sign`, for `w`."""

import numpy as np
import tensorflow as tf

import gradwright as gw

draw = np.random.default_rng(0)
x = tf.constant(draw.normal(0, 0.3, (5, 4)))
w = tf.constant(draw.normal(0, 0.3, (4, 3)))
b = tf.constant(draw.normal(0, 0.3, (3,)))


@gw.custom_gradient(example=lambda: (x, w, b))
def tangent_layer(x, w, b):
    y = tf.tan(x @ w + b)

    def grad(upstream):
        inner = upstream * (1 + y * y)
        return {
            "x": tf.matmul(inner, w, transpose_b=True),
            "w": -tf.matmul(x, inner, transpose_a=True),
            "b": tf.reduce_sum(inner, 0),
        }

    return y, grad


if __name__ == "__main__":
    with tf.GradientTape() as tape:
        tape.watch(w)
        loss = tf.reduce_sum(tangent_layer(x, w, b))
    print("gradient of w:", tape.gradient(loss, w).numpy().round(3).tolist())
