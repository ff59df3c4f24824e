"""What a rule receives is not always ones: it is how much the loss changes per change of the rule's output.

The same rule under the losses y, 2y and 5y. Its upstream is 1, 2 and 5, and its gradient must scale along. A rule that
leaves the upstream out looks right as long as somebody only ever tries the first of the three.
"""

import tensorflow as tf

import gradwright as gw

received = []


@gw.custom_gradient(example=lambda: (tf.constant([1.0, 2.0, 3.0]),))
def cube(x):
    def grad(upstream):
        received.append(upstream)
        return upstream * 3 * x * x

    return x**3, grad


def main():
    x = tf.constant(2.0)
    for scale in (1.0, 2.0, 5.0):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = scale * cube(x)
        gradient = tape.gradient(loss, x)
        print(f"loss {scale:g} * x^3 at x = 2: upstream {float(received[-1]):g}, gradient {float(gradient):g}")


if __name__ == "__main__":
    main()
