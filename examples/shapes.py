"""Rules that change the shape bring the upstream back to the shape of their input.

Three ways to move the elements of a tensor about, each with the gradient that undoes it: the gradient of a flatten is a
reshape, of an added axis the axis removed, of a permutation the inverse permutation (which is not the permutation
itself unless it only swaps).
"""

import tensorflow as tf

import gradwright as gw

x = tf.reshape(tf.range(24, dtype=tf.float32), (2, 3, 4)) / 10


@gw.custom_gradient(example=lambda: (x,))
def flatten(x):
    shape = tf.shape(x)
    return tf.reshape(x, [-1]), lambda upstream: tf.reshape(upstream, shape)


@gw.custom_gradient(example=lambda: (x,))
def add_axis(x):
    return tf.expand_dims(x, 1), lambda upstream: tf.squeeze(upstream, 1)


@gw.custom_gradient(example=lambda: (x,))
def rotate_axes(x):
    return tf.transpose(x, [1, 2, 0]), lambda upstream: tf.transpose(upstream, [2, 0, 1])


def main():
    for rule in (flatten, add_axis, rotate_axes):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = rule(x)
            loss = tf.reduce_sum(y * y)
        gradient = tape.gradient(loss, x)
        right = bool(tf.reduce_all(gradient == 2 * x))
        print(f"{rule.name}: {tuple(x.shape)} -> {tuple(y.shape)} -> {tuple(gradient.shape)}, gradient is 2x: {right}")


if __name__ == "__main__":
    main()
