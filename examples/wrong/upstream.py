"""The upstream left out, as if it were always ones. Here: `upstream-ignored`."""

import tensorflow as tf

import gradwright as gw


@gw.custom_gradient(example=lambda: (tf.constant([1.0, 2.0, 3.0]),))
def cube(x):
    return x**3, lambda upstream: 3 * x * x


if __name__ == "__main__":
    x = tf.constant(2.0)
    for scale in (1.0, 2.0, 5.0):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = scale * cube(x)
        print(f"loss {scale:g} * x^3 at x = 2: gradient {float(tape.gradient(loss, x)):g}, should be {12 * scale:g}")
