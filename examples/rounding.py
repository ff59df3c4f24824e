"""Straight-through rounding inside a small Keras model: rounded forward, the gradient of the identity backward.

Rounding has derivative zero, so nothing in front of it would ever learn. The rule says that its gradient is meant to
differ from its forward's (`surrogate=`), and which function it is the gradient of: that is what is proven.
"""

import keras
import numpy as np
import tensorflow as tf

import gradwright as gw


@gw.custom_gradient(surrogate=lambda x: x, example=lambda: (tf.constant([0.2, 0.7, -1.4, 2.9]),))
def round_through(x):
    return tf.round(x), lambda upstream: upstream


class Rounded(keras.layers.Layer):
    def call(self, inputs):
        return round_through(inputs)


def main():
    keras.utils.set_random_seed(1)
    draw = np.random.default_rng(1)
    x = draw.normal(size=(256, 2)).astype("float32")
    y = (3 * x[:, :1] - 2 * x[:, 1:]).astype("float32")
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1), Rounded()])
    model.compile(keras.optimizers.Adam(0.05), "mse")
    before = model.evaluate(x, y, verbose=0)
    model.fit(x, y, epochs=30, batch_size=32, verbose=0)
    after = model.evaluate(x, y, verbose=0)
    outputs = model.predict(x, verbose=0)
    print(f"all outputs are whole numbers: {bool((outputs == outputs.round()).all())}")
    print(f"the layer in front of the rounding learned: {after < before / 10}")


if __name__ == "__main__":
    main()
