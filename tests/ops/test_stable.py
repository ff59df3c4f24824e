"""Stable functions: the stated gradient at the bad points, the true one around, NaN nowhere."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw

ops = gw.ops
WRAPS = pytest.mark.parametrize("wrap", [lambda f: f, tf.function, lambda f: tf.function(f, jit_compile=True)],
                                ids=["eager", "function", "jit"])  # fmt: skip


def grads(f, *values, wrap=lambda f: f, dtype=tf.float32):
    xs = [tf.constant(v, dtype) for v in values]

    def run(*xs):
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = f(*xs)
        return tape.gradient(y, xs)

    found = [g.numpy() for g in wrap(run)(*xs)]
    return found[0] if len(found) == 1 else found


def second(f, values):
    x = tf.constant(values)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        g = tape.gradient(y, x)
    return outer.gradient(g, x).numpy()


POINTS = [
    ("sqrt", ops.sqrt, [0.0, 4.0, -1.0], [0, 0.25, 0]),
    ("log", ops.log, [0.0, 4.0, -1.0], [0, 0.25, 0]),
    ("log1p_exp", ops.log1p_exp, [-200.0, 0.0, 100.0, 1e4], [0, 0.5, 1, 1]),
    ("log1mexp", ops.log1mexp, [0.0, np.log(2.0), 200.0, -np.log(2.0)], [0, 1, 0, -1]),
    ("acos", ops.acos, [1.0, -1.0, 0.0, 2.0], [0, 0, -1, 0]),
    ("asin", ops.asin, [1.0, -1.0, 0.0, 2.0], [0, 0, 1, 0]),
    ("pow 1.5", lambda x: ops.pow(x, 1.5), [0.0, -1.0, 4.0], [0, 0, 3]),
    ("pow .5", lambda x: ops.pow(x, 0.5), [0.0, 4.0], [0, 0.25]),
    ("pow 2", lambda x: ops.pow(x, 2), [0.0, -3.0], [0, -6]),
    ("pow 1", lambda x: ops.pow(x, 1.0), [0.0, -3.0], [1, 1]),
    ("pow 0", lambda x: ops.pow(x, 0.0), [0.0, 2.0], [0, 0]),
    ("pow -1", lambda x: ops.pow(x, -1.0), [0.0, 2.0], [0, -0.25]),
]  # fmt: skip


@WRAPS
@pytest.mark.parametrize(("name", "f", "at", "slope"), POINTS, ids=[p[0] for p in POINTS])
def test_stated_gradients(name, f, at, slope, wrap):
    np.testing.assert_allclose(grads(f, at, wrap=wrap), slope, rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize(("name", "f", "at", "slope"), POINTS, ids=[p[0] for p in POINTS])
def test_no_nan_to_the_second_order_where_the_value_is_finite(name, f, at, slope):
    finite = [x for x in at if np.isfinite(f(tf.constant(x)).numpy())]
    assert np.all(np.isfinite(second(f, finite)))


def test_second_order_of_powers_at_zero():
    np.testing.assert_allclose(second(lambda x: ops.pow(x, 2.0), [0.0, 3.0]), [2, 2])
    np.testing.assert_allclose(second(lambda x: ops.pow(x, 1.0), [0.0, 3.0]), [0, 0])
    np.testing.assert_allclose(second(lambda x: ops.pow(x, 3.0), [0.0, 2.0]), [0, 12])


@WRAPS
def test_functions_of_two(wrap):
    gx, gy = grads(ops.xlogy, [0.0, 0.0, 3.0, 2.0], [0.0, 2.0, 1.0, -1.0], wrap=wrap)
    np.testing.assert_allclose(gx, [0, np.log(2), 0, 0], rtol=1e-6)
    np.testing.assert_allclose(gy, [0, 0, 3, 0])
    gy, gx = grads(ops.atan2, [0.0, 1.0, 1e-30, 1e30, 0.0], [0.0, 0.0, 0.0, 1e30, -2.0], wrap=wrap)
    np.testing.assert_allclose(gy, [0, 0, 0, 0.5e-30, -0.5], rtol=1e-5)
    np.testing.assert_allclose(gx, [0, -1, -1e30, -0.5e-30, 0], rtol=1e-5)
    gx, gy = grads(ops.pow, [0.0, 2.0, -2.0], [2.0, 3.0, 2.0], wrap=wrap)
    np.testing.assert_allclose(gx, [0, 12, -4])
    np.testing.assert_allclose(gy, [0, 8 * np.log(2), 0], rtol=1e-6)


def test_values_are_the_frameworks():
    x = tf.constant([0.0, 0.5, 2.0])
    np.testing.assert_allclose(ops.sqrt(x), tf.sqrt(x))
    np.testing.assert_allclose(ops.log(x), tf.math.log(x))
    np.testing.assert_allclose(ops.xlogy(x, x), tf.math.xlogy(x, x))
    np.testing.assert_allclose(ops.pow(x, 1.5), x**1.5, rtol=1e-6)
    np.testing.assert_allclose(ops.softplus(x), tf.math.softplus(x), rtol=1e-6)
    x = np.array([1e-12, 1e-3, 0.7, 3.0, 40.0])
    np.testing.assert_allclose(
        ops.log1mexp(tf.constant(x)), np.where(x < 1, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x))), rtol=1e-12
    )
    np.testing.assert_allclose(ops.log1mexp(tf.constant([80.0])), [-np.exp(-80.0)], rtol=1e-5)


def test_precision_of_the_slopes_near_the_bad_points():
    x = 1 - 1e-12
    np.testing.assert_allclose(grads(ops.asin, [x], dtype=tf.float64), [1 / np.sqrt((1 - x) * (1 + x))], rtol=1e-12)
    np.testing.assert_allclose(grads(ops.log1mexp, [1e-9], dtype=tf.float64), [1e9], rtol=1e-8)


def test_inside_a_plain_where_the_branch_not_taken_is_silent():
    for f, at, want in [
        (lambda x: tf.where(x > 0, ops.sqrt(x), 0.0), [-1.0, 0.0, 4.0], [0, 0, 0.25]),
        (lambda x: tf.where(x > 0, ops.log(x), 0.0), [-1.0, 0.0, 4.0], [0, 0, 0.25]),
        (lambda x: tf.where(x > 0, ops.pow(x, 1.5), 0.0), [-1.0, 4.0], [0, 3]),
        (lambda x: tf.where(x < 1, ops.acos(x), 0.0), [0.0, 3.0], [-1, 0]),
    ]:
        np.testing.assert_allclose(grads(f, at), want)


def test_mixed_kinds_of_arguments():
    np.testing.assert_allclose(grads(lambda x: ops.pow(x, tf.constant(2)), [3.0]), [6])
    np.testing.assert_allclose(grads(lambda y: ops.pow(2.0, y), [3.0]), [8 * np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(grads(lambda x: ops.xlogy(x, 2.0), [0.0]), [np.log(2)], rtol=1e-6)
    half = grads(ops.sqrt, [0.0, 4.0], dtype=tf.float16)
    assert half.dtype == np.float16 and half.tolist() == [0, 0.25]


@pytest.mark.parametrize("name", ["sqrt", "log", "log1p_exp", "log1mexp", "acos", "asin", "xlogy", "pow", "atan2"])
def test_each_is_proven(name):
    rule = getattr(ops, name)
    args = [tf.constant(a) for a in rule.options.example()]
    assert rule.name == name
    assert rule.where.startswith("stable.py:")
    assert gw.check(rule, *args).verdict == "right", str(gw.check(rule, *args))


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_other_frameworks(framework):
    module = pytest.importorskip(framework)
    for name, f, at, slope in POINTS[:6]:
        values = np.array(at, "float32")
        if framework == "jax":
            found = module.grad(lambda x, f=f: f(x).sum())(module.numpy.asarray(values))
        else:
            x = module.tensor(values, requires_grad=True)
            f(x).sum().backward()
            found = x.grad
        np.testing.assert_allclose(found, slope, rtol=1e-5, atol=1e-30, err_msg=name)
