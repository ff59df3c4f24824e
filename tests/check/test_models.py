"""Layers and models: by argument, in double precision whatever their own, and quickly."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw

keras = tf.keras
L = keras.layers


@tf.custom_gradient
def leaking(x):
    return tf.nn.relu(x), lambda up: 0.99 * up * tf.cast(x > 0, x.dtype)


def stateless(*shape):
    return tf.random.stateless_normal(shape, (5, 6))


def convolutions():
    start = [L.Input((8, 8, 2)), L.Conv2D(4, 3, activation="relu"), L.BatchNormalization()]
    return [*start, L.Flatten(), L.Dropout(0.5), L.Dense(3)], stateless(3, 8, 8, 2)


def dense():
    start = [L.Input((20,)), L.Dense(30, activation="gelu"), L.LayerNormalization()]
    return [*start, L.Dense(2, activation="softmax")], stateless(5, 20)


def recurrent():
    return [L.Input((6, 4)), L.LSTM(5), L.Dense(2)], stateless(3, 6, 4)


def embedding():
    layers = [L.Input((5,), dtype="int32"), L.Embedding(9, 4), L.GlobalAveragePooling1D(), L.Dense(2)]
    return layers, tf.constant([[1, 2, 3, 1, 1], [0, 8, 2, 2, 4]])


MODELS = {f.__name__: f for f in (convolutions, dense, recurrent, embedding)}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [False, True])
def test_right_models_are_right(name, training):
    layers, x = MODELS[name]()
    report = gw.check(keras.Sequential(layers), x, training=training)
    assert report.ok, str(report)
    assert "float64" in report.oracle
    assert report.detectable < 1e-2


def test_a_wrong_activation_is_found_in_every_argument_before_it():
    model = keras.Sequential([L.Input((6,)), L.Dense(5, activation=leaking, name="first"), L.Dense(2, name="last")])
    report = gw.check(model, stateless(4, 6))
    blamed = {fault.argument.split("/", 1)[-1] for fault in report.faults}
    assert report.labels == ["factor"] and "1.0101" in report.faults[0].message
    assert blamed == {"inputs", "first/kernel", "first/bias"}


def test_weights_are_left_as_they_were():
    model = keras.Sequential([L.Input((6,)), L.Dense(5, activation=leaking)])
    before = [w.copy() for w in model.get_weights()]
    gw.check(model, stateless(4, 6))
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))


def test_a_million_weights():
    model = keras.Sequential([L.Input((1000,)), L.Dense(1000, activation="tanh"), L.Dense(3)])
    report = gw.check(model, stateless(4, 1000))
    assert report.ok and report.evaluations < 60
    assert {row.kind for row in report.arguments} == {"argument", "variable"}


def test_loops_and_branches_have_a_double_precision_graph():
    w = tf.Variable([1.0, 2.0])

    @tf.function
    def f(x):
        y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y * w)), [0, x])[1]
        return tf.cond(tf.reduce_sum(y) > 0, lambda: y * w, lambda: y)

    report = gw.check(f, tf.constant([0.3, 0.8]))
    assert report.ok and "autodiff of the forward in float64" in report.oracle


def test_what_has_no_double_precision_graph_is_still_proven():
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1, 2], [3.0, 4.0]), 0.0)
    w = tf.Variable(2.0)
    f = lambda x: x * w * table.lookup(tf.constant([1, 2]))
    report = gw.check(f, tf.constant([1.0, 2.0]))
    assert report.ok and "own precision" in report.oracle
