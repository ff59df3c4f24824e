"""Upstream transforms: what comes back, under loss scaling, over structures, and wrong use."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw

ops = gw.ops
X = tf.constant([1.0, 2.0])


def grad(f, x=X, upstream=None, wrap=lambda f: f):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = wrap(f)(x)
    return tape.gradient(y, x, output_gradients=upstream)


WRAPS = pytest.mark.parametrize("wrap", [lambda f: f, tf.function, lambda f: tf.function(f, jit_compile=True)],
                                ids=["eager", "function", "jit"])  # fmt: skip


@WRAPS
@pytest.mark.parametrize(
    "call",
    [
        lambda x: ops.reverse(x, 0.3),
        lambda x: ops.reverse(x, scale=0.3),
        lambda x: ops.reverse(x=x, scale=tf.constant(0.3)),
        lambda x: ops.reverse(x, scale=np.float64(0.3)),
        lambda x: ops.scale(x, -0.3),
        lambda x: ops.scale(x, factor=tf.constant([-0.3, -0.3])),
    ],
)
def test_reverse_and_scale(call, wrap):
    np.testing.assert_allclose(grad(call, wrap=wrap), [-0.3, -0.3], rtol=1e-6)
    np.testing.assert_array_equal(call(X), X)


def test_a_variable_as_scale_is_read_and_gets_no_gradient():
    strength = tf.Variable(0.3)
    for f in (lambda x: ops.reverse(x, strength), tf.function(lambda x: ops.reverse(x, scale=strength))):
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = f(X)
        gx, gs = tape.gradient(y, [X, strength])
        np.testing.assert_allclose(gx, [-0.3, -0.3], rtol=1e-6)
        assert gs is None
    strength.assign(2.0)
    np.testing.assert_allclose(grad(f), [-2, -2])


def test_reverse_is_one_by_default_and_half_precision_stays():
    assert grad(ops.reverse).numpy().tolist() == [-1, -1]
    half = tf.constant([1.0, 2.0], tf.float16)
    found = grad(lambda x: ops.reverse(x, tf.constant(0.5)), half)
    assert found.dtype == tf.float16 and found.numpy().tolist() == [-0.5, -0.5]


@WRAPS
def test_mask(wrap):
    up = tf.constant([np.nan, 5.0])
    np.testing.assert_array_equal(grad(lambda x: ops.mask(x, [False, True]), upstream=up, wrap=wrap), [0, 5])
    np.testing.assert_array_equal(grad(lambda x: ops.mask(x, x > 1), upstream=tf.ones(2), wrap=wrap), [0, 1])
    np.testing.assert_array_equal(grad(lambda x: ops.mask(x, [0.5, 2.0]), upstream=tf.ones(2), wrap=wrap), [0.5, 2])


@WRAPS
@pytest.mark.parametrize(
    ("call", "want"),
    [
        (lambda x: ops.clip(x, -1.0, 2.0), [2, -1]),
        (lambda x: ops.clip(x, 1.5), [1.5, -1.5]),
        (lambda x: ops.clip(x, value=tf.constant(1.5)), [1.5, -1.5]),
        (lambda x: ops.clip(x, norm=1.0), [0.6, -0.8]),
        (lambda x: ops.clip(x, norm=10.0), [3, -4]),
        (lambda x: ops.clip(x, global_norm=2.5), [1.5, -2]),
    ],
)
def test_clip(call, want, wrap):
    np.testing.assert_allclose(grad(call, upstream=tf.constant([3.0, -4.0]), wrap=wrap), want, rtol=1e-6)


def test_clip_of_a_zero_upstream_and_by_rows():
    np.testing.assert_array_equal(grad(lambda x: ops.clip(x, norm=1.0), upstream=tf.zeros(2)), [0, 0])
    up = tf.constant([[3.0, 4.0], [0.3, 0.4]])
    found = grad(lambda x: ops.clip(x, norm=1.0, axis=1), tf.zeros([2, 2]), up)
    np.testing.assert_allclose(found, [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])
def test_structures(wrap):
    xs = {"w": tf.constant([1.0, 2.0]), "b": tf.constant(5.0)}
    with tf.GradientTape() as tape:
        tape.watch(xs)
        ys = wrap(lambda xs: ops.clip(xs, global_norm=1.3))(xs)
        loss = tf.reduce_sum(ys["w"] * [3.0, 4.0]) + 12.0 * ys["b"]
    found = tape.gradient(loss, xs)
    np.testing.assert_allclose(found["w"], [0.3, 0.4], rtol=1e-6)
    np.testing.assert_allclose(found["b"], 1.2, rtol=1e-6)
    pair = [tf.constant(1.0), tf.constant(2.0)]
    with tf.GradientTape() as tape:
        tape.watch(pair)
        a, b = wrap(lambda xs: ops.reverse(xs, 2.0))(pair)
        loss = a + 10.0 * b
    np.testing.assert_allclose(tape.gradient(loss, pair), [-2, -20])


def scaled(scale, loss_scale, f=lambda x, s: gw.ops.clip(x, -0.1, 0.1, loss_scale=s), slope=0.05):
    v = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        loss = slope * f(v * 3.0, loss_scale) * scale
    return float(tape.gradient(loss, v)) / scale


@pytest.mark.parametrize("scale", [1.0, 8.0, 1024.0, 32768.0])
def test_clipping_knows_the_loss_scale(scale):
    assert scaled(scale, scale) == scaled(1.0, 1.0)
    assert scaled(scale, tf.constant(scale)) == scaled(1.0, 1.0)
    np.testing.assert_allclose(scaled(scale, scale, slope=5.0), 0.3, rtol=1e-6)
    by_norm = lambda x, s: gw.ops.clip(x, norm=0.1, loss_scale=s)
    np.testing.assert_allclose(scaled(scale, scale, by_norm, 5.0), 0.3, rtol=1e-6)
    np.testing.assert_allclose(scaled(scale, scale, by_norm), 0.15, rtol=1e-6)
    # Without the scale the clipping is too early: that is what the argument is for.
    assert scale < 8 or scaled(scale, 1.0) < 0.15 / 2


def test_half_precision_is_clipped_in_single():
    x = tf.constant([1.0], tf.float16)
    up = tf.constant([1e-3 * 4096], tf.float16)
    found = grad(lambda x: ops.clip(x, norm=1.0, loss_scale=4096.0), x, up)
    np.testing.assert_allclose(found.numpy(), up.numpy())


@pytest.mark.parametrize("built", [False, True])
def test_the_loss_scale_of_keras(built):
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=512.0)
    v = keras.Variable(1.0)
    if built:
        optimizer.build([v])
    for f in (lambda x: ops.clip(x, -0.1, 0.1, loss_scale=optimizer),) * 2:
        for wrap in (lambda f: f, tf.function):

            def run(x, f=f):
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    loss = optimizer.scale_loss(5.0 * f(x))
                return tape.gradient(loss, x) / 512.0

            np.testing.assert_allclose(wrap(run)(tf.constant(1.0)), 0.1, rtol=1e-6)


def test_mixed_precision_training_clips_the_true_gradient():
    """Two models, one in float32 and one in mixed precision with a loss scale, take the same clipped step."""
    steps = []
    for policy in ("float32", "mixed_float16"):
        optimizer = keras.optimizers.SGD(1.0)
        if policy != "float32":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=256.0)
        inputs = keras.Input((2,))
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", dtype=policy)
        clipped = keras.layers.Lambda(lambda y, o=optimizer: ops.clip(
            y, -0.125, 0.125, loss_scale=o if hasattr(o, "dynamic_scale") else 1.0), dtype=policy)  # fmt: skip
        model = keras.Model(inputs, keras.layers.Activation("linear", dtype="float32")(clipped(dense(inputs))))
        model.compile(optimizer, loss=lambda true, made: tf.reduce_sum(made))
        model.fit(np.array([[1.0, 2.0]]), np.zeros((1, 1)), verbose=0)
        steps.append(1 - np.asarray(dense.kernel).ravel())
    np.testing.assert_allclose(steps[0], [0.125, 0.25], rtol=1e-5)
    np.testing.assert_allclose(steps[1], steps[0], rtol=1e-3)


def test_forward_mode_is_right_or_refused():
    with tf.autodiff.ForwardAccumulator(X, tf.constant([1.0, 10.0])) as accumulator:
        y = ops.reverse(X, 0.5)
    np.testing.assert_allclose(accumulator.jvp(y), [-0.5, -5])
    with pytest.raises(gw.ModeError, match="clip"):
        with tf.autodiff.ForwardAccumulator(X, tf.ones(2)):
            ops.clip(X, -0.1, 0.1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ops.clip(X), "0 were given"),
        (lambda: ops.clip(X, 0.1, norm=1.0), "2 were given"),
        (lambda: ops.clip(X, high=1.0), "without `low`"),
        (lambda: ops.clip(X, 0.1, loss_scale=keras.optimizers.SGD()), "loss_scale"),
    ],
)
def test_wrong_use(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: ops.clip(x, norm=-1.0), r"clip: norm=-1\.0,"),
        (lambda x: ops.clip(x, norm=float("nan")), "clip: norm=nan,"),
        (lambda x: ops.clip(x, global_norm=-2), "clip: global_norm=-2,"),
        (lambda x: ops.clip(x, value=-1.0), r"clip: value=-1\.0,"),
        (lambda x: ops.clip(x, -1.0), r"clip: low=-1\.0,"),
        (lambda x: ops.clip(x, np.float32(-1.0)), "clip: low=.*-1.0"),
        (lambda x: ops.clip(x, 1.0, -1.0), r"clip: low=1\.0 must not be above high=-1\.0"),
        (lambda x: ops.clip(x, value=1.0, high=-1.0), r"clip: low=1\.0 must not be above high=-1\.0"),
        (lambda x: ops.clip(x, norm="a"), "clip: norm='a' is no number"),
        (lambda x: ops.clip(x, 0.1, loss_scale=0.0), r"clip: loss_scale=0\.0,"),
        (lambda x: ops.clip(x, 0.1, loss_scale=-8), "clip: loss_scale=-8,"),
        (lambda x: ops.clip(x, 0.1, loss_scale=None), "clip: loss_scale=None is no number"),
        (lambda x: ops.sign_ste(x, clip=-1.0), r"sign_ste: clip=-1\.0,"),
        (lambda x: ops.sign_ste(x, clip=0), "sign_ste: clip=0,"),
        (lambda x: ops.reverse(x, "a"), "reverse: scale='a' is no number"),
        (lambda x: ops.reverse(x, None), "reverse: scale=None is no number"),
        (lambda x: ops.scale(x, "a"), "scale: factor='a' is no number"),
        (lambda x: ops.scale(x, None), "scale: factor=None is no number"),
        (lambda x: ops.scale(x, ["a", "b"]), "scale: factor=.* is no number"),
        (lambda x: ops.mask(x, None), "mask: mask=None is no number"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_at_the_call(call, words, wrap):
    with pytest.raises(gw.errors.ArgumentError, match=words):
        wrap(call)(X)


def test_the_edges_of_what_is_allowed():
    up = tf.constant([3.0, -4.0])
    np.testing.assert_array_equal(grad(lambda x: ops.clip(x, norm=0.0), upstream=up), [0, 0])
    np.testing.assert_array_equal(grad(lambda x: ops.clip(x, norm=float("inf")), upstream=up), up)
    np.testing.assert_array_equal(grad(lambda x: ops.clip(x, 1.0, 1.0), upstream=up), [1, 1])
    np.testing.assert_array_equal(grad(lambda x: ops.scale(x, [0.5, 2.0]), upstream=up), [1.5, -8])
    np.testing.assert_array_equal(grad(lambda x: ops.reverse(x, [0.5, 2.0]), upstream=up), [-1.5, 8])


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: ops.mask(x, tf.ones([2, 1])), r"mask: mask has shape \(2, 1\) and x has shape \(2,\)"),
        (lambda x: ops.mask(x, [True, False, True]), r"mask: mask has shape \(3,\) and x has shape \(2,\)"),
        (lambda x: ops.scale(x, tf.ones([2, 1])), r"scale: factor has shape \(2, 1\) and x has shape \(2,\)"),
        (lambda x: ops.scale({"a": x, "b": x[0]}, tf.ones([2])), r"factor has shape \(2,\) and x has shape \(\)"),
        (lambda x: ops.reverse(x[:1], np.ones([2])), r"reverse: scale has shape \(2,\) and x has shape \(1,\)"),
        (lambda x: ops.clip(x, value=tf.ones([2, 1])), r"clip: value has shape \(2, 1\) and x has shape \(2,\)"),
    ],
)
def test_what_would_broadcast_beyond_x_is_refused(call, words, wrap):
    with pytest.raises(gw.GradientShapeError, match=words):
        wrap(call)(X)


def test_what_broadcasts_to_x_is_taken():
    x = tf.zeros([2, 3])
    for shape in ([], [1], [3], [2, 1], [1, 3], [2, 3]):
        np.testing.assert_array_equal(grad(lambda x, s=shape: ops.mask(x, 2 * tf.ones(s)), x), np.full([2, 3], 2))
        np.testing.assert_array_equal(grad(lambda x, s=shape: ops.scale(x, 2 * tf.ones(s)), x), np.full([2, 3], 2))


@pytest.mark.parametrize("name", ["reverse", "scale", "mask"])
def test_each_is_proven_against_its_surrogate(name):
    rule = getattr(ops, name)
    args = rule.options.example()
    report = gw.check(rule, *[tf.constant(a) if isinstance(a, np.ndarray) else a for a in args])
    assert report.verdict == "right", str(report)


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_other_frameworks(framework):
    module = pytest.importorskip(framework)
    for f, want in [
        (lambda x: ops.reverse(x, scale=0.5), [-1.5, 2]),
        (lambda x: ops.clip(x, norm=1.0), [0.6, -0.8]),
        (lambda x: ops.clip(x, -1.0, 1.0), [1, -1]),
        (lambda x: ops.mask(x, x > 1), [0, -4]),
    ]:
        if framework == "jax":
            up = module.numpy.asarray([3.0, -4.0])
            found = module.grad(lambda x, f=f, up=up: (f(x) * up).sum())(module.numpy.asarray(X.numpy()))
        else:
            x = module.tensor(X.numpy(), requires_grad=True)
            (f(x) * module.tensor([3.0, -4.0])).sum().backward()
            found = x.grad
        np.testing.assert_allclose(found, want, rtol=1e-5)
