"""gw.rule: fwd and bwd, jvp, both, and the transposes between them."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw

X = tf.constant([2.0, 3.0])


def gradient(f, x, upstream=None, wrap=lambda f: f):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = wrap(f)(x)
    return tape.gradient(y, x, output_gradients=upstream)


def tangent(f, x, t, wrap=lambda f: f):
    with tf.autodiff.ForwardAccumulator(x, t) as accumulator:
        y = wrap(f)(x)
    return accumulator.jvp(y)


WRAPS = pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])


@WRAPS
def test_vjp_alone_gives_the_jvp_by_transposing(wrap):
    @gw.rule
    def cube(x):
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, upstream: (upstream * 30 * x**2,))
    np.testing.assert_allclose(gradient(cube, X, wrap=wrap), [120, 270])
    np.testing.assert_allclose(tangent(cube, X, tf.constant([1.0, 10.0]), wrap), [120, 2700])


@WRAPS
def test_jvp_alone_gives_the_vjp_by_transposing(wrap):
    @gw.rule
    def mixed(x):
        return tf.linalg.matvec(tf.constant([[0.0, 1.0], [2.0, 3.0]]), x)

    mixed.defjvp(lambda p, t: (mixed.forward(p[0]), 10 * tf.linalg.matvec(tf.constant([[0.0, 1.0], [2.0, 3.0]]), t[0])))
    np.testing.assert_allclose(gradient(mixed, X, tf.constant([1.0, 100.0]), wrap), [2000, 3010])
    np.testing.assert_allclose(tangent(mixed, X, tf.constant([1.0, 0.0]), wrap), [0, 20])


@WRAPS
def test_both_are_used_each_in_its_mode(wrap):
    @gw.rule
    def cube(x):
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, upstream: (upstream * 3 * x**2,))
    cube.defjvp(lambda p, t: (p[0] ** 3, 3 * p[0] ** 2 * t[0]))
    np.testing.assert_allclose(gradient(cube, X, wrap=wrap), [12, 27])
    np.testing.assert_allclose(tangent(cube, X, tf.ones(2), wrap), [12, 27])


def test_vjp_that_is_not_linear_is_refused_in_forward_mode():
    clipped = gw.rule(lambda x: tf.identity(x))
    clipped.defvjp(lambda x: (tf.identity(x), ()), lambda _, upstream: (tf.clip_by_value(upstream, -1.0, 1.0),))
    np.testing.assert_allclose(gradient(clipped, X, tf.constant([5.0, 0.5])), [1, 0.5])
    with pytest.raises(gw.ModeError, match="linear"):
        tangent(clipped, X, tf.ones(2))


def test_several_arguments_static_ones_and_structures():
    @gw.rule
    def f(x, n, p, *, scale=1.0):
        return x**n * p["w"] * scale

    def fwd(x, n, p, *, scale=1.0):
        return x**n * p["w"] * scale, (x, n, p["w"], scale)

    def bwd(residuals, upstream):
        x, n, w, scale = residuals
        return upstream * n * x ** (n - 1) * w * scale, None, {"w": upstream * x**n * scale}

    f.defvjp(fwd, bwd)
    p = {"w": tf.constant([3.0, 5.0])}
    with tf.GradientTape() as tape:
        tape.watch([X, p["w"]])
        y = f(X, 2, p, scale=10.0)
    gx, gw_ = tape.gradient(y, [X, p["w"]])
    np.testing.assert_allclose(gx, 2 * X * p["w"] * 10)
    np.testing.assert_allclose(gw_, X**2 * 10)


def test_upstream_is_shaped_like_the_output():
    f = gw.rule(lambda x: (x, 2 * x))
    f.defvjp(lambda x: ((tf.identity(x), 2 * x), None), lambda _, ups: (ups[0] + 2 * ups[1],))
    np.testing.assert_allclose(gradient(lambda x: f(x)[0] * 1.0 + f(x)[1] * 10.0, X), [21, 21])
    g = gw.rule(lambda x: {"a": x, "b": 2 * x})
    g.defvjp(lambda x: ({"a": tf.identity(x), "b": 2 * x}, None), lambda _, ups: (ups["a"] + 2 * ups["b"],))
    np.testing.assert_allclose(gradient(lambda x: g(x)["b"] * 10.0, X), [20, 20])


def test_captured_variables():
    w = tf.Variable(2.0)
    f = gw.rule(lambda x: w * x)
    f.defvjp(lambda x: (w * x, x), lambda x, up, variables=None: ((up * w,), [tf.reduce_sum(up * x)]))
    for call in (f, tf.function(f)):
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = call(X)
        gx, gv = tape.gradient(y, [X, w])
        np.testing.assert_allclose(gx, [2, 2])
        np.testing.assert_allclose(gv, 5)


def test_lazy_gradients_and_what_is_not_implemented():
    f = gw.rule(lambda x, y: x * y)
    f.defvjp(lambda x, y: (x * y, (x, y)), lambda r, up: (lambda: up * r[1], lambda: up * r[0]))
    np.testing.assert_allclose(gradient(lambda x: f(x, X * 2), X), 4 * X)
    g = gw.rule(name="half")(lambda x, y: x * y)
    g.defvjp(lambda x, y: (x * y, y), lambda y, up: (up * y, gw.forms.not_implemented("by y")))
    np.testing.assert_allclose(g(X, X), X * X)
    with pytest.raises(gw.ModeError, match=r"(?s)rule `half`.*by y"):
        gradient(lambda x: g(x, x), X)


def test_a_rule_without_derivatives_and_wrong_returns_are_refused():
    f = gw.rule(lambda x: x)
    with pytest.raises(gw.GradwrightError, match=r"(?s)no derivative yet.*defvjp.*defjvp"):
        f(X)
    f.defvjp(lambda x: x, lambda r, up: up)
    with pytest.raises(gw.GradwrightError, match="fwd must return"):
        f(X)
    with pytest.raises(ValueError, match="`bwd` must be a function"):
        f.defvjp(lambda x: (x, x), None)
    with pytest.raises(ValueError, match=r"gw.rule decorates a function"):
        gw.rule(3)


def test_forward_is_the_function_itself_and_options_are_taken():
    @gw.rule(name="renamed", surrogate=True)
    def f(x):
        """What it does."""
        return x**2

    f.defvjp(lambda x: (x**2, x), lambda x, up: (up,))
    assert (f.name, f.options.surrogate, f.__doc__) == ("renamed", True, "What it does.")
    np.testing.assert_allclose(gradient(f.forward, X), 2 * X)
    assert gw.check(f.forward, X).ok


def test_a_lazy_gradient_that_nobody_can_ask_for_is_not_computed():
    asked = []

    @gw.rule
    def product(x, y):
        return x * y

    def lazily(residuals, upstream):
        x, y = residuals
        return (lambda: asked.append("x") or upstream * y), (lambda: asked.append("y") or upstream * x)

    product.defvjp(lambda x, y: (x * y, (x, y)), lazily)
    x, y, v = tf.constant(2.0), tf.constant(3.0), tf.Variable(5.0)
    for sources, arguments, wanted, expected in (
        ([x], (x, y), ["x"], [3.0]),
        ([y], (x, y), ["y"], [2.0]),
        ([x, y], (x, y), ["x", "y"], [3.0, 2.0]),
        ([v], (x, v), ["y"], [2.0]),
    ):
        asked.clear()
        with tf.GradientTape() as tape:
            tape.watch([s for s in sources if s is not v])
            z = product(*arguments)
        assert [float(g) for g in tape.gradient(z, sources)] == expected
        assert asked == wanted


def test_a_gradient_that_is_not_written_is_an_error_only_when_it_is_wanted():
    @gw.rule
    def scaled(x, n):
        return x * n

    scaled.defvjp(lambda x, n: (x * n, n), lambda n, up: (up * n, gw.forms.not_implemented("by n")))
    x, n = tf.constant(2.0), tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = scaled(x, n)
    assert float(tape.gradient(z, x)) == 3.0
    with tf.GradientTape() as tape:
        tape.watch(n)
        z = scaled(x, n)
    with pytest.raises(gw.ModeError, match="by n"):
        tape.gradient(z, n)
