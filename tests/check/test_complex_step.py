"""The complex step serves where it may, and nowhere else."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw


@pytest.mark.parametrize("f", [np.sin, lambda x: x**3 - 2 * x, lambda x: np.exp(-x) / (1 + x**2)])
def test_analytic_functions_without_autodiff_are_judged_to_rounding(f):
    x = np.array([0.3, 1.2, 2.0])
    h = 1e-30
    slope = f(x + 1j * h).imag / h
    report = gw.check(lambda x: (f(x), lambda up: up * slope_of(f, x)), x)
    assert report.ok and report.oracle.startswith("complex step") and report.detectable < 1e-11
    assert np.allclose(slope, slope_of(f, x))
    assert gw.check(lambda x: (f(x), lambda up: -up * slope_of(f, x)), x).labels == ["sign"]


def slope_of(f, x):
    return np.array([(f(x + 1e-30j * e).imag / 1e-30).sum() for e in np.eye(len(x))])


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (np.abs, np.sign),
        (lambda x: x * np.conj(x), lambda x: 2 * x),
        (lambda x: x.real**2, lambda x: 2 * x),
    ],
)
def test_functions_that_are_not_analytic_are_judged_by_differences(f, slope):
    report = gw.check(lambda x: (f(x), lambda up: up * slope(x)), np.array([0.7, -1.2, 2.0]))
    assert report.ok and report.oracle.startswith("differences")


def test_a_stopped_forward_in_tensorflow():
    rule = tf.custom_gradient(lambda x: (tf.sin(tf.stop_gradient(x)), lambda up: up * tf.cos(x)))
    report = gw.check(rule, tf.constant([0.5, 1.0]))
    assert report.ok and report.oracle.startswith("complex step")
