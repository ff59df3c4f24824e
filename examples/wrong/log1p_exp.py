"""The derivative taken at the output in place of the input: sigmoid(y), not sigmoid(x). Here: `wrong-point`."""

import tensorflow as tf

import gradwright as gw


@gw.custom_gradient(example=lambda: (tf.constant([-3.0, 0.0, 0.5, 4.0]),))
def log1p_exp(x):
    y = tf.math.log(1 + tf.exp(x))
    return y, lambda upstream: upstream * (1 - 1 / (1 + tf.exp(y)))


if __name__ == "__main__":
    x = tf.constant(0.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = log1p_exp(x)
    print("gradient at 0:", float(tape.gradient(y, x)), "should be 0.5")
