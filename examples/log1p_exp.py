"""log(1 + exp(x)) with a gradient that stays finite where automatic differentiation gives NaN.

The derivative, 1 - 1 / (1 + exp(x)), is plain arithmetic; differentiated op by op it becomes infinity divided by
infinity as soon as exp(x) overflows, at x = 89 in float32.
"""

import tensorflow as tf

import gradwright as gw


@gw.custom_gradient(example=lambda: (tf.constant([-3.0, 0.0, 0.5, 4.0]),))
def log1p_exp(x):
    e = tf.exp(x)
    return tf.math.log(1 + e), lambda upstream: upstream * (1 - 1 / (1 + e))


def gradient(function, x):
    """The gradient of a function of one number."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return float(tape.gradient(y, x))


def main():
    for value in (0.0, 100.0):
        x = tf.constant(value)
        automatic = gradient(lambda x: tf.math.log(1 + tf.exp(x)), x)
        print(f"x = {value:g}: automatic {automatic:g}, by the rule {gradient(log1p_exp, x):g}")


if __name__ == "__main__":
    main()
