"""What an override costs: an eager op inside and outside a scope, and the copy of a traced CNN.

    python benchmarks/override.py

Prints microseconds per eager op under a tape (plain, in a scope that overrides another op, overridden, after the
scope), and seconds to give a traced function and a loaded SavedModel other gradients. The goals: 0 outside a scope,
at most 10 more microseconds for an op in it, at most 0.2 seconds for a copy.
"""

import tempfile
import time

import keras
import tensorflow as tf

import gradwright as gw

RULE = lambda op, upstream: upstream
X = tf.constant([1.0, -2.0, 3.0])


def per_op(times=200):
    """Seconds per relu of a tape that records many."""
    with tf.GradientTape() as tape:
        tape.watch(X)
        start = time.perf_counter()
        for _ in range(times):
            tf.nn.relu(X)
        return (time.perf_counter() - start) / times


def scoped(rules):
    with gw.override(rules, strict=False):
        return per_op()


def eager():
    ways = {
        "plain": per_op,
        "in a scope for another op": lambda: scoped({"Elu": RULE}),
        "overridden": lambda: scoped({"Relu": RULE}),
        "after the scope": per_op,
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(30):
        for name, way in ways.items():
            best[name] = min(best[name], way())
    for name, seconds in best.items():
        print(f"{name:28} {seconds * 1e6:6.1f} us an op  {(seconds - best['plain']) * 1e6:+5.1f}")


def network():
    layers = [keras.Input((32, 32, 3))]
    for width in (16, 32, 64):
        layers += [keras.layers.Conv2D(width, 3, activation="relu"), keras.layers.BatchNormalization()]
    layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)]
    return keras.Sequential(layers)


def first_call(function, images):
    """Seconds of the first call of an override over those of the second, which has the copy already."""
    function(images)
    overridden = gw.override({"Relu": RULE}, function)
    start = time.perf_counter()
    overridden(images)
    middle = time.perf_counter()
    overridden(images)
    return 2 * middle - start - time.perf_counter()


def copies():
    model, images = network(), tf.ones([4, 32, 32, 3])
    traced = tf.function(lambda x: model(x, training=False))
    with tempfile.TemporaryDirectory() as path:
        model.export(path, verbose=False)
        loaded = tf.saved_model.load(path)
    forms = {
        "traced ConcreteFunction": traced.get_concrete_function(tf.TensorSpec([None, 32, 32, 3])),
        "loaded SavedModel": loaded.serve,
        "tf.function, traced anew": traced,
    }
    for name, form in forms.items():
        print(f"{name:28} {min(first_call(form, images) for _ in range(3)):6.3f} s for the first call")


if __name__ == "__main__":
    eager()
    copies()
