"""Straight-through estimators: inputs, variables inside, shapes that do not fit."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw

ops = gw.ops
X = tf.constant([0.4, 0.6])
WRAPS = pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])


def gradients(f, xs, extra=(), upstream=None, wrap=lambda f: f):
    with tf.GradientTape() as tape:
        tape.watch(xs)
        y = wrap(f)(*xs)
    return tape.gradient(y, [*xs, *extra], output_gradients=upstream)


@WRAPS
def test_the_input_gets_the_upstream(wrap):
    up = tf.constant([3.0, -5.0])
    f = ops.straight_through(tf.round)
    np.testing.assert_array_equal(gradients(f, [X], upstream=up, wrap=wrap)[0], up)
    np.testing.assert_array_equal(wrap(f)(X), [0, 1])


@WRAPS
def test_several_inputs_broadcast(wrap):
    f = ops.straight_through(lambda a, b: tf.round(a + b))
    a, b = tf.constant([[0.4], [1.2]]), tf.constant([0.3, 0.1, 0.2])
    up = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    ga, gb = gradients(f, [a, b], upstream=up, wrap=wrap)
    np.testing.assert_array_equal(ga, [[6], [15]])
    np.testing.assert_array_equal(gb, [5, 7, 9])


@WRAPS
def test_variables_inside_get_their_gradients(wrap):
    v = tf.Variable(3.0)
    scaled = ops.straight_through(lambda x: tf.round(x) * v)
    for _ in range(2):
        gx, gv = gradients(scaled, [X], [v], wrap=wrap)
        np.testing.assert_array_equal(gx, [1, 1])
        np.testing.assert_allclose(gv, 1.0)
    blocked = ops.straight_through(lambda x: tf.round(x * v))
    gx, gv = gradients(blocked, [X], [v], wrap=wrap)
    np.testing.assert_array_equal(gx, [1, 1])
    np.testing.assert_allclose(gv, 1.0)


def test_variables_inside_under_persistent_and_nested_tapes():
    v = tf.Variable(3.0)
    f = ops.straight_through(lambda x: tf.round(x) * v)
    with tf.GradientTape(persistent=True) as outer, tf.GradientTape(persistent=True) as tape:
        tape.watch(X)
        y = f(X)
    for _ in range(2):
        np.testing.assert_allclose(tape.gradient(y, v), 1)
        np.testing.assert_allclose(outer.gradient(y, v), 1)


@WRAPS
def test_learned_step_size(wrap):
    """Esser et al. 2020: the gradient of round(x / s) * s by s is round(x / s) - x / s inside the range."""
    s = tf.Variable(0.25)
    f = ops.straight_through(lambda x: tf.round(x / s) * s)
    gs = gradients(f, [X], [s], tf.constant([1.0, 10.0]), wrap)[1]
    ratio = X.numpy() / 0.25
    np.testing.assert_allclose(gs, np.sum((np.round(ratio) - ratio) * [1, 10]), rtol=1e-5)


@WRAPS
def test_an_output_of_another_shape_is_refused(wrap):
    for f in (
        lambda x: tf.reduce_sum(tf.round(x), keepdims=True),
        lambda x: tf.tile(x[None], [3, 1]),
        lambda x: tf.concat([x, x], 0),
    ):
        with pytest.raises(gw.GradientShapeError, match=r"no straight way through"):
            wrap(ops.straight_through(f))(X)


def test_outputs_that_carry_no_gradient_are_refused():
    with pytest.raises(gw.GradientDtypeError, match=r"(?s)bool.*tf.cast"):
        ops.straight_through(lambda x: x > 0.5)(X)
    with pytest.raises(gw.GradientShapeError, match="one tensor"):
        ops.straight_through(lambda x: (x, x))(X)
    with pytest.raises(ValueError, match="a function is wanted"):
        ops.straight_through(X)


def test_static_arguments_keywords_and_integers():
    f = ops.straight_through(lambda x, levels, *, low=0.0: tf.round(x * levels) / levels + low)
    np.testing.assert_array_equal(gradients(lambda x: f(x, 4, low=1.0), [X])[0], [1, 1])
    g = ops.straight_through(lambda x, n: tf.round(x * tf.cast(n, x.dtype)))
    gx, gn = gradients(lambda x: g(x, tf.constant(2)), [X], [tf.constant(2)])
    np.testing.assert_array_equal(gx, [1, 1])
    assert gn is None


def test_unknown_shapes():
    f = tf.function(ops.straight_through(tf.round), input_signature=[tf.TensorSpec(None)])
    np.testing.assert_array_equal(gradients(f, [X])[0], [1, 1])
    bad = tf.function(
        ops.straight_through(lambda x: tf.reduce_sum(x, keepdims=True)), input_signature=[tf.TensorSpec([None])]
    )
    with pytest.raises((gw.GradientShapeError, tf.errors.InvalidArgumentError), match="shape"):
        gradients(bad, [X])


@WRAPS
def test_round_and_sign(wrap):
    x = tf.constant([-3.0, -0.2, 0.7])
    up = tf.constant([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(gradients(ops.round_ste, [x], upstream=up, wrap=wrap)[0], up)
    np.testing.assert_array_equal(wrap(ops.round_ste)(x), [-3, 0, 1])
    for f, want in [
        (ops.sign_ste, [1, 2, 3]),
        (lambda x: ops.sign_ste(x, clip=1.0), [0, 2, 3]),
        (lambda x: ops.sign_ste(x, clip=True), [0, 2, 3]),
        (lambda x: ops.sign_ste(x, 0.5), [0, 2, 0]),
        (lambda x: ops.sign_ste(x, clip=False), [1, 2, 3]),
    ]:
        np.testing.assert_array_equal(gradients(f, [x], upstream=up, wrap=wrap)[0], want)
        np.testing.assert_array_equal(wrap(f)(x), [-1, -1, 1])


def test_each_is_proven_against_its_surrogate():
    for rule in (ops.straight_through(tf.round), ops.round_ste):
        assert gw.check(rule, X).verdict == "right"


def test_training_through_rounding():
    """A weight that is rounded in the forward pass still learns: without the estimator it would not move."""
    import keras

    rounded = ops.straight_through(tf.round)
    inputs = keras.Input((1,))
    hidden = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")(inputs)
    model = keras.Model(inputs, keras.layers.Lambda(lambda h: rounded(h))(hidden))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    before = model.evaluate(np.ones((4, 1)), np.full((4, 1), 3.0), verbose=0)
    model.fit(np.ones((4, 1)), np.full((4, 1), 3.0), epochs=20, verbose=0)
    assert model.evaluate(np.ones((4, 1)), np.full((4, 1), 3.0), verbose=0) < before / 4
