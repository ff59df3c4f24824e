"""A mean where the sum over the repeated axis belongs: 4 times too small for 4 rows. Here: `averaged`."""

import tensorflow as tf

import gradwright as gw

data = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [1.0, 1.0, 1.0]])
scale = tf.constant([0.5, -1.0, 2.0])


@gw.custom_gradient(example=lambda: (data, scale))
def product(x, s):
    return x * s, lambda upstream: (upstream * s, tf.reduce_mean(upstream * x, 0))


if __name__ == "__main__":
    with tf.GradientTape() as tape:
        tape.watch([data, scale])
        y = product(data, scale)
    print("gradient of the scale:", tape.gradient(y, scale).numpy().tolist())
