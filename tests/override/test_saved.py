"""Overrides of loaded SavedModels, and SavedModels of overridden functions."""

import pytest
import tensorflow as tf

import gradwright as gw
from tests.override.tools import GUIDED, PLAIN, RULES, X, close, gradient, times


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.v = tf.Variable([1.0, 2.0, 1.0, 2.0])

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def __call__(self, x):
        return tf.nn.relu(x * self.v)

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def branched(self, x):
        return {"y": tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.relu(x), lambda: x)}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("model"))
    model = Model()
    tf.saved_model.save(model, path, signatures=model.branched)
    return tf.saved_model.load(path)


SCALED = [a * b for a, b in zip(GUIDED, [1.0, 2.0, 1.0, 2.0], strict=True)]


def test_a_loaded_model_in_a_scope(loaded):
    before = gradient(loaded)
    with gw.override(RULES) as hits:
        assert gradient(loaded) == SCALED
    assert hits["Relu"] == 1 and gradient(loaded) == before


def test_a_loaded_model_by_itself_and_its_parts(loaded):
    overridden = gw.override(RULES, loaded)
    assert gradient(overridden) == SCALED
    assert gradient(lambda x: overridden.branched(x)["y"]) == GUIDED
    assert gradient(lambda x: overridden.signatures["serving_default"](x=x)["y"]) == GUIDED
    assert overridden.v is loaded.v
    assert gradient(lambda x: loaded.branched(x)["y"]) == PLAIN


def test_a_signature_in_a_scope(loaded):
    signature = loaded.signatures["serving_default"]
    with gw.override(RULES):
        assert gradient(lambda x: signature(x=x)["y"]) == GUIDED
        assert set(signature(x=X)) == {"y"}
    assert gradient(lambda x: signature(x=x)["y"]) == PLAIN


def test_variables_of_a_loaded_model_get_their_gradients(loaded):
    for form in (gw.override({"Relu": times(7.0)}, loaded), gw.override({"Relu": times(7.0)}, tf.function(loaded))):
        assert close(gradient(form, w=1.0, wrt=loaded.v), 7 * X)


def test_a_loaded_model_within_functions(loaded):
    overridden = gw.override(RULES, loaded)
    assert gradient(tf.function(lambda x: overridden(x))) == SCALED

    @tf.function
    def scoped(x):
        with gw.override(RULES):
            return loaded(x)

    assert gradient(scoped) == SCALED


def test_a_model_without_a_call_says_what_can_be_called(tmp_path):
    model = tf.Module()
    model.serve = tf.function(tf.nn.relu, input_signature=[tf.TensorSpec([4])])
    tf.saved_model.save(model, str(tmp_path), signatures=model.serve)
    overridden = gw.override(RULES, tf.saved_model.load(str(tmp_path)))
    with pytest.raises(gw.OverrideError, match="serving_default"):
        overridden(X)
    assert gradient(overridden.serve) == GUIDED


def test_an_overridden_function_keeps_its_rule_when_saved(tmp_path):
    inner = Model()

    class Guided(tf.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        @tf.function(input_signature=[tf.TensorSpec([4])])
        def __call__(self, x):
            with gw.override(RULES):
                return self.inner(x) + tf.nn.relu(x)

    module = Guided()
    wanted = [a + b for a, b in zip(SCALED, GUIDED, strict=True)]
    assert gradient(module) == wanted
    tf.saved_model.save(module, str(tmp_path))
    again = tf.saved_model.load(str(tmp_path))
    assert gradient(again) == wanted


def test_an_op_that_a_saved_model_cannot_keep_is_refused(tmp_path):
    class Scaled(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([1, 4])])
        def __call__(self, x):
            with gw.override({"MatMul": lambda op, up: gw.override.native(op, up)}):
                return tf.matmul(x, tf.ones([4, 1]))

    with pytest.raises(ValueError) as caught:
        tf.saved_model.save(Scaled(), str(tmp_path))
    assert isinstance(caught.value.__cause__, gw.ModeError)
    assert "MatMul has 2 inputs" in str(caught.value.__cause__)
