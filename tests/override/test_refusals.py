"""What cannot be overridden is refused, with the way out; and rules that answer wrongly."""

import pytest
import tensorflow as tf

import gradwright as gw
from tests.override.tools import RULES, X, gradient, guided, times


def refused(rules, call, match):
    with pytest.raises(gw.OverrideError, match=match) as caught, gw.override(rules):
        call()
    return str(caught.value)


@pytest.mark.parametrize("name", ["relu", "ReLU", "leaky_relu", "Conv2d", "matmul"])
def test_an_unknown_type_raises_at_once_with_near_names(name):
    with pytest.raises(gw.OverrideError, match="did you mean"):
        gw.override({name: guided})


@pytest.mark.parametrize("name", ["ArgMax", "Greater", "Shape", "RandomUniform"])
def test_integer_ops_are_refused_at_once(name):
    with pytest.raises(gw.OverrideError, match="straight_through"):
        gw.override({name: guided})


@pytest.mark.parametrize("name", ["While", "If", "PartitionedCall"])
def test_calls_are_refused_at_once(name):
    with pytest.raises(gw.OverrideError, match="the ops inside"):
        gw.override({name: guided})


def test_no_rule_and_no_function_are_refused():
    for rules in ({}, {"Relu": 3}, {"Relu": "Guided"}, {"Relu": None}):
        with pytest.raises(gw.OverrideError):
            gw.override(rules)
    for target in (3, "model", object()):
        with pytest.raises(gw.OverrideError, match="no function or model"):
            gw.override(RULES, target)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function, lambda f: tf.function(f).get_concrete_function(X)])
def test_a_rule_that_never_served_raises_at_the_end_and_names_what_ran(wrap):
    f = wrap(lambda x: tf.nn.leaky_relu(x))
    said = refused(RULES, lambda: f(X), "never served")
    assert "guided" in said and "did you mean LeakyRelu?" in said
    with gw.override(RULES, strict=False) as hits:
        f(X)
    assert hits["Relu"] == 0
    with pytest.raises(gw.OverrideError, match="never served"):
        gw.override(RULES, f)(X)
    gw.override(RULES, f, strict=False)(X)


def test_each_rule_must_serve():
    refused({"Relu": guided, "Elu": guided}, lambda: tf.nn.relu(X), "for Elu never served")


def test_a_rule_whose_conditions_never_held():
    with pytest.raises(gw.OverrideError, match="conditions do not hold"), gw.override(RULES, names="block"):
        tf.nn.relu(X)


def test_the_bodys_own_error_is_not_covered():
    with pytest.raises(KeyError), gw.override(RULES):
        raise KeyError


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function, lambda f: tf.function(f).get_concrete_function(X)])
def test_casts_to_and_from_integers_are_told_with_the_way_out(wrap):
    f = wrap(lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32))
    said = refused({"Cast": guided}, lambda: f(X), "cannot be overridden")
    assert "its output is int32" in said and "its input is int32" in said and "straight_through" in said


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function, lambda f: tf.function(f).get_concrete_function(X)])
def test_ops_inside_custom_gradients_are_told(wrap):
    silu = wrap(lambda x: tf.nn.silu(x))
    said = refused({"Sigmoid": guided}, lambda: silu(X), "inside (a|the) custom gradient")
    assert "tf.sigmoid(x)" in said
    ours = wrap(gw.custom_gradient(lambda x: (tf.nn.relu(x), lambda up: up)))
    refused(RULES, lambda: ours(X), "inside (a|the) custom gradient")


def test_sigmoids_beside_a_silu_are_still_overridden():
    f = lambda x: tf.nn.silu(x) + tf.sigmoid(x)
    for form in (f, tf.function(f), tf.function(f).get_concrete_function(X)):
        with gw.override({"Sigmoid": times(0.0)}) as hits:
            found = gradient(form, w=1.0)
        assert hits["Sigmoid"] == 1 and sum(hits.missed["Sigmoid"].values()) == 1
        assert found == pytest.approx(gradient(tf.nn.silu, w=1.0), abs=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function, lambda f: tf.function(f).get_concrete_function(X)])
def test_identity_n_of_custom_gradients_is_never_overridden(wrap):
    rule = {"IdentityN": lambda op, *ups: [7.0 * u for u in ups]}
    for five in (
        gw.custom_gradient(lambda x: (tf.sign(x), lambda up: 5.0 * up)),
        tf.custom_gradient(lambda x: (tf.sign(x), lambda up: 5.0 * up)),
    ):
        with gw.override(rule, strict=False) as hits:
            assert gradient(wrap(five), w=1.0) == [5.0] * 4
        assert hits["IdentityN"] == 0
    with gw.override(rule) as hits:
        assert gradient(wrap(lambda x: tf.identity_n([x, x])[0]), w=1.0) == [7.0] * 4
    assert hits["IdentityN"] == 1


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
def test_gradients_that_do_not_fit_are_refused_by_name(wrap):
    def wrong(op, up):
        return tf.ones([5])

    product = wrap(lambda x: tf.matmul(x[None], tf.ones([4, 1])))
    three = gw.override({"MatMul": lambda op, up: (up, up, up)}, product)
    with pytest.raises(gw.GradientShapeError, match=r"wrong.*test_refusals.py"):
        gradient(gw.override({"Relu": wrong}, wrap(lambda x: tf.nn.relu(x))))
    with pytest.raises(gw.GradientCountError, match="MatMul, which has 2 inputs"):
        gradient(three, w=1.0)
    with pytest.raises(gw.GradientDtypeError):
        gradient(gw.override({"Relu": lambda op, up: tf.cast(up, tf.int32)}, wrap(lambda x: tf.nn.relu(x))))
