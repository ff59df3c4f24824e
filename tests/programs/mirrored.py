# ruff: noqa: E402
"""Rules under MirroredStrategy on two logical CPUs: the gradients, and whose variables grad is shown."""

import json

import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

import keras
import numpy as np

import gradwright as gw

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    b = tf.Variable([10.0, 20.0], name="b")
    w = tf.Variable([2.0, 3.0], name="w")

seen = set()
forms = {
    "list": lambda gw_, gb: [gw_, gb],
    "by ref": lambda gw_, gb: {b.ref(): gb, w.ref(): gw_},
    "pairs": lambda gw_, gb: [(b, gb), (w, gw_)],
    "function": lambda gw_, gb: lambda vs: [gw_ if v is w else gb for v in vs],
}


def affine(form):
    @gw.custom_gradient
    def f(x):
        y = x * w + b  # w is used first, b was made first

        def grad(up, variables=None):
            seen.add(tuple("w" if v is w else "b" if v is b else "?" for v in variables))
            return 3.0 * up * w, forms[form](7.0 * up * x, 5.0 * up)

        return y, grad

    return f


def argument(x, v):
    return x * v, lambda up: (3.0 * up * v, 7.0 * up * x)


as_argument = gw.custom_gradient(argument)
out = {}
x0 = tf.constant([1.0, 4.0])


def step(rule, *more):
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    x = x0 * tf.cast(replica + 1, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = rule(x, *more)
    return tape.gradient(y, [x, *(more or (w, b))])


def told(found):
    return [[v.numpy().tolist() for v in strategy.experimental_local_results(g)] for g in found]


for form in forms:
    rule = affine(form)
    out[f"eager, {form}"] = told(strategy.run(step, (rule,)))
    out[f"traced, {form}"] = told(tf.function(lambda rule=rule: strategy.run(step, (rule,)))())
out["eager, argument"] = told(strategy.run(step, (as_argument, w)))
out["traced, argument"] = told(tf.function(lambda: strategy.run(step, (as_argument, w)))())
out["seen"] = sorted(map(list, seen))


class Layer(keras.layers.Layer):
    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1],), initializer=keras.initializers.Constant(2.0))

    def call(self, x):
        @gw.custom_gradient
        def f(x):
            return x * self.kernel, lambda up: (up * self.kernel, [up * x])

        return f(x)


def fitted(scope):
    with scope:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((3,)), Layer(), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.05), "mse")
    data = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
    model.fit(data, data.sum(-1, keepdims=True), batch_size=8, epochs=2, shuffle=False, verbose=0)
    return [v.numpy().tolist() for v in model.weights]


import contextlib

out["fit"] = [fitted(strategy.scope()), fitted(contextlib.nullcontext())]
print(json.dumps(out))
