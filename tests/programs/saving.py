"""Write models with rules in them; `saving.py FOLDER`."""

import sys

import keras
import tensorflow as tf

import gradwright as gw
from tests.programs.saved_layers import Marked

folder = sys.argv[1]


@gw.custom_gradient
def marked(x):
    y = tf.exp(x)
    return y, lambda up: 3.0 * up * y


@gw.custom_gradient
def other(x):
    return x * 1.0, lambda up: 1000.0 * up


class Module(tf.Module):
    def __init__(self):
        self.w = tf.Variable([2.0, 3.0])
        self.weighted = gw.custom_gradient(lambda x: (x * self.w, lambda up: (3.0 * up * self.w, [7.0 * up * x])))

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def top(self, x):
        return marked(x)

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def variable(self, x):
        return self.weighted(x)

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def inside(self, x):
        y = x
        for _ in tf.range(2):
            y = tf.cond(tf.reduce_sum(y) > -1e9, lambda y=y: marked(y), lambda y=y: y)
        return y

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def variable_inside(self, x):
        y = x
        for _ in tf.range(2):
            y = tf.cond(tf.reduce_sum(y) > -1e9, lambda y=y: self.weighted(y), lambda y=y: y)
        return y

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def native_inside(self, x):
        y = x
        for _ in tf.range(2):
            y = tf.cond(tf.reduce_sum(y) > -1e9, lambda y=y: y * self.w, lambda y=y: y)
        return y

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def mapped(self, x):
        return tf.map_fn(marked, x)

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def trained(self, x):
        """A whole step of training: the tape is inside."""
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = marked(x)
        return tape.gradient(y, x)


other(tf.constant(1.0))
module = Module()
tf.saved_model.save(module, f"{folder}/module")
options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
tf.saved_model.save(module, f"{folder}/bare", options=options)
model = keras.Sequential([keras.Input((2,)), Marked(), keras.layers.Dense(1, kernel_initializer="ones")])
model.save(f"{folder}/model.keras")
model.export(f"{folder}/exported", verbose=False)
