"""gw.ops.where: neither branch disturbs the other, to any order."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from tests.ops.test_stable import WRAPS, grads, second

where = gw.ops.where

CASES = [
    ("sqrt", lambda x: where(x > 0, tf.sqrt, 0.0, x), [-1.0, 0.0, 4.0], [0, 0, 0.25]),
    ("log", lambda x: where(x > 0, tf.math.log, 0.0, x), [-1.0, 0.0, 4.0], [0, 0, 0.25]),
    ("1/x", lambda x: where(x != 0, lambda x: 1.0 / x, 0.0, x), [0.0, 2.0], [0, -0.25]),
    ("power", lambda x: where(x > 0, lambda x: x**1.5, 0.0, x), [-1.0, 4.0], [0, 3]),
    ("overflow", lambda x: where(x < 15.0, x, lambda x: 10.0 ** tf.exp(x), x), [10.0], [1]),
    ("exp", lambda x: where(x > 0, 0.0, tf.exp, x), [1e3, -1.0], [0, np.exp(-1)]),
    ("both", lambda x: where(x > 0, tf.math.log, lambda x: tf.math.log(-x), x), [2.0, -4.0], [0.5, -0.25]),
    ("none taken", lambda x: where(x > 9, lambda x: tf.sqrt(x - 9), 5.0, x), [1.0, 2.0], [0, 0]),
]  # fmt: skip


@WRAPS
@pytest.mark.parametrize(("name", "f", "at", "slope"), CASES, ids=[c[0] for c in CASES])
def test_gradients(name, f, at, slope, wrap):
    np.testing.assert_allclose(grads(f, at, wrap=wrap), slope, rtol=1e-6)


@pytest.mark.parametrize(("name", "f", "at", "slope"), CASES, ids=[c[0] for c in CASES])
def test_second_order_and_forward_mode_are_finite(name, f, at, slope):
    assert np.all(np.isfinite(second(f, at)))
    x = tf.constant(at)
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = f(x)
    np.testing.assert_allclose(accumulator.jvp(y), slope, rtol=1e-6)


def test_a_variable_inside_a_branch_gets_no_nan():
    w = tf.Variable(2.0)
    x = tf.constant([-1.0, 4.0])
    with tf.GradientTape() as tape:
        y = where(x > 0, lambda x: w * tf.sqrt(x), 0.0, x)
    np.testing.assert_allclose(tape.gradient(y, w), 2)


def test_several_inputs_broadcast_and_unknown_shapes():
    f = tf.function(
        lambda x, y: where(x > 0, lambda x, y: tf.math.log(x) * y, 0.0, x, y),
        input_signature=[tf.TensorSpec([None, 1]), tf.TensorSpec(None)],
    )
    x, y = tf.constant([[2.0], [-1.0]]), tf.constant([3.0, 5.0])
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        z = f(x, y)
    gx, gy = tape.gradient(z, [x, y])
    np.testing.assert_allclose(gx, [[4], [0]])
    np.testing.assert_allclose(gy, [np.log(2)] * 2, rtol=1e-6)


def test_vectorised():
    rows = tf.constant([[-1.0, 4.0], [9.0, 0.0]])
    f = lambda x: where(x > 0, tf.sqrt, 0.0, x)
    np.testing.assert_allclose(tf.vectorized_map(f, rows), [[0, 2], [3, 0]])


def test_wrong_use():
    x = tf.constant([1.0])
    with pytest.raises(ValueError, match="needs the inputs"):
        where(x > 0, tf.sqrt, 0.0)
    with pytest.raises(ValueError, match="truth values"):
        where(x, tf.sqrt, 0.0, x)


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_other_frameworks(framework):
    module = pytest.importorskip(framework)
    at, want = np.array([-1.0, 0.0, 4.0], "float32"), [0, 0, 0.25]
    if framework == "jax":
        f = lambda x: where(x > 0, module.numpy.sqrt, 0.0, x).sum()
        found = module.grad(f)(module.numpy.asarray(at))
    else:
        x = module.tensor(at, requires_grad=True)
        where(x > 0, module.sqrt, 0.0, x).sum().backward()
        found = x.grad
    np.testing.assert_allclose(found, want)
