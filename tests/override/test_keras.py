"""Overrides of Keras models: activation strings, layers, ops; saved, loaded, exported, trained."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from tests.override.tools import guided, times

RULES = {"Relu": guided}
IMAGES = tf.constant(np.random.default_rng(0).normal(size=(2, 6, 6, 2)).astype("float32"))


@keras.saving.register_keras_serializable("gradwright_tests")
class Small(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.conv = keras.layers.Conv2D(3, 3, activation="relu")
        self.relu = keras.layers.ReLU()
        self.head = keras.layers.Dense(2)

    def call(self, x):
        return self.head(keras.ops.mean(self.relu(self.conv(x) - 0.1), axis=(1, 2)))


def layers():
    yield keras.layers.Conv2D(4, 3, activation="relu", name="conv")
    yield keras.layers.BatchNormalization()
    yield keras.layers.Activation("relu", name="act")
    yield keras.layers.Conv2D(4, 3)
    yield keras.layers.ReLU(name="layer")
    yield keras.layers.Flatten()
    yield keras.layers.Dense(5, activation="relu", name="dense")
    yield keras.layers.Dense(2, name="head")


def sequential():
    return keras.Sequential([keras.Input((6, 6, 2)), *layers()])


def functional():
    x = given = keras.Input((6, 6, 2))
    for layer in layers():
        x = layer(x)
    return keras.Model(given, keras.ops.relu(x + 1.0))


def subclassed():
    model = Small()
    model(IMAGES)
    return model


def gradient(f, wrt=None):
    with tf.GradientTape() as tape:
        tape.watch(IMAGES)
        y = f(IMAGES)
        y = next(iter(y.values())) if isinstance(y, dict) else y
        score = tf.reduce_sum(y[:, 0])
    return tape.gradient(score, IMAGES if wrt is None else wrt)


def by_hand(model):
    """Guided backprop of a sequential model with its relus replaced by a custom gradient."""

    @tf.custom_gradient
    def relu(x):
        y = tf.nn.relu(x)
        return y, lambda up: tf.where((y > 0) & (up > 0), up, 0.0)

    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    for layer in copy.layers:
        if getattr(layer, "activation", None) is keras.activations.relu:
            layer.activation = relu
        if isinstance(layer, keras.layers.ReLU):
            layer.call = relu
    return gradient(copy)


@pytest.fixture(scope="module", params=[sequential, functional, subclassed], ids=lambda f: f.__name__)
def model(request):
    keras.utils.set_random_seed(1)
    return request.param()


def test_a_sequential_model_against_relus_replaced_by_hand():
    keras.utils.set_random_seed(2)
    model = sequential()
    with gw.override(RULES) as hits:
        found = gradient(model)
    np.testing.assert_allclose(found, by_hand(model), atol=1e-7)
    assert hits["Relu"] == 4 and not np.allclose(found, gradient(model))


def test_all_forms_of_a_model_agree(model, tmp_path):
    plain = gradient(model)
    with gw.override(RULES):
        wanted = gradient(model)
    assert not np.allclose(wanted, plain)
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(str(tmp_path / "exported"))
    traced = tf.function(lambda x: model(x, training=False))
    gradient(traced)
    forms = {
        "model": model,
        "traced": traced,
        "concrete": traced.get_concrete_function(tf.TensorSpec([None, 6, 6, 2])),
        "reloaded": keras.models.load_model(tmp_path / "model.keras"),
        "served": exported.serve,
        "signature": exported.signatures["serving_default"],
    }
    for name, form in forms.items():
        with gw.override(RULES) as hits:
            np.testing.assert_allclose(gradient(form), wanted, atol=1e-6, err_msg=name)
        assert hits["Relu"] > 0
        np.testing.assert_allclose(gradient(gw.override(RULES, form)), wanted, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(gradient(form), plain, atol=1e-6, err_msg=name)


def test_weights_are_shared_and_get_gradients(model):
    overridden = gw.override(RULES, model)
    found = gradient(overridden, model.trainable_variables)
    assert all(g is not None and g.shape == v.shape for g, v in zip(found, model.trainable_variables, strict=True))
    assert overridden.trainable_variables is not None and overridden.layers[0] is model.layers[0]


def test_by_layer_object_and_name():
    model = sequential()
    dense = model.get_layer("dense")
    for layers in (dense, [dense], "dense", "den*"):
        with gw.override({"Relu": times(0.0)}, layers=layers) as hits:
            assert not np.any(gradient(model))
        assert list(hits.places["Relu"].values()) == [1] and "dense" in next(iter(hits.places["Relu"]))


def test_the_layer_rule_wins_over_the_type_rule():
    model = sequential()
    wide, narrow = {"Relu": times(2.0)}, {"Relu": times(0.0)}
    with gw.override(wide) as outer, gw.override(narrow, layers="dense") as inner:
        assert not np.any(gradient(model))
    assert (outer["Relu"], inner["Relu"]) == (3, 1)
    with gw.override(narrow, layers="dense"), gw.override(wide):
        assert not np.any(gradient(model))


def test_layers_of_a_traced_graph_by_name_or_refused():
    model = sequential()
    traced = tf.function(lambda x: model(x)).get_concrete_function(tf.TensorSpec([None, 6, 6, 2]))
    with gw.override({"Relu": times(0.0)}, layers=model.get_layer("act")) as hits:
        gradient(traced)
    assert hits["Relu"] == 1 and "act" in next(iter(hits.places["Relu"]))
    shared = keras.layers.ReLU(name="shared")
    twice = tf.function(lambda x: shared(shared(x) - 1.0)).get_concrete_function(tf.TensorSpec([None, 6, 6, 2]))
    with pytest.raises(gw.OverrideError, match="names="), gw.override(RULES, layers="shared"):
        twice(IMAGES)


def test_training_in_a_scope_uses_the_rule_and_leaves_nothing():
    model = sequential()
    model.compile(keras.optimizers.SGD(0.1), "mse")
    targets = tf.ones([2, 2])
    changed = lambda before: [not np.allclose(a, b) for a, b in zip(before, model.get_weights(), strict=True)]
    before = model.get_weights()
    with gw.override({"Relu": times(0.0)}):
        model.fit(IMAGES, targets, verbose=0)
    # Nothing passes the relu before the head: only its own weights (and moving averages) are trained.
    names = [v.path for v in model.weights]
    trained = {n for n, c in zip(names, changed(before), strict=True) if c and "moving" not in n}
    assert trained == {n for n in names if "head" in n}
    before = model.get_weights()
    model.fit(IMAGES, targets, verbose=0)
    assert sum(changed(before)) > len(trained)


def test_drawing_a_functional_model_in_a_scope_hits_nothing_and_says_so():
    given = keras.Input((3,))
    with pytest.raises(gw.OverrideError, match="never served"), gw.override(RULES):
        keras.layers.ReLU()(given)
