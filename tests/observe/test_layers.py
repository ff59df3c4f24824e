"""Layers of Keras models, watched as they are: the upstreams are checked against gradients by a tape."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from gradwright.errors import ArgumentError

keras = pytest.importorskip("keras")
layers = keras.layers


def network():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(3, activation="tanh", name="hidden"),
            keras.Sequential([layers.Dense(3, name="hidden"), layers.Dropout(0.5, name="drop")], name="inner"),
            layers.Dense(1, name="out"),
        ]
    )


@pytest.fixture(scope="module")
def model():
    made = network()
    made.compile("sgd", "mse")
    return made


X = np.random.default_rng(0).normal(size=[8, 4]).astype(np.float32)
Y = np.random.default_rng(1).normal(size=[8, 1]).astype(np.float32)


def fit(model, epochs=2):
    model.fit(X, Y, batch_size=4, epochs=epochs, verbose=0)


def test_fit_shows_every_layer_at_every_step_and_the_model_stays_as_it_is(model):
    fit(model)
    before = {id(layer): dict(layer.__dict__) for layer in model._flatten_layers()}
    with gw.observe(model) as log:
        fit(model)
    fit(model)
    names = [r.rule for r in log.records]
    assert {n: names.count(n) for n in names} == {
        "out": 4, "inner": 4, "drop": 4, "hidden": 4, model.layers[1].layers[0].path: 4,
    }  # fmt: skip
    assert all(r.upstream.shape[0] == 4 and r.upstream.nonfinite == 0 for r in log.records)
    assert all("call" not in layer.__dict__ for layer in model._flatten_layers())
    assert {k: set(v) for k, v in before.items()} == {id(la): set(la.__dict__) for la in model._flatten_layers()}
    assert "keras.layers.Dense" in log.table()


def test_the_upstream_of_a_layer_is_the_gradient_by_its_output(model):
    with gw.observe(model, layers="hidden", values=True) as log, tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(X) ** 2)
    with log:
        tape.gradient(loss, model.trainable_variables)
    with tf.GradientTape() as tape:
        middle = model.layers[0](X)
        tape.watch(middle)
        loss = tf.reduce_sum(model.layers[2](model.layers[1](middle)) ** 2)
    wanted = tape.gradient(loss, middle)
    (found,) = [r.upstream.value for r in log.records if r.rule == "hidden"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        ("out", {"out"}),
        (["hidden*", "out"], {"hidden", "out", "inner/hidden"}),
        (layers.Dropout, {"drop"}),
    ],
)
def test_layers_are_chosen_by_name_pattern_or_class(model, chosen, names):
    with gw.observe(model, layers=chosen) as log:
        fit(model, epochs=1)
    assert {r.rule.removeprefix(f"{model.name}/") for r in log.records} == names


def test_a_layer_itself_and_every_second_step(model):
    with gw.observe(model, layers=model.layers[2], every=2) as log:
        fit(model, epochs=3)
    assert [(r.rule, r.call) for r in log.records] == [("out", 0), ("out", 1), ("out", 2)]


def test_a_name_that_no_layer_has_is_refused(model):
    with pytest.raises(ArgumentError, match="names no layer of the model; it has hidden"):
        gw.observe(model, layers="missing")


def test_two_logs_on_one_model_and_an_exception(model):
    def failing(log):
        with log:
            fit(model, epochs=1)
            raise KeyError

    with gw.observe(model, layers="out") as outer:
        with pytest.raises(KeyError):
            failing(gw.observe(model, layers=["out", "drop"]))
        assert "call" in model.layers[2].__dict__
        fit(model, epochs=1)
    assert [r.rule for r in outer.records] == ["out"] * 4
    assert all("call" not in layer.__dict__ for layer in model._flatten_layers())


def test_under_xla_and_in_eager_mode():
    for options in ({"jit_compile": True}, {"run_eagerly": True}):
        made = network()
        made.compile("sgd", "mse", **options)
        with gw.observe(made, layers=["hidden", "out"], rules=[]) as log:
            fit(made)
        names = [r.rule for r in log.records]
        assert names.count("out") == 4 and names.count("hidden") == 4


def test_a_probe_in_a_functional_model_that_is_saved_and_loaded(tmp_path):
    inputs = keras.Input((4,))
    made = keras.Model(inputs, layers.Dense(1)(gw.probe(layers.Dense(3)(inputs), "middle")))
    made.save(tmp_path / "model.keras")
    for model in (made, keras.models.load_model(tmp_path / "model.keras")):
        model.compile("sgd", "mse")
        with gw.observe() as log:
            fit(model)
        assert [r.rule for r in log.records] == ["middle"] * 4
        assert log.records[0].where.startswith("test_layers.py:")


def test_mixed_precision_and_several_outputs():
    class Two(layers.Layer):
        def call(self, x):
            return x, 2 * x

    inputs = keras.Input((4,), dtype="float16")
    a, b = Two(name="two", dtype="mixed_float16")(inputs)
    made = keras.Model(inputs, a + b)
    with gw.observe(made, layers="two") as log, tf.GradientTape() as tape:
        x = tf.ones([2, 4], tf.float16)
        tape.watch(x)
        y = tf.reduce_sum(made(x))
        tape.gradient(y, x)
    assert {r.rule for r in log.records} == {"two[0]", "two[1]"}
    assert {r.upstream.dtype for r in log.records} == {"float16"}
    assert log.records[0].where.startswith("test_layers.py:")


@pytest.mark.slow
def test_replicas_are_told_apart():
    """In a process of its own: logical devices are made before TensorFlow starts."""
    import subprocess
    import sys

    program = """
import numpy as np, tensorflow as tf, keras, gradwright as gw
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
@gw.custom_gradient
def square(x):
    return x * x, lambda upstream: upstream * 2 * x
def replica():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(square(x))
    return tape.gradient(y, x)
for run in (lambda: strategy.run(replica), lambda f=tf.function(lambda: strategy.run(replica)): f()):
    with gw.observe() as log:
        run()
        run()
    assert sorted(r.replica for r in log.records) == [0, 0, 1, 1], log.records
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, name="out")])
    model.compile("sgd", "mse")
with gw.observe(model) as log:
    model.fit(np.ones([8, 4]), np.ones([8, 1]), batch_size=4, epochs=2, verbose=0)
assert sorted(r.replica for r in log.records) == [0] * 4 + [1] * 4
assert {r.upstream.shape for r in log.records} == {(2, 1)}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
