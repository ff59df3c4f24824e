"""Rules in Keras models: functional, subclassed, fitted, in float32 and mixed_float16."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw

rng = np.random.default_rng(3)
DATA = rng.normal(size=(16, 4)).astype("float32")
TARGET = DATA.sum(-1, keepdims=True)


@gw.custom_gradient
def round_through(x):
    return tf.round(x), lambda up: up


@gw.custom_gradient
def reverse(x, strength=1.0):
    return tf.identity(x), lambda up: -strength * up


@gw.custom_gradient
def fuse(x, y):
    return x * y, lambda up: (10.0 * up * y, 100.0 * up * x)


@gw.custom_gradient
def halves(x):
    a, b = tf.split(x, 2, axis=-1)
    return {"low": a * 1.0, "high": b * 1.0}, lambda up: tf.concat([3.0 * up["low"], 5.0 * up["high"]], -1)


class Affine(keras.layers.Layer):
    """A layer whose rule reads its weights; each gradient marked by its own factor."""

    def __init__(self, form="list", **options):
        super().__init__(**options)
        self.form = form

    def build(self, shape):
        self.bias = self.add_weight(shape=(1,), initializer="zeros", name="bias")
        self.kernel = self.add_weight(shape=(shape[-1], 1), initializer="ones", name="kernel")

    def call(self, x):
        @gw.custom_gradient
        def affine(x):
            k, b = tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.bias)

            def grad(up):
                dk, db = 7.0 * tf.matmul(x, up, transpose_a=True), 5.0 * tf.reduce_sum(up, 0)
                answer = {
                    "list": lambda: [dk, db],
                    "by ref": lambda: {self.bias.value.ref(): db, self.kernel.value.ref(): dk},
                    "pairs": lambda: [(self.bias, db), (self.kernel, dk)],
                }[self.form]()
                return 3.0 * tf.matmul(up, k, transpose_b=True), answer

            return tf.matmul(x, k) + b, grad

        return affine(x)


def gradients(model, sources, x=DATA):
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.cast(model(x), tf.float32))
    return [None if g is None else g.numpy() for g in tape.gradient(y, [x, *sources])]


# ----------------------------------------------------------------------------------------------------- functional


def test_a_rule_in_a_functional_model():
    place = keras.Input((4,))
    model = keras.Model(place, reverse(round_through(place), strength=0.25))
    assert model.output_shape == (None, 4)
    (dx,) = gradients(model, [])
    np.testing.assert_allclose(dx, np.full_like(DATA, -0.25))
    np.testing.assert_allclose(model(DATA), np.round(DATA))


def test_two_inputs_and_keywords_in_a_functional_model():
    a, b = keras.Input((4,)), keras.Input((4,))
    for made in (fuse(a, b), fuse(x=a, y=b), fuse(a, y=b)):
        model = keras.Model([a, b], made)
        x, y = tf.constant(DATA), tf.constant(DATA * 2.0)
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            z = model([x, y])
        dx, dy = tape.gradient(z, [x, y])
        np.testing.assert_allclose(dx, 20.0 * DATA, rtol=1e-6)
        np.testing.assert_allclose(dy, 100.0 * DATA, rtol=1e-6)


def test_a_dict_of_outputs_in_a_functional_model():
    place = keras.Input((4,))
    made = halves(place)
    model = keras.Model(place, keras.layers.Concatenate()([made["low"], made["high"]]))
    (dx,) = gradients(model, [])
    np.testing.assert_allclose(dx, np.tile([3.0, 3.0, 5.0, 5.0], (16, 1)))


def test_a_lambda_layer_and_a_sequential_model():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Lambda(reverse), keras.layers.Activation(round_through)])
    np.testing.assert_allclose(gradients(model, [])[0], -np.ones_like(DATA))


# --------------------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("form", ["list", "by ref", "pairs"])
@pytest.mark.parametrize("traced", [False, True])
def test_the_weights_of_a_layer_are_captured_variables(form, traced):
    layer = Affine(form)
    layer.build((None, 4))
    call = tf.function(layer) if traced else layer
    dx, dk, db = gradients(call, [layer.kernel.value, layer.bias.value])
    np.testing.assert_allclose(dx, np.full_like(DATA, 3.0))
    np.testing.assert_allclose(dk, 7.0 * DATA.sum(0)[:, None], rtol=1e-4)
    np.testing.assert_allclose(db, [5.0 * 16])


def test_a_keras_variable_may_be_an_argument():
    v = keras.Variable(np.ones((4,), "float32"))
    for call in (lambda x: fuse(x, v), lambda x: fuse(x=x, y=v), tf.function(lambda x: fuse(x, v))):
        dx, dv = gradients(call, [v.value])
        np.testing.assert_allclose(dx, np.full_like(DATA, 10.0))
        np.testing.assert_allclose(dv, 100.0 * DATA.sum(0), rtol=1e-4, atol=1e-4)


def test_a_frozen_layer_needs_no_other_rule():
    layer = Affine()
    layer.build((None, 4))
    layer.trainable = False
    for call in (layer, tf.function(layer)):
        np.testing.assert_allclose(gradients(call, [])[0], np.full_like(DATA, 3.0))


# ------------------------------------------------------------------------------------------------------------- fit


def one_step(policy, eager, rate=1e-3, **options):
    """What one step of plain descent takes from the weights, by the rate: the gradients of the loss."""
    model = keras.Sequential([keras.Input((4,)), Affine(dtype=policy)])
    before = [w.numpy() for w in model.weights]
    loss = lambda true, made: tf.reduce_sum(tf.cast(made, tf.float32))
    model.compile(keras.optimizers.SGD(rate), loss=loss, run_eagerly=eager, **options)
    model.fit(DATA, TARGET, batch_size=16, epochs=1, verbose=0)
    return [(b - w.numpy()) / rate for b, w in zip(before, model.weights, strict=True)]


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_fit_uses_the_rule(policy, eager):
    """Under mixed_float16 Keras scales the loss; the rule is linear, so the step is the same."""
    tolerance = {"float32": 1e-3, "mixed_float16": 1e-2, "mixed_bfloat16": 5e-2}[policy]
    options = {"auto_scale_loss": False} if policy == "mixed_float16" else {}
    db, dk = one_step(policy, eager, **options)
    np.testing.assert_allclose(dk, 7.0 * DATA.sum(0)[:, None], rtol=tolerance, atol=20 * tolerance)
    np.testing.assert_allclose(db, [80.0], rtol=tolerance)


def test_the_scaled_loss_of_mixed_float16_arrives_as_a_scaled_upstream():
    seen = []
    watch = gw.custom_gradient(lambda x: (tf.identity(x), lambda up: seen.append(float(tf.reduce_max(up))) or up))
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(1, dtype="mixed_float16"), keras.layers.Lambda(watch, dtype="float32")]
    )
    model.compile(keras.optimizers.SGD(1e-3), loss=lambda t, m: tf.reduce_sum(m), run_eagerly=True)
    model.compile(
        keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1e-3), initial_scale=64.0),
        loss=lambda true, made: tf.reduce_sum(made), run_eagerly=True,
    )  # fmt: skip
    model.fit(DATA, TARGET, batch_size=16, epochs=1, verbose=0)
    assert seen == [64.0]


def test_a_quantised_model_learns_only_with_its_rule():
    """Rounding stops the gradient; the straight-through rule lets the layer below learn."""

    def trained(rounding):
        keras.utils.set_random_seed(1)
        first = keras.layers.Dense(8)
        model = keras.Sequential([keras.Input((4,)), first, keras.layers.Lambda(rounding), keras.layers.Dense(1)])
        before = first.get_weights()[0] if first.built else None
        model.compile(keras.optimizers.SGD(0.01), "mse")
        history = model.fit(DATA, TARGET, batch_size=4, epochs=4, verbose=0)
        return np.abs(first.get_weights()[0] - before).max(), history.history["loss"]

    moved, losses = trained(round_through)
    assert moved > 1e-3 and losses[-1] < losses[0]


def test_a_model_inside_a_rule_answers_for_its_own_weights():
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, use_bias=False)])

    @gw.custom_gradient(variables="autodiff")
    def through(x):
        return inner(x), lambda up: 100.0 * tf.matmul(up, inner.layers[0].kernel, transpose_b=True)

    x = tf.constant(DATA)
    kernel = inner.layers[0].kernel
    for call in (through, tf.function(through)):
        dx, dk = gradients(call, [kernel.value])
        np.testing.assert_allclose(dx, np.tile(100.0 * kernel.numpy().sum(-1), (16, 1)), rtol=1e-5)
        np.testing.assert_allclose(dk, np.tile(x.numpy().sum(0)[:, None], (1, 3)), rtol=1e-4, atol=1e-5)
