"""Overrides of ops that run eagerly."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from tests.override.tools import GUIDED, PLAIN, RULES, W, X, close, gradient, guided, times


def test_a_scope_replaces_the_gradient_and_is_undone():
    with gw.override(RULES) as hits:
        inside = gradient(tf.nn.relu)
    assert inside == GUIDED and hits["Relu"] == 1
    assert gradient(tf.nn.relu) == PLAIN


def test_only_ops_that_run_forward_in_the_scope_are_meant():
    with tf.GradientTape() as tape:
        tape.watch(X)
        with gw.override(RULES):
            inside = tf.nn.relu(X)
        outside = tf.nn.relu(X)
        loss = tf.reduce_sum(W * (inside + outside))
    assert close(tape.gradient(loss, X), np.add(GUIDED, PLAIN))


@pytest.mark.parametrize("op", [tf.nn.relu, tf.raw_ops.Relu, keras.ops.relu, keras.activations.relu])
def test_every_way_to_the_op_is_met(op):
    call = (lambda x: op(features=x)) if op is tf.raw_ops.Relu else op
    with gw.override({"Relu": times(7.0)}) as hits:
        found = gradient(call, w=tf.ones(4))
    assert hits["Relu"] == 1 and close(found, [7.0] * 4, 1e-5)


def test_a_variable_as_the_input_gets_the_gradient():
    v = tf.Variable([-1.0, 2.0])
    with gw.override({"Relu": times(7.0)}), tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.nn.relu(v))
    assert tape.gradient(loss, v).numpy().tolist() == [7.0, 7.0]


def test_ops_on_the_slow_eager_path_are_met_once():
    image, kernel = tf.ones([1, 4, 4, 1]), tf.ones([2, 2, 1, 1])
    conv = lambda x: tf.nn.conv2d(x, kernel, 1, "SAME")
    plain = np.array(gradient(conv, image, 1.0))
    with gw.override({"Conv2D": lambda op, up: gw.override.native(op, up * 3.0)}) as hits:
        tripled = np.array(gradient(conv, image, 1.0))
    assert hits["Conv2D"] == 1 and close(tripled, 3 * plain)


@pytest.mark.parametrize(("name", "op"), [("Floor", tf.floor), ("Round", tf.round), ("Sign", tf.sign)])
def test_ops_without_a_gradient_are_given_one(name, op):
    with gw.override({name: times(0.5)}):
        assert gradient(op, w=tf.ones(4)) == [0.5] * 4


def test_several_inputs_and_those_that_take_no_gradient():
    a, b = tf.constant([[1.0, 2.0]]), tf.constant([[3.0], [4.0]])
    rule = lambda op, up: (up * 10.0 * tf.transpose(op.inputs[1]), tf.transpose(op.inputs[0]) * up * 100.0)
    with gw.override({"MatMul": rule}), tf.GradientTape() as tape:
        tape.watch([a, b])
        y = tf.matmul(a, b)
    to_a, to_b = tape.gradient(y, [a, b])
    assert close(to_a, [[30.0, 40.0]]) and close(to_b, [[100.0], [200.0]])
    with gw.override({"Sum": lambda op, up: tf.fill(tf.shape(op.inputs[0]), 9.0)}):
        assert gradient(lambda x: tf.reduce_sum(x, 0), w=1.0) == [9.0] * 4


def test_a_gradient_that_broadcasting_explains_is_summed():
    bias = tf.zeros(4)
    with gw.override({"AddV2": lambda op, up: (up, up)}), tf.GradientTape() as tape:
        tape.watch(bias)
        y = tf.ones([3, 4]) + bias
    assert tape.gradient(y, bias).numpy().tolist() == [3.0] * 4


def test_rules_see_the_op():
    seen = {}

    def rule(op, up):
        seen.update(type=op.type, alpha=op.get_attr("alpha"), x=op.inputs[0], y=op.outputs[0])
        return up

    with gw.override({"LeakyRelu": rule}):
        gradient(lambda x: tf.nn.leaky_relu(x, 0.25))
    assert seen["type"] == "LeakyRelu" and seen["alpha"] == 0.25
    assert close(seen["x"], X) and close(seen["y"], [-0.25, 2.0, 3.0, 0.5])


def test_a_sparse_upstream_arrives_dense():
    with gw.override({"Relu": lambda op, up: up * 2.0}):
        found = gradient(lambda x: tf.gather(tf.nn.relu(x), [1, 1]), w=1.0)
    assert found == [0.0, 4.0, 0.0, 0.0]


def test_all_outputs_of_an_op_reach_the_rule():
    def rule(op, *upstreams):
        return None, tf.concat([u * (i + 1.0) for i, u in enumerate(upstreams)], 0)

    with gw.override({"Split": rule}):
        found = gradient(lambda x: tf.split(x, 2)[1], w=1.0)
    assert found == [0.0, 0.0, 2.0, 2.0]


def test_persistent_and_nested_tapes_and_second_order():
    # The rule 7*up*y of exp: first order 7y; the second differentiates y again by the rule, 7*7y.
    y = np.exp(X)
    with gw.override({"Exp": lambda op, up: 7.0 * up * op.outputs[0]}):
        with tf.GradientTape() as outer:
            outer.watch(X)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch(X)
                z = tf.exp(X)
            first = inner.gradient(z, X)
            again = inner.gradient(z, X)
        second = outer.gradient(first, X)
    assert close(first, 7 * y, 1e-5) and close(again, first) and close(second, 49 * y, 1e-5)


def test_backward_passes_in_the_scope_are_not_overridden_or_counted():
    # The gradient of MatMul runs two more MatMuls; only the one in the forward pass counts.
    x = tf.constant([[1.0, 2.0]])
    with gw.override({"MatMul": lambda op, up: gw.override.native(op, up)}) as hits, tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.matmul(x, tf.ones([2, 2]))
        tape.gradient(y, x)
    assert hits["MatMul"] == 1


def test_places_are_scopes_or_lines():
    with gw.override(RULES) as hits:
        tf.nn.relu(X)
        with tf.name_scope("block"):
            tf.nn.relu(X)
            tf.nn.relu(X)
    line, scoped = sorted(hits.places["Relu"])
    assert line.startswith("test_eager.py:") or scoped.startswith("test_eager.py:")
    assert hits.places["Relu"]["block/Relu"] == 2 and hits["Relu"] == 3


def test_narrower_rules_by_name_and_predicate():
    def model(x):
        with tf.name_scope("a"):
            x = tf.nn.relu(x)
        with tf.name_scope("b"):
            return tf.nn.relu(x)

    x = tf.constant([1.0, 2.0])
    rules = {"Relu": [times(2.0), gw.override.at(times(5.0), names="b")]}
    with gw.override(rules):
        assert gradient(model, x, 1.0) == [10.0, 10.0]
    with gw.override({"Relu": times(3.0)}, where=lambda op: op.name == "a/Relu") as hits:
        assert gradient(model, x, 1.0) == [3.0, 3.0]
    assert hits["Relu"] == 1


def test_native_is_tensorflows_own_gradient():
    assert close(gradient(gw.override({"Tanh": lambda op, up: gw.override.native(op, up)}, tf.tanh)), gradient(tf.tanh))
    none = gw.override({"Floor": lambda op, up: gw.override.native(op, up)}, tf.floor)
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = none(X)
    assert tape.gradient(y, X) is None


def test_shadowed_rules_of_an_outer_scope():
    with gw.override({"Relu": times(2.0)}):
        assert gradient(tf.nn.relu, w=1.0) == [2.0] * 4
        with gw.override({"Relu": guided}):
            assert gradient(tf.nn.relu) == GUIDED
        assert gradient(tf.nn.relu, w=1.0) == [2.0] * 4
