"""The private corners: what happens without them, and that nothing is left behind."""

import gc
import types
import weakref

import pytest
import tensorflow as tf

import gradwright as gw
from gradwright.frameworks import tf_override_ops as known
from gradwright.frameworks import tf_override_record, tf_override_tags
from tests.override.tools import GUIDED, RULES, X, close, gradient, relus


@pytest.mark.parametrize(
    ("op_type", "f"),
    [
        ("LeakyRelu", lambda x: tf.nn.leaky_relu(x, 0.3)),
        ("MatMul", lambda x: tf.matmul(x[None], tf.ones([1, 4]), transpose_b=True)),
        ("Mul", lambda x: x * x),
    ],
)
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
def test_native_without_the_registry_runs_the_op_again(monkeypatch, op_type, f, wrap):
    wanted = gradient(f, w=2.0)
    monkeypatch.setattr(tf_override_record, "lookup", None)
    assert close(gradient(gw.override({op_type: gw.override.native}, wrap(f)), w=2.0), wanted)


def test_types_without_the_op_registry(monkeypatch):
    monkeypatch.delattr(known.op_def_registry, "get")
    assert known.op_def("Relu") is not None and known.op_def("relu") is None
    with gw.override(RULES):
        assert gradient(tf.nn.relu) == GUIDED


def test_names_stay_registered_where_the_registry_is_closed(monkeypatch):
    closed = types.SimpleNamespace(uid=tf_override_tags.ops.uid, executing_eagerly_outside_functions=lambda: True)
    monkeypatch.setattr(tf_override_tags, "ops", closed)
    assert tf_override_tags.unregister("Relu") is None
    assert gradient(gw.override(RULES, tf.function(relus))) == GUIDED


def test_scopes_and_layers_without_keras_and_context(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "keras.src.backend.common", None)
    assert known.layers_now() == ()
    monkeypatch.setattr(known.context, "context", lambda: object())
    assert known.scope_now() == ""


def test_a_place_that_tensorflow_has_not_any_more_is_left_out(monkeypatch):
    from gradwright.frameworks import tf_override

    places = [*tf_override._places(), (tf, "no_such_place", lambda original: original)]
    monkeypatch.setattr(tf_override, "_places", lambda: places)
    with gw.override(RULES):
        assert gradient(tf.nn.relu) == GUIDED
    assert not hasattr(tf, "no_such_place")


def test_tagged_names_end_with_their_graphs():
    registry = tf_override_tags.ops.gradient_registry._registry
    gc.collect()
    before = len(registry)
    branch = lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.relu(x), lambda: x)
    for _ in range(3):
        for f in (tf.function(branch), tf.function(branch).get_concrete_function(X)):
            with gw.override(RULES):
                assert gradient(f) == GUIDED
    del f
    gc.collect()
    assert len(registry) == before


def test_names_live_while_a_graph_needs_them():
    def scoped(x):
        with gw.override(RULES):
            return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.relu(x), lambda: x)

    f = tf.function(scoped).get_concrete_function(X)
    gc.collect()
    assert gradient(f) == GUIDED
    again = tf.function(f)
    gc.collect()
    assert gradient(again) == GUIDED
    other = gw.override({"Sum": gw.override.native}, f)
    other(X)
    del f, again
    gc.collect()
    assert gradient(other) == GUIDED


def test_a_scope_keeps_nothing_alive():
    class Model(tf.Module):
        @tf.function
        def __call__(self, x):
            return tf.nn.relu(x)

    model = Model()
    with gw.override(RULES):
        gradient(model)
    dead = weakref.ref(model)
    del model
    gc.collect()
    assert dead() is None
