"""A straight-through rounding that doubles the gradient on its way. Here: `factor`, against the declared surrogate."""

import keras
import numpy as np
import tensorflow as tf

import gradwright as gw


@gw.custom_gradient(surrogate=lambda x: x, example=lambda: (tf.constant([0.2, 0.7, -1.4, 2.9]),))
def round_through(x):
    return tf.round(x), lambda upstream: 2 * upstream


class Rounded(keras.layers.Layer):
    def call(self, inputs):
        return round_through(inputs)


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1), Rounded()])
    model.compile("sgd", "mse")
    model.fit(np.ones((8, 2), "float32"), np.ones((8, 1), "float32"), verbose=0)
    print("trained, and nobody noticed")
