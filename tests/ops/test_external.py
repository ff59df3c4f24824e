"""external: numpy functions with a gradient by hand or by differences, and the modes where python cannot go."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from gradwright.ops import differences

external = gw.ops.external
X = tf.constant([0.3, 1.0, 2.0])
FORMS = {
    "upstream first": external(np.sin, lambda upstream, x: upstream * np.cos(x)),
    "upstream last": external(np.sin, vjp=lambda x, upstream: upstream * np.cos(x)),
    "differences": external(np.sin),
    "own function": external(lambda x: np.sin(x), vjp=lambda up, x: (up * np.cos(x),), shape="same"),
    "with a jvp": external(np.sin, lambda up, x: up * np.cos(x), jvp=lambda xs, ts: ts[0] * np.cos(xs[0])),
}


def gradient(f, x=X, upstream=None):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x, output_gradients=upstream)


@pytest.fixture(params=FORMS)
def sine(request):
    return FORMS[request.param]


def test_eager_function_and_unknown_shapes(sine):
    up = tf.constant([1.0, -2.0, 3.0])
    want = up * np.cos(X)
    np.testing.assert_allclose(sine(X), np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(gradient(sine, X, up), want, rtol=1e-5)
    np.testing.assert_allclose(tf.function(lambda x: gradient(sine, x, up))(X), want, rtol=1e-5)
    np.testing.assert_allclose(gradient(tf.function(lambda x: sine(x)), X, up), want, rtol=1e-5)
    unknown = tf.function(lambda x: gradient(sine, x), input_signature=[tf.TensorSpec(None)])
    np.testing.assert_allclose(unknown(X), np.cos(X), rtol=1e-5)


def test_vectorised_and_in_control_flow(sine):
    rows = tf.stack([X, 2 * X])
    np.testing.assert_allclose(tf.vectorized_map(sine, rows), np.sin(rows), rtol=1e-6)
    np.testing.assert_allclose(tf.vectorized_map(lambda x: gradient(sine, x), rows), np.cos(rows), rtol=1e-5)
    np.testing.assert_allclose(gradient(lambda x: tf.vectorized_map(sine, x), rows), np.cos(rows), rtol=1e-5)
    mapped = tf.function(lambda x: tf.map_fn(lambda row: gradient(sine, row), x))
    np.testing.assert_allclose(mapped(rows), np.cos(rows), rtol=1e-5)
    branch = tf.function(lambda x: gradient(lambda x: tf.cond(x[0] > 0, lambda: sine(x), lambda: x), x))
    np.testing.assert_allclose(branch(X), np.cos(X), rtol=1e-5)


def test_jacobian(sine):
    for pfor in (True, False):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(X)
            y = sine(X)
        found = tape.jacobian(y, X, experimental_use_pfor=pfor)
        np.testing.assert_allclose(found, np.diag(np.cos(X)), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])
def test_forward_mode(sine, wrap):
    def run(x):
        with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 10.0, 100.0])) as accumulator:
            y = sine(x)
        return accumulator.jvp(y)

    np.testing.assert_allclose(wrap(run)(X), np.cos(X) * [1, 10, 100], rtol=1e-5)


def test_xla_is_refused_by_name(sine):
    for f in (lambda x: sine(x), lambda x: gradient(sine, x)):
        with pytest.raises(gw.ModeError, match=rf"(?s)rule `{sine.name}`.*XLA"):
            tf.function(f, jit_compile=True)(X)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: lambda x: f(x) * 2.0,
        lambda f: lambda x: tf.cond(x[0] > 0, lambda: f(x), lambda: x),
        lambda f: lambda x: tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, f(y)), [0, x])[1],
        lambda f: lambda x: tf.function(lambda x: f(x))(x),
    ],
    ids=["plain", "cond", "while", "inner function"],
)
def test_saving_is_refused_by_name(sine, wrap, tmp_path):
    module = tf.Module()
    g = wrap(sine)
    module.serve = tf.function(lambda x: g(x), input_signature=[tf.TensorSpec([3])])
    module.serve(X)
    with pytest.raises(gw.ModeError, match=rf"(?s)rule `{sine.name}`.*saved model"):
        tf.saved_model.save(module, str(tmp_path))


def test_second_order_is_refused_by_name(sine):
    def second(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            g = gradient(sine, x)
        return outer.gradient(g, x)

    for f in (second, tf.function(second)):
        with pytest.raises(gw.ModeError, match=rf"(?s){sine.name}.*second derivative"):
            f(X)


def test_several_arguments_static_ones_and_broadcasting():
    f = external(lambda x, y, n: x**n * y, vjp=lambda up, x, y, n: (up * n * x ** (n - 1) * y, up * x**n), shape=(2, 2))
    x, y = tf.constant([[1.0], [2.0]]), tf.constant([3.0, 4.0])
    for call in (lambda x, y: f(x, y, 2), tf.function(lambda x, y: f(x, y, n=2))):
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            z = call(x, y)
        gx, gy = tape.gradient(z, [x, y])
        np.testing.assert_allclose(gx, [[14], [28]])
        np.testing.assert_allclose(gy, [5, 5])
    by_differences = external(lambda x, y: x**2 * y)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        z = by_differences(x, y)
    np.testing.assert_allclose(tape.gradient(z, [x, y])[0], [[14], [28]], rtol=1e-6)


def test_several_outputs_and_dtypes():
    f = external(lambda x: (x.sum(), x.astype("float64") ** 2), vjp=lambda ups, x: ups[0] + ups[1] * 2 * x,
                 dtype=(tf.float32, tf.float64), shape=lambda s: ((), s))  # fmt: skip
    for call in (f, tf.function(lambda x: f(x))):
        with tf.GradientTape() as tape:
            tape.watch(X)
            total, squares = call(X)
            loss = 10.0 * total + tf.cast(tf.reduce_sum(squares), tf.float32)
        assert (total.shape, squares.shape, squares.dtype) == ((), (3,), tf.float64)
        np.testing.assert_allclose(tape.gradient(loss, X), 10 + 2 * X)


def test_scipy_in_double_precision():
    special = pytest.importorskip("scipy.special")
    f = external(special.gammaln)
    x = tf.constant([0.5, 2.0, 30.0], tf.float64)
    np.testing.assert_allclose(gradient(f, x), special.digamma(x), rtol=1e-8)


def test_differences_are_accurate():
    x = np.array([1e-3, 1.0, 1e3])
    found = differences.vjp(lambda x: [np.log(x)], [np.ones(3)], [x])[0]
    np.testing.assert_allclose(found[1:], 1 / x[1:], rtol=1e-8)
    found = differences.jvp(lambda x: [x**3], [np.array([2.0])], [np.array([1e-8])])[0]
    np.testing.assert_allclose(found, [12e-8], rtol=1e-8)
    assert differences.jvp(lambda x: [x], [np.ones(2)], [np.zeros(2)])[0].tolist() == [0, 0]


_BUFFER = np.empty(3)


def _in_place(a):
    a *= 3
    return a


def _into_a_buffer(a):
    return np.multiply(a, 3, out=_BUFFER)


WRAPS = pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])


@WRAPS
@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (lambda a: a, 1),
        (lambda a: a[::-1], 1),
        (lambda a: a.reshape(-1, 1), 1),
        (lambda a: [a, a], 2),
        (_in_place, 3),
        (_into_a_buffer, 3),
    ],
    ids=["itself", "a view", "reshaped", "twice", "in place", "one buffer"],
)
def test_a_function_may_return_its_argument_or_write_into_it(function, slope, wrap):
    x = tf.constant([0.3, 1.0, 2.0])
    f = external(function, shape=lambda s: None)
    total = wrap(lambda x: tf.reduce_sum(f(x)))
    np.testing.assert_allclose(total(x), 3.3 * slope, rtol=1e-6)
    np.testing.assert_allclose(gradient(total, x), [slope] * 3, rtol=1e-6)
    with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 10.0, 100.0])) as accumulator:
        y = total(x)
    np.testing.assert_allclose(accumulator.jvp(y), 111.0 * slope, rtol=1e-5)
    np.testing.assert_array_equal(x, np.float32([0.3, 1.0, 2.0]))


@WRAPS
def test_a_vjp_may_write_into_its_arguments(wrap):
    def vjp(upstream, x):
        x *= 2
        upstream *= x
        return upstream

    f = external(lambda x: x**2, vjp, shape="same")
    x, up = tf.constant([1.0, 2.0]), tf.constant([1.0, 10.0])
    np.testing.assert_allclose(wrap(lambda x: gradient(f, x, up))(x), [2, 40])
    np.testing.assert_array_equal(x, [1, 2])
    np.testing.assert_array_equal(up, [1, 10])
    with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 10.0])) as accumulator:
        y = wrap(f)(x)
    np.testing.assert_allclose(accumulator.jvp(y), [2, 40])


def test_wrong_use():
    with pytest.raises(ValueError, match="a function of numpy arrays"):
        external(3)
    with pytest.raises(ValueError, match="no float tensor"):
        external(np.abs)(tf.constant([1]))
    wrong_count = external(lambda x, y: x + y, lambda up, x, y: up)
    with pytest.raises(ValueError, match="vjp must give 2 gradients"):
        gradient(lambda x: wrong_count(x, x * 2))
    wrong_shape = external(np.sin, lambda up, x: up[:2])
    with pytest.raises(ValueError, match=r"\(2,\), the input \(3,\)"):
        gradient(wrong_shape)


def test_proof():
    right = external(lambda x: np.sin(x), lambda up, x: up * np.cos(x))
    wrong = external(lambda x: np.sin(x), lambda up, x: up * np.sin(x))
    x = tf.constant([0.3, 1.0, 2.0], tf.float64)
    assert gw.check(right, x).verdict == "right"
    assert gw.check(wrong, x).verdict == "wrong"
