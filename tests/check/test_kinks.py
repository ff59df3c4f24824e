"""Kinks, jumps and edges of the domain are no mistakes; a mistake beside them still is one."""

import pytest
import tensorflow as tf

import gradwright as gw

custom = tf.custom_gradient


def step(x):
    return tf.cast(x > 0, x.dtype)


@pytest.mark.parametrize("at_zero", [0.0, 0.5, 1.0])
def test_any_slope_at_the_kink_of_relu_is_right(at_zero):
    rule = custom(lambda x: (tf.nn.relu(x), lambda up: up * tf.where(x == 0, at_zero, step(x))))
    report = gw.check(rule, tf.constant([0.0, -1.0, 2.0, 0.0]))
    assert report.ok, str(report)
    assert not report.faults


def test_the_kink_is_noted():
    rule = custom(lambda x: (tf.nn.relu(x), lambda up: up * tf.cast(x >= 0, x.dtype)))
    report = gw.check(rule, tf.constant([0.0, -1.0, 2.0]))
    assert [note.label for note in report.notes] == ["kink"] and report.notes[0].index == (0,)


def test_a_mistake_beside_a_kink_is_found():
    rule = custom(lambda x: (tf.nn.relu(x), lambda up: 2.0 * up * tf.cast(x >= 0, x.dtype)))
    assert gw.check(rule, tf.constant([0.0, -1.0, 2.0])).labels == ["factor"]
    assert gw.check(rule, tf.constant([0.0])).verdict == "wrong"


@pytest.mark.parametrize("forward", [tf.floor, tf.round, tf.sign, tf.math.ceil])
def test_jumps(forward):
    rule = custom(lambda x: (forward(x), lambda up: tf.zeros_like(up)))
    assert gw.check(rule, tf.constant([4.0, 0.0, 2.5, -1.2])).ok


@pytest.mark.parametrize(
    ("rule", "x"),
    [
        (lambda x: (tf.sqrt(x), lambda up: 0.5 * up / tf.sqrt(x)), [0.0, 1.0]),
        (lambda x: (tf.norm(x), lambda up: up * x / tf.norm(x)), [0.0, 0.0]),
        (lambda x: (tf.asin(x), lambda up: up / tf.sqrt(1 - x * x)), [1.0, 0.3]),
        (lambda x: (tf.math.log(x), lambda up: up / x), [1e-30, 1.0]),
        (lambda x: (tf.math.acosh(x), lambda up: up / tf.sqrt(x * x - 1)), [1.0, 2.0]),
    ],
)
def test_edges_of_the_domain(rule, x):
    report = gw.check(custom(rule), tf.constant(x))
    assert report.verdict == "right", str(report)


def test_a_special_case_in_the_rule_alone_is_a_mistake():
    rule = custom(lambda x: (tf.sin(x), lambda up: up * tf.where(x == 1.0, 5.0, tf.cos(x))))
    report = gw.check(rule, tf.constant([0.5, 1.0]))
    assert report.verdict == "wrong" and report.faults[0].index == (1,)


def test_many_kinks_between_the_steps():
    x = tf.random.stateless_normal([64, 300], (1, 2))
    w = tf.random.stateless_normal([300, 200], (3, 4))

    def rule(x, w):
        y = x @ w
        return tf.nn.relu(y), lambda up: ((up * step(y)) @ tf.transpose(w), tf.transpose(x) @ (up * step(y)))

    assert all(gw.check(custom(rule), x, w, seed=seed).ok for seed in range(5))
