"""Several causes on several paths, several sources, names, and what is asked of `gw.explain` itself."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from tests.explain.programs import marked


def causes(reason):
    return {reason.cause, *(r.cause for r in reason.also)} - {None}


def places(reason):
    return {r.where for r in (reason, *reason.also)}


def test_every_cause_on_every_path():
    def f(x):
        a = tf.reduce_sum(tf.stop_gradient(x))  # <-- a
        b = tf.reduce_sum(tf.floor(x))  # <-- b
        c = tf.cast(tf.argmax(x), tf.float32)  # <-- c
        return a + b + c

    (reason,) = gw.explain(f, tf.constant([1.0, 2.0]))
    assert reason.status == "none"
    assert causes(reason) == {"stop-gradient", "no-gradient", "integer"}
    assert places(reason) == {marked(f, f"# <-- {m}") for m in "abc"}


def test_a_partly_blocked_path_is_told():
    def f(x):
        return tf.reduce_sum(x * x) + tf.reduce_sum(tf.floor(x))

    (reason,) = gw.explain(f, tf.constant([1.0, 2.0]))
    assert reason.status == "ok" and reason.cause is None
    assert "adds nothing" in reason.message and "Floor" in reason.message
    assert causes(reason) == {"no-gradient"}


def test_stop_gradient_on_one_of_two_paths():
    def f(x):
        return tf.reduce_sum(tf.stop_gradient(x) * x)

    (reason,) = gw.explain(f, tf.constant([1.0, 2.0]))
    assert reason.status == "ok" and causes(reason) == {"stop-gradient"}


def test_stop_gradient_and_a_dead_path():
    def f(x):
        return tf.reduce_sum(tf.stop_gradient(x) + tf.nn.relu(x - 10.0))

    (reason,) = gw.explain(f, tf.constant([1.0, 2.0]))
    assert (reason.status, reason.cause) == ("zero", "flat") and causes(reason) == {"flat", "stop-gradient"}


def test_a_constant_from_numpy_beside_a_living_path():
    def f(x):
        kept = np.sin(x.numpy())
        return tf.reduce_sum(x * 2.0 + tf.constant(kept))

    (reason,) = gw.explain(f, tf.constant([1.0, 2.0]))
    assert reason.status == "ok" and causes(reason) == {"numpy"}


def test_parts_that_cancel():
    (reason,) = gw.explain(lambda x: tf.reduce_sum(x - x), tf.constant([1.0, 2.0]))
    assert reason.status == "zero" and "cancel" in reason.message


def test_two_singular_points():
    def f(x, y):
        return tf.norm(x) + tf.sqrt(y)

    first, second = gw.explain(f, tf.constant([0.0, 0.0]), tf.constant(0.0))
    assert (first.source, first.status) == ("x", "nonfinite")
    assert (second.source, second.status, second.cause, second.op) == ("y", "nonfinite", "singular-point", "Sqrt")
    assert not second.also


def test_the_values_are_told():
    (reason,) = gw.explain(lambda x: tf.reduce_sum(tf.math.log(x)), tf.constant([1.0, 0.0]))
    assert "input 0" in reason.message and "index [1]" in reason.message


def test_sources_by_wrt():
    w, b = tf.Variable([1.0, 2.0], name="w"), tf.Variable([0.0, 0.0], name="b")

    def f(x, y):
        return tf.reduce_sum(w * x) + tf.reduce_sum(tf.stop_gradient(y))

    x, y = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])
    assert [r.source for r in gw.explain(f, x, y)] == ["x", "y"]
    assert [(r.source, r.status) for r in gw.explain(f, x, y, wrt=[w, b])] == [("w", "ok"), ("b", "none")]
    assert [r.source for r in gw.explain(f, x, y, wrt="y")] == ["y"]
    assert [r.source for r in gw.explain(f, x, y, wrt=[1, 0])] == ["y", "x"]
    assert [r.source for r in gw.explain(f, x, y, wrt=y)] == ["y"]


def test_nested_inputs_floats_and_arrays():
    def f(params, scale, *rest):
        return tf.reduce_sum(params["a"] * scale) + tf.reduce_sum(tf.floor(params["b"][0])) + rest[0]

    reasons = gw.explain(f, {"a": tf.ones(2), "b": [tf.ones(2)]}, 2.0, np.float32(1.0))
    assert [(r.source, r.status) for r in reasons] == [
        ("params['a']", "ok"),
        ("params['b'][0]", "none"),
        ("scale", "ok"),
        ("rest[0]", "ok"),
    ]


def test_several_outputs():
    def f(x):
        return {"a": tf.reduce_sum(tf.floor(x)), "b": [tf.argmax(x), x[0] * 2.0]}

    (reason,) = gw.explain(f, tf.constant([1.0, 2.0]))
    assert reason.status == "ok" and "no-gradient" in causes(reason)


def test_an_integer_target():
    def f(x):
        return tf.argmax(x)  # <-- here

    (reason,) = gw.explain(f, tf.constant([1.0, 2.0]))
    assert (reason.status, reason.cause, reason.where) == ("none", "integer", marked(f))


def test_gathered_and_indexed_slices():
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    def f(i):
        return tf.reduce_sum(tf.nn.embedding_lookup(table, i) ** 2) + tf.reduce_sum(table)

    (reason,) = gw.explain(f, tf.constant([0, 0]), wrt=[table])
    assert reason.status == "ok" and not reason.also
    (reason,) = gw.explain(tf.function(f), tf.constant([0, 0]), wrt=[table])
    assert reason.status == "ok" and not reason.also


def test_a_traced_function_changes_nothing_when_it_is_explained():
    state = tf.Variable([1.0, 1.0])

    @tf.function
    def f(x):
        state.assign_add(x)
        return tf.reduce_sum(state * x)

    (reason,) = gw.explain(f, tf.constant([1.0, 2.0]))
    assert reason.status == "ok" and causes(reason) == {"assigned"}
    np.testing.assert_allclose(state, [2.0, 3.0])


def test_keras_model_and_unused_layer():
    import keras

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, activation="tanh"), keras.layers.Dense(1)])
    spare = keras.layers.Dense(2)
    spare.build((None, 2))
    sources = [*model.trainable_variables, *spare.trainable_variables]
    for function in (lambda x: tf.reduce_mean(model(x)), tf.function(lambda x: tf.reduce_mean(model(x)))):
        reasons = gw.explain(function, tf.ones((4, 2)), wrt=sources)
        assert [r.status for r in reasons] == ["ok"] * 4 + ["none"] * 2
        assert [r.cause for r in reasons[4:]] == ["unused"] * 2


def test_bad_use_is_told_clearly():
    x = tf.constant([1.0, 2.0])
    with pytest.raises(gw.GradwrightError, match="none of the inputs is a tensor"):
        gw.explain(lambda n: tf.zeros(n), 3)
    with pytest.raises(gw.GradwrightError, match="gave float, not a tensor; the last value left Tensor"):
        gw.explain(lambda x: float(tf.reduce_sum(x)), x)
    with pytest.raises(gw.GradwrightError, match="not a function"):
        gw.explain(x * 2.0, x)
    with pytest.raises(gw.GradwrightError, match="gave NoneType"):
        gw.explain(lambda x: None, x)
    with pytest.raises(gw.GradwrightError, match="names none of the inputs"):
        gw.explain(lambda x: x, x, wrt="y")


def test_a_reason_reads_well():
    (reason,) = gw.explain(lambda x: tf.reduce_sum(tf.stop_gradient(x)), tf.constant([1.0]))
    text = str(reason)
    assert text.startswith("x: no gradient (stop-gradient): `StopGradient`") and "repair: " in text
    assert reason.to_dict()["cause"] == "stop-gradient"


def test_what_follows_a_nan_is_not_told_as_another_cause():
    (reason,) = gw.explain(lambda x: tf.norm(tf.sin(x) * 2.0), tf.constant([0.0, 0.0]))
    assert (reason.cause, reason.op, reason.also) == ("singular-point", "Sqrt", ())
