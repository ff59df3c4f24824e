"""tan(x @ w + b), with the gradients of x, w and b written by hand and compared with automatic differentiation.

The derivative of the tangent is 1 + tan(z)^2, so the forward's own result is all that the backward pass needs.
"""

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
            "w": tf.matmul(x, inner, transpose_a=True),
            "b": tf.reduce_sum(inner, 0),
        }

    return y, grad


def gradients(layer):
    """The gradients of a loss through the layer."""
    with tf.GradientTape() as tape:
        tape.watch([x, w, b])
        loss = tf.reduce_sum(tf.sin(layer(x, w, b)))
    return tape.gradient(loss, [x, w, b])


def main():
    by_hand = gradients(tangent_layer)
    automatic = gradients(lambda x, w, b: tf.tan(x @ w + b))
    for name, mine, theirs in zip("xwb", by_hand, automatic, strict=True):
        difference = float(tf.reduce_max(tf.abs(mine - theirs)))
        print(f"gradient of {name}: agrees with automatic differentiation to 1e-6: {difference < 1e-6}")


if __name__ == "__main__":
    main()
