"""norm, std and clip_by_norm: values, gradients at zero, tiny and huge numbers."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from tests.ops.test_stable import WRAPS, grads

ops = gw.ops


@WRAPS
def test_norm_at_zero_tiny_and_huge(wrap):
    for values, slope in [
        ([0.0, 0.0], [0, 0]),
        ([1e-23, 0.0], [1, 0]),
        ([3e-23, -4e-23], [0.6, -0.8]),
        ([3e30, 4e30], [0.6, 0.8]),
        ([3.0, 4.0], [0.6, 0.8]),
    ]:
        np.testing.assert_allclose(grads(ops.norm, values, wrap=wrap), slope, rtol=1e-5)
    np.testing.assert_allclose(ops.norm(tf.constant([3e30, 4e30])), 5e30, rtol=1e-5)
    np.testing.assert_allclose(ops.norm(tf.constant([3e-23, 4e-23])), 5e-23, rtol=1e-5)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), [1]])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["norm", "std"])
def test_axes_against_the_framework(name, axis, keepdims):
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    native = {
        "norm": lambda x: tf.sqrt(tf.reduce_sum(x * x, axis, keepdims)),
        "std": lambda x: tf.math.reduce_std(x, axis, keepdims),
    }[name]  # fmt: skip
    f = lambda x: getattr(ops, name)(x, axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(f(tf.constant(x)), native(tf.constant(x)), rtol=1e-5)
    weight = tf.constant(np.random.default_rng(1).normal(size=native(tf.constant(x)).shape), tf.float32)
    for wrap in (lambda f: f, tf.function):
        found = grads(lambda x: weight * f(x), x, wrap=wrap)
        np.testing.assert_allclose(found, grads(lambda x: weight * native(x), x), rtol=1e-4, atol=1e-5)
    unknown = tf.function(lambda x: grads_in(lambda x: weight * f(x), x), input_signature=[tf.TensorSpec([None] * 3)])
    np.testing.assert_allclose(unknown(x), found, rtol=1e-5)
    tangents = [forward(g, tf.constant(x)) for g in (f, native)]
    np.testing.assert_allclose(*tangents, rtol=1e-4, atol=1e-5)


def grads_in(f, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


def forward(f, x):
    with tf.autodiff.ForwardAccumulator(x, tf.cos(x)) as accumulator:
        y = f(x)
    return accumulator.jvp(y)


@WRAPS
def test_std_of_equal_values(wrap):
    np.testing.assert_allclose(grads(ops.std, [2.0, 2.0], wrap=wrap), [0, 0])
    rows = grads(lambda x: ops.std(x, axis=1), [[2.0, 2.0], [1.0, 3.0]], wrap=wrap)
    np.testing.assert_allclose(rows, [[0, 0], [-0.5, 0.5]], rtol=1e-6)


@WRAPS
def test_clip_by_norm(wrap):
    clip = lambda x: ops.clip_by_norm(x, 1.0)
    np.testing.assert_allclose(grads(clip, [0.0, 0.0], wrap=wrap), [1, 1])
    np.testing.assert_allclose(grads(clip, [0.3, 0.4], wrap=wrap), [1, 1])
    x = np.array([3.0, 4.0])
    unit = x / 5
    np.testing.assert_allclose(grads(clip, x, wrap=wrap), (np.ones(2) - unit * unit.sum()) / 5, rtol=1e-5)
    np.testing.assert_allclose(clip(tf.constant([3.0, 4.0])), [0.6, 0.8], rtol=1e-6)
    rows = ops.clip_by_norm(tf.constant([[3.0, 4.0], [0.3, 0.4]]), tf.constant(1.0), axes=[1])
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


def test_second_order_of_the_norm():
    x = tf.constant([3.0, 4.0], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        g = grads_in(ops.norm, x)
    hessian_sum = (np.eye(2) - np.outer(x, x) / 25) / 5
    np.testing.assert_allclose(outer.gradient(g, x), hessian_sum.sum(0), rtol=1e-10)
    zero = tf.zeros(2)
    with tf.GradientTape() as outer:
        outer.watch(zero)
        g = grads_in(ops.norm, zero)
    np.testing.assert_allclose(outer.gradient(g, zero), [0, 0])


@pytest.mark.parametrize("name", ["norm", "std"])
def test_each_is_proven(name):
    rule = getattr(ops, name)
    x = tf.constant(rule.options.example()[0])
    assert gw.check(rule, x, axis=1).verdict == "right"
    assert gw.check(rule, x).verdict == "right"


def test_empty_and_safe_norm_is_norm():
    assert ops.safe_norm is ops.norm
    assert ops.norm(tf.zeros([0])).numpy() == 0
    np.testing.assert_allclose(ops.norm(tf.zeros([3, 0]), axis=1), [0, 0, 0])


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_other_frameworks(framework):
    module = pytest.importorskip(framework)
    values = np.array([[3.0, 4.0], [0.0, 0.0]], "float32")
    for f, want in [
        (lambda x: ops.norm(x, axis=1), [[0.6, 0.8], [0, 0]]),
        (lambda x: ops.std(x, axis=1), [[-0.5, 0.5], [0, 0]]),
    ]:
        if framework == "jax":
            found = module.grad(lambda x, f=f: f(x).sum())(module.numpy.asarray(values))
        else:
            x = module.tensor(values, requires_grad=True)
            f(x).sum().backward()
            found = x.grad
        np.testing.assert_allclose(found, want, rtol=1e-5)
