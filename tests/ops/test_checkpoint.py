"""checkpoint: the same numbers in both passes, state changed once, everything a function can take."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from gradwright.frameworks import tf_replay

N = 200
X = tf.ones([N])
generator = tf.random.Generator.from_seed(1)
dropout = keras.layers.Dropout(0.5)
dropout(X, training=True)
traced = tf.function(lambda x: x * tf.random.uniform([N]))
traced(X)

RANDOM = {
    "uniform": lambda x: x * tf.cast(tf.random.uniform([N]) > 0.5, tf.float32),
    "two normals": lambda x: x * tf.random.normal([N]) * tf.random.normal([N]),
    "shuffle": lambda x: x * tf.random.shuffle(tf.range(float(N))),
    "categorical": lambda x: x * tf.cast(tf.random.categorical(tf.zeros([1, 9]), N)[0], tf.float32),
    "nn.dropout": lambda x: tf.nn.dropout(x, 0.5),
    "generator": lambda x: x * generator.normal([N]),
    "keras": lambda x: dropout(x, training=True),
    "keras twice": lambda x: dropout(dropout(x, training=True), training=True),
    "numpy": lambda x: x * np.random.rand(N).astype("float32"),
    "raw op": lambda x: x * tf.raw_ops.RandomUniform(shape=[N], dtype=tf.float32),
    "in a loop": lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * tf.random.uniform([N])), [0, x])[
        1
    ],
    "in a branch": lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * tf.random.uniform([N]), lambda: x),
    "in a traced function": traced,
}


def eager(f, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return y, tape.gradient(y, x)


PLACES = {
    "eager": eager,
    "tape inside": lambda f, x: tf.function(lambda x: eager(f, x))(x),
    "tape outside": lambda f, x: eager(tf.function(lambda x: f(x)), x),
    "called in a loop": lambda f, x: tf.function(lambda x: eager(lambda x: looped(f, x), x))(x),
    "persistent": lambda f, x: persistent(f, x),
}


def looped(f, x):
    return tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, f(y)), [0, x])[1]


def persistent(f, x):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    first = tape.gradient(y, x)
    np.testing.assert_array_equal(first, tape.gradient(y, x))
    return y, first


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", RANDOM)
def test_no_entry_of_the_gradient_differs_from_the_numbers_used(kind, place):
    # Each function is homogeneous in x, so at ones its gradient is its value, entry by entry.
    y, g = PLACES[place](gw.ops.checkpoint(RANDOM[kind]), X)
    np.testing.assert_allclose(g, y, rtol=1e-5)
    assert len(np.unique(y)) > 1


@pytest.mark.parametrize("seed", [None, 7])
def test_numbers_differ_from_call_to_call(seed):
    if seed is not None:
        tf.random.set_seed(seed)
    f = gw.ops.checkpoint(lambda x: x * tf.random.uniform([N]))
    assert np.any(eager(f, X)[0] != eager(f, X)[0])


@pytest.mark.parametrize("place", ["eager", "tape inside", "tape outside"])
def test_state_changes_once(place):
    layer = keras.layers.Dropout(0.5)
    layer(X, training=True)
    before = int(np.asarray(layer.seed_generator.state)[1])
    PLACES[place](gw.ops.checkpoint(lambda x: layer(x, training=True)), X)
    assert int(np.asarray(layer.seed_generator.state)[1]) == before + 1
    count = tf.Variable(0.0, trainable=False)

    def counted(x):
        count.assign_add(1.0)
        return x * count

    y, g = PLACES[place](gw.ops.checkpoint(counted), X)
    assert float(count) == 1
    np.testing.assert_array_equal(g, y)


def test_moving_averages_move_once():
    norm = keras.layers.BatchNormalization(momentum=0.5)
    x = tf.constant([[1.0], [3.0]])
    norm(x)
    eager(gw.ops.checkpoint(lambda x: norm(x, training=True)), x)
    np.testing.assert_allclose(norm.moving_mean, [1.0])


def test_variables_keywords_structures_and_several_outputs():
    w, b = tf.Variable(2.0), tf.Variable(3.0)

    def f(x, p, *, shift=1.0, scale=None):
        return {"y": w * x * scale + p["a"], "z": b * x + shift}

    p = {"a": tf.constant(5.0)}
    x, scale = tf.constant([1.0, 2.0]), tf.constant(10.0)
    found = []
    for call in (f, gw.ops.checkpoint(f), tf.function(gw.ops.checkpoint(f))):
        with tf.GradientTape() as tape:
            tape.watch([x, p["a"], scale])
            out = call(x, p, scale=scale)
            loss = tf.reduce_sum(out["y"]) + 7.0 * tf.reduce_sum(out["z"])
        found.append(tape.gradient(loss, [x, p["a"], scale, w, b]))
    for got in found[1:]:
        for a, e in zip(got, found[0], strict=True):
            np.testing.assert_allclose(a, e)


def test_integer_arguments_and_static_ones():
    f = gw.ops.checkpoint(lambda x, i, power=2: tf.gather(x, i) ** power)
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x, tf.constant([2, 0]), power=3)
    np.testing.assert_allclose(tf.convert_to_tensor(tape.gradient(y, x)), [3, 0, 27])


def test_second_order_and_forward_mode():
    f = gw.ops.checkpoint(lambda x: tf.exp(2.0 * x))
    x = tf.constant(0.5)
    with tf.GradientTape() as outer:
        outer.watch(x)
        g = eager(f, x)[1]
    np.testing.assert_allclose(outer.gradient(g, x), 4 * np.e, rtol=1e-6)
    with tf.autodiff.ForwardAccumulator(x, tf.constant(10.0)) as accumulator:
        y = f(x)
    np.testing.assert_allclose(accumulator.jvp(y), 20 * np.e, rtol=1e-6)


def test_eager_nothing_between_input_and_output_is_kept():
    import gc
    import weakref

    refs = []

    def f(x):
        inner = tf.exp(x)
        refs.append(weakref.ref(inner))
        return tf.math.log(1.0 + inner)

    with tf.GradientTape() as tape:
        tape.watch(X)
        y = gw.ops.checkpoint(f)(X)
    gc.collect()
    assert refs[0]() is None
    np.testing.assert_allclose(tape.gradient(y, X), tf.sigmoid(X), rtol=1e-6)


def test_in_a_graph_the_backward_runs_the_function_again():
    def operations(f):
        definition = tf.function(lambda x: eager(f, x)).get_concrete_function(X).graph.as_graph_def()
        nodes = [*definition.node, *(n for function in definition.library.function for n in function.node_def)]
        return sum(node.op == "Exp" for node in nodes)

    assert operations(tf.exp) == 1
    assert operations(gw.ops.checkpoint(tf.exp)) >= 2


def test_without_the_hooks_activations_are_kept_and_right(monkeypatch):
    monkeypatch.setattr(tf_replay, "can_replay", lambda: False)
    for kind in ("uniform", "keras", "generator"):
        y, g = eager(gw.ops.checkpoint(RANDOM[kind]), X)
        np.testing.assert_allclose(g, y, rtol=1e-5)


def test_threads_do_not_mix():
    f = gw.ops.checkpoint(RANDOM["uniform"])
    wrong = []

    def work():
        for _ in range(20):
            y, g = eager(f, X)
            wrong.append(int(np.sum(y.numpy() != g.numpy())))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sum(wrong) == 0 and len(wrong) == 120


def test_nothing_stays_patched_also_after_an_error():
    from tensorflow.python.ops import gen_random_ops

    before = gen_random_ops.random_uniform

    def fails(x):
        assert gen_random_ops.random_uniform is not before
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        gw.ops.checkpoint(fails)(X)
    assert gen_random_ops.random_uniform is before


def test_a_second_run_that_draws_otherwise_is_refused():
    turn = []

    def f(x):
        turn.append(1)
        return x * (tf.random.uniform([N]) if len(turn) % 2 else tf.random.normal([N]))

    with pytest.raises(RuntimeError, match="drew random_uniform the first time"):
        eager(gw.ops.checkpoint(f), X)


def test_wrong_use_and_proof():
    with pytest.raises(ValueError, match="a function is wanted"):
        gw.ops.checkpoint(X)
    assert gw.check(gw.ops.checkpoint(lambda x: tf.exp(x) * x), tf.constant([0.3, 1.0])).verdict == "right"


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_other_frameworks_bring_their_own(framework):
    module = pytest.importorskip(framework)
    if framework == "jax":
        f = gw.ops.checkpoint(lambda x: module.numpy.exp(x).sum())
        found = module.grad(lambda x: f(x))(module.numpy.asarray([0.0, 1.0]))
    else:
        x = module.tensor([0.0, 1.0], requires_grad=True)
        gw.ops.checkpoint(lambda x: module.exp(x).sum())(x).backward()
        found = x.grad
    np.testing.assert_allclose(found, np.exp([0, 1]), rtol=1e-6)
