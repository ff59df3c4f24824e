"""gw.linear: the adjoint against the transpose of the matrix, both modes, and what is not linear."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw

X = tf.constant([1.0, 4.0, 9.0])


def adjoint(f, x, upstream, wrap=lambda f: f):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = wrap(f)(x)
    return tape.gradient(y, x, output_gradients=upstream)


FUNCTIONS = {
    "difference": lambda x: x[1:] - x[:-1],
    "cumulative": lambda x: tf.cumsum(x, reverse=True)[:2],
    "gather twice": lambda x: tf.gather(x, [2, 0, 2]),
    "loop": lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, 2.0 * y[::-1]), [0, x])[1],
    "fourier": lambda x: tf.math.real(tf.signal.fft(tf.cast(x, tf.complex64)))[:2],
}


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_adjoint_and_pushforward(name, wrap):
    f = gw.linear(FUNCTIONS[name])
    matrix = np.stack([FUNCTIONS[name](tf.constant(e)).numpy() for e in np.eye(3, dtype="float32")], 1)
    up = tf.constant(np.arange(1.0, 1.0 + len(matrix)), tf.float32)
    np.testing.assert_allclose(adjoint(f, X, up, wrap), matrix.T @ up.numpy(), rtol=1e-5, atol=1e-5)
    with tf.autodiff.ForwardAccumulator(X, tf.constant([1.0, 10.0, 100.0])) as accumulator:
        y = wrap(f)(X)
    np.testing.assert_allclose(accumulator.jvp(y), matrix @ [1, 10, 100], rtol=1e-5)


def test_several_tensors_and_constants():
    f = gw.linear(lambda x, y, *, mask: mask * (2 * x + 3 * y))
    mask = tf.constant([1.0, 0.0, 1.0])
    with tf.GradientTape() as tape:
        tape.watch([X, mask])
        y = f(X, X * 1.0, mask=mask)
    gx, gm = tape.gradient(y, [X, mask])
    np.testing.assert_allclose(gx, 5 * mask)
    assert gm is None


def test_variables_inside_get_their_gradient():
    w = tf.Variable(3.0)
    f = gw.linear(lambda x: x * w)
    for call in (f, tf.function(f)):
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = call(X)
        gx, gv = tape.gradient(y, [X, w])
        np.testing.assert_allclose(gx, [3, 3, 3])
        np.testing.assert_allclose(gv, 14)


def test_adjoint_by_hand_where_the_framework_finds_none():
    blind = lambda x: tf.ensure_shape(tf.numpy_function(lambda v: 2 * v, [x], tf.float32), [3])
    np.testing.assert_allclose(adjoint(gw.linear(blind, adjoint=lambda up: 2 * up), X, tf.ones(3)), [2, 2, 2])
    with pytest.raises(gw.ModeError, match=r"(?s)no gradient through it.*adjoint="):
        adjoint(gw.linear(blind), X, tf.ones(3))


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])
@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: x**2, "differs from"),
        (lambda x: x + 1, "zero to zero"),
        (tf.abs, "differs from"),
        (lambda x: tf.nn.relu(x) * 2, "differs from"),
        (lambda x: x * tf.random.uniform([3]), "differs from"),
    ],
)
def test_what_is_not_linear_is_refused_on_the_first_call(f, words, wrap):
    with pytest.raises(gw.GradwrightError, match=rf"(?s)no linear function: .*{words}.*gw.elementwise"):
        wrap(gw.linear(f))(X)


def test_linearity_is_tried_once_for_each_kind_of_call():
    calls = []
    f = gw.linear(lambda x: (calls.append(1), 2 * x)[1])
    for _ in range(3):
        f(X)
    first = len(calls)
    assert first == 4 + 3
    f(tf.ones([5]))
    assert len(calls) == first + 5
    assert len(calls) == 12 and gw.linear(lambda x: x**2, verify=False)(X) is not None


def test_unknown_shapes_are_tried_too():
    specs = [tf.TensorSpec([None])]
    with pytest.raises(gw.GradwrightError, match="no linear function"):
        tf.function(gw.linear(lambda x: x * x), input_signature=specs)(X)
    f = tf.function(gw.linear(lambda x: x[1:] - x[:-1]), input_signature=specs)
    np.testing.assert_allclose(adjoint(f, X, tf.constant([1.0, 10.0])), [-1, -9, 10])


def test_wrong_use():
    with pytest.raises(ValueError, match="a function is wanted"):
        gw.linear(3)
    assert gw.linear(name="named")(lambda x: x).name == "named"


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_other_frameworks(framework):
    module = pytest.importorskip(framework)
    f = gw.linear(lambda x: 2 * x[1:] - x[:-1])
    if framework == "jax":
        found = module.grad(lambda x: (f(x) * module.numpy.asarray([1.0, 10.0])).sum())(module.numpy.asarray(X.numpy()))
    else:
        x = module.tensor(X.numpy(), requires_grad=True)
        (f(x) * module.tensor([1.0, 10.0])).sum().backward()
        found = x.grad
    np.testing.assert_allclose(found, [-1, -8, 20])
