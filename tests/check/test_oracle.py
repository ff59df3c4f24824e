"""The ladder: who serves, and that a bad oracle is not believed."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw

custom = tf.custom_gradient
X = tf.constant([0.5, -1.0, 2.0])


@tf.custom_gradient
def broken_sine(x):
    return tf.sin(x), lambda up: -up * tf.cos(x)


@pytest.mark.parametrize(
    ("forward", "gradient"),
    [
        (lambda x: x * tf.stop_gradient(x), lambda x: 2.0 * x),
        (lambda x: tf.stop_gradient(tf.sin(x)), tf.cos),
        (lambda x: tf.numpy_function(np.sin, [x], x.dtype), tf.cos),
    ],
    ids=["half stopped", "stopped", "numpy"],
)
def test_a_forward_without_trustworthy_autodiff_is_judged_by_differences(forward, gradient):
    report = gw.check(custom(lambda x: (forward(x), lambda up: up * gradient(x))), X)
    assert report.verdict == "right" and report.oracle.startswith(("differences", "complex step")), str(report)
    spoiled = gw.check(custom(lambda x: (forward(x), lambda up: -up * gradient(x))), X)
    assert spoiled.labels == ["sign"]


def test_a_wrong_rule_inside_the_forward_is_not_believed():
    right = custom(lambda x: (broken_sine(x), lambda up: up * tf.cos(x)))
    assert gw.check(right, X).ok
    believer = custom(lambda x: (broken_sine(x), lambda up: -up * tf.cos(x)))
    assert gw.check(believer, X).labels == ["sign"]
    assert gw.check(lambda x: broken_sine(2.0 * x), X).labels == ["sign"]


def test_a_reference_judges_a_surrogate():
    through = custom(lambda x: (tf.round(x), lambda up: up))
    assert gw.check(through, X).verdict == "wrong"
    report = gw.check(through, X, like=lambda x: x)
    assert report.ok and report.oracle.startswith("autodiff of the named surrogate")
    assert gw.check(through, X, like=tf.tanh).verdict == "wrong"


def test_a_declared_surrogate_is_judged_by_its_contract_alone():
    through = gw.custom_gradient(surrogate=True)(lambda x: (tf.round(x), lambda up: 7.0 * up))
    report = gw.check(through, X)
    assert report.ok and "contract" in report.oracle and report.detectable is None
    ignoring = gw.custom_gradient(surrogate=True)(lambda x: (tf.round(x), lambda up: tf.ones_like(x)))
    assert gw.check(ignoring, X).labels == ["upstream-ignored"]
    shapeless = gw.custom_gradient(surrogate=True)(lambda x: (tf.round(x), lambda up: tf.ones([2])))
    assert "shape" in gw.check(shapeless, X).labels


def test_where_autodiff_overflows_differences_serve():
    def f(x):
        return tf.math.log(1.0 + tf.exp(x)), lambda up: up * tf.sigmoid(x)

    assert gw.check(custom(f), tf.constant([-5.0, 3.0, 60.0])).ok


@pytest.mark.parametrize("n", [70, 5000])
def test_one_coordinate_is_found_by_halving_when_only_differences_serve(n):
    x = np.random.default_rng(0).standard_normal(n)
    mask = np.where(np.arange(n) == n // 3, 1.1, 1.0)
    report = gw.check(lambda x: (np.sin(x), lambda up: up * np.cos(x) * mask), x)
    assert report.verdict == "wrong" and report.faults[0].index == (n // 3,)
    assert report.evaluations < 60 * np.log2(n)


def test_small_arguments_beside_large_ones_are_seen():
    f = lambda x, y: (1e6 * np.sum(x * x) + np.sum(np.sin(y)), lambda up: (2e6 * up * x, 1.01 * up * np.cos(y)))
    report = gw.check(f, np.ones(50) * 3, np.linspace(0, 1, 50))
    assert [(fault.label, fault.argument) for fault in report.faults] == [("factor", "y")]


def test_noise_beyond_telling_is_undecided():
    rough = lambda x: np.round(np.sin(x) * 30) / 30 + 0 * x
    report = gw.check(lambda x: (rough(x), lambda up: up * np.cos(x)), np.linspace(0.1, 1, 40))
    assert report.verdict != "right"
    assert not any(fault.label == "sign" for fault in report.faults)


def test_cost_does_not_grow_with_size():
    calls = []
    for n in (10, 100_000):
        f = custom(lambda x: (tf.tanh(x), lambda up: up * (1.0 - tf.tanh(x) ** 2)))
        report = gw.check(f, tf.random.normal([n], dtype=tf.float64))
        assert report.ok
        calls.append(report.calls)
    assert abs(calls[0]["forward"] - calls[1]["forward"]) <= 6 and calls[0]["rule"] == calls[1]["rule"]
    assert calls[1]["forward"] <= 22 and calls[1]["rule"] <= 16
    lean = gw.check(custom(lambda x: (tf.tanh(x), lambda up: up * (1.0 - tf.tanh(x) ** 2))), X, contract=False)
    assert lean.ok and lean.calls["rule"] <= 7
