"""The permutation used for the gradient as well, which undoes it only if it swaps two axes. Here: `transposed`.

All sizes are equal, so the shape gives no hint.
"""

import tensorflow as tf

import gradwright as gw

x = tf.reshape(tf.range(27, dtype=tf.float32), (3, 3, 3)) / 10


@gw.custom_gradient(example=lambda: (x,))
def rotate_axes(x):
    return tf.transpose(x, [1, 2, 0]), lambda upstream: tf.transpose(upstream, [1, 2, 0])


if __name__ == "__main__":
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = rotate_axes(x)
        loss = tf.reduce_sum(y * y)
    print("gradient is 2x:", bool(tf.reduce_all(tape.gradient(loss, x) == 2 * x)))
