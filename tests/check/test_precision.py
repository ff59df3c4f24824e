"""Right in the user's own precision, not in double precision alone; and losses of precision."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw

custom = tf.custom_gradient
X = tf.constant(np.random.default_rng(0).standard_normal(200), tf.float32)


@pytest.mark.parametrize("form", [tf.float16, tf.bfloat16])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_half_precision_on_the_way_is_a_fault(form, dtype):
    rule = custom(lambda x: (tf.sin(x), lambda up: tf.cast(tf.cast(up * tf.cos(x), form), x.dtype)))
    report = gw.check(rule, tf.cast(X, dtype))
    assert report.labels == ["precision"] and form.name in report.faults[0].message


def test_single_precision_inside_double_is_a_note():
    rule = custom(lambda x: (tf.sin(x), lambda up: up * tf.cast(tf.cos(tf.cast(x, tf.float32)), x.dtype)))
    report = gw.check(rule, tf.cast(X, tf.float64))
    assert report.ok and [note.label for note in report.notes] == ["precision"]


def test_a_rule_that_overflows_in_its_own_precision():
    rule = custom(lambda x: (tf.nn.softplus(x), lambda up: up * tf.exp(x) / (1 + tf.exp(x))))
    assert gw.check(rule, tf.constant([1.0, 20.0])).ok
    report = gw.check(rule, tf.constant([1.0, 100.0]))
    assert report.labels == ["precision"] and report.faults[0].index == (1,)


def test_lost_digits_are_noted():
    rule = custom(lambda x: (tf.sin(x), lambda up: up * ((tf.cos(x) + 1e6) - 1e6)))
    report = gw.check(rule, X)
    assert report.ok and [note.label for note in report.notes] == ["precision"]


@pytest.mark.parametrize("error", [1.01, 0.99])
@pytest.mark.parametrize("hard", [False, True], ids=["castable", "float32 alone"])
def test_one_percent_in_float32(error, hard):
    weights = tf.constant(np.linspace(0.5, 2, 200), tf.float32)
    scale = (lambda x: x * weights) if hard else (lambda x: x * tf.cast(weights, x.dtype))
    right = custom(lambda x: (scale(tf.tanh(x)), lambda up: scale(up * (1 - tf.tanh(x) ** 2))))
    wrong = custom(lambda x: (scale(tf.tanh(x)), lambda up: error * scale(up * (1 - tf.tanh(x) ** 2))))
    assert gw.check(right, X).ok
    assert gw.check(wrong, X).labels == ["factor"]


@pytest.mark.parametrize("n", [10, 1000, 100_000])
def test_a_hundredth_of_a_percent_in_float64(n):
    x = tf.constant(np.random.default_rng(1).standard_normal(n))
    report = gw.check(custom(lambda x: (tf.sin(x), lambda up: 1.0001 * up * tf.cos(x))), x)
    assert report.labels == ["factor"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_coordinate_of_many_is_found_and_named(dtype):
    x = tf.constant(np.random.default_rng(2).standard_normal(100_000), dtype)
    mask = np.where(np.arange(100_000) == 77_777, 0.0, 1.0)
    rule = custom(lambda x: (tf.exp(5 * x), lambda up: 5 * up * tf.exp(5 * x) * tf.cast(mask, x.dtype)))
    report = gw.check(rule, x)
    assert report.verdict == "wrong" and report.faults[0].index == (77_777,)
    assert report.faults[0].argument == "x" and "1 of 100000" in report.faults[0].message
