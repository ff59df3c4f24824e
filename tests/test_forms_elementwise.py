"""gw.elementwise: partials of every form, broadcasting, orders, and what is refused."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw

X = tf.constant([0.3, 1.0, -0.7])


def gradients(f, *xs, upstream=None):
    with tf.GradientTape() as tape:
        tape.watch([x for x in xs if tf.is_tensor(x)])
        y = f(*xs)
    return tape.gradient(y, [x for x in xs if tf.is_tensor(x)], output_gradients=upstream)


def test_orders_one_to_three_follow_the_partials():
    marked = gw.elementwise(tf.exp, lambda x, out: 3 * out)
    found = []
    with tf.GradientTape() as c:
        c.watch(X)
        with tf.GradientTape() as b:
            b.watch(X)
            with tf.GradientTape() as a:
                a.watch(X)
                y = marked(X)
            found.append(a.gradient(y, X))
        found.append(b.gradient(found[0], X))
    found.append(c.gradient(found[1], X))
    for order, got in enumerate(found, 1):
        np.testing.assert_allclose(got, 3.0**order * np.exp(X), rtol=1e-5)


@pytest.mark.parametrize(
    "partials",
    [
        (lambda x, y: y**2, lambda x, y: 2 * x * y),
        [lambda x, y, out: out / x, lambda x, y, out: 2 * out / y],
        {"y": lambda x, y: 2 * x * y, "x": lambda x, y: y**2},
        lambda x, y: (y**2, 2 * x * y),
        lambda x, y, out: (y**2, 2 * x * y),
    ],
    ids=["tuple", "with output", "dict", "one function", "one function with output"],
)
def test_forms_of_partials(partials):
    f = gw.elementwise(lambda x, y: x * y**2, partials)
    x, y = tf.constant([[1.0], [2.0]]), tf.constant([3.0, 4.0, 5.0])
    up = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    gx, gy = gradients(f, x, y, upstream=up)
    np.testing.assert_allclose(gx, np.sum(up * y**2, 1, keepdims=True))
    np.testing.assert_allclose(gy, np.sum(up * 2 * x * y, 0), rtol=1e-6)
    with tf.autodiff.ForwardAccumulator([x, y], [tf.ones_like(x), tf.ones_like(y)]) as accumulator:
        out = f(x, y)
    np.testing.assert_allclose(accumulator.jvp(out), y**2 + 2 * x * y)


@pytest.mark.parametrize(
    "partials",
    [
        (lambda y: y**2, lambda x, y: 2 * x * y),
        (lambda y, x: y**2, lambda y, x: 2 * x * y),
        (lambda out, x: out / x, lambda y, out: 2 * out / y),
        (lambda x, out: out / x, lambda output, y: 2 * output / y),
        {"x": lambda y: y**2, "y": lambda y, x: 2 * x * y},
        lambda y, x: (y**2, 2 * x * y),
        (lambda a, b: b**2, lambda a, b: 2 * a * b),
        (lambda a, b: b**2, lambda a, b, c: 2 * c / b),
        (lambda *xs: xs[1] ** 2, lambda x, y=0.0: 2 * x * y),
    ],
    ids=["one", "turned", "output first", "output", "dict", "one function", "places", "output by place", "optional"],
)
@pytest.mark.parametrize("call", [lambda f, x, y: f(x, y), lambda f, x, y: f(y=y, x=x)], ids=["by place", "by name"])
def test_partials_are_bound_by_name_or_all_by_place(partials, call):
    f = gw.elementwise(lambda x, y: x * y**2, partials)
    x, y = tf.constant([1.0, 2.0]), tf.constant([3.0, -5.0])
    for wrap in (lambda f: f, tf.function):
        gx, gy = gradients(wrap(lambda x, y: call(f, x, y)), x, y)
        np.testing.assert_allclose(gx, y**2, rtol=1e-6)
        np.testing.assert_allclose(gy, 2 * x * y, rtol=1e-6)


def test_arguments_left_out_or_skipped_keep_their_places():
    # f = a x b: the partial by x takes the default of what the call leaves out, and b's gradient is b's.
    partials = (lambda a, b: a * b, lambda x, b: x * b, lambda x, a: x * a)
    f = gw.elementwise(lambda x, a=2.0, b=3.0: x * a * b, partials)
    t = tf.constant([5.0, 7.0, 1.0])
    np.testing.assert_allclose(gradients(f, X)[0], [6.0] * 3)
    np.testing.assert_allclose(gradients(lambda x: f(x, b=10.0), X)[0], [20.0] * 3)
    np.testing.assert_allclose(gradients(lambda x: f(x, 10.0), X)[0], [30.0] * 3)
    gx, gt = gradients(lambda x, t: f(x, b=t), X, t)
    np.testing.assert_allclose(gx, 2 * t)
    np.testing.assert_allclose(gt, 2 * X)


def test_an_argument_named_out_is_an_argument():
    f = gw.elementwise(lambda x, out: x * out, (lambda x, out: out, lambda out, x: x))
    gx, gy = gradients(f, X, 2 * X)
    np.testing.assert_allclose(gx, 2 * X)
    np.testing.assert_allclose(gy, X)


@pytest.mark.parametrize(
    ("partials", "words"),
    [
        ((lambda t: t, lambda x: x), r"takes 1 argument \(t\) of the 2 of the call \(x, y\)"),
        ((lambda y: y, lambda t, out: t), r"takes 1 argument \(t, out\)"),
        ((lambda y: y, lambda x, y, a, b: x), r"takes 3 arguments \(x, y, a, b\)"),
    ],
)
def test_a_partial_of_another_number_of_arguments_is_refused(partials, words):
    f = gw.elementwise(lambda x, y: x * y, partials, name="product")
    for call in (f, tf.function(f)):
        with pytest.raises(
            gw.errors.ArgumentError,
            match=rf"(?s)`product` \(test_forms_elementwise.py:\d+\).*{words}.*repair: .*lambda x, y: ",
        ):
            call(X, X)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "function"])
@pytest.mark.parametrize(
    ("shape", "shown"), [([3, 1], r"\(3, 1\)"), ([2], r"\(2,\)"), ([2, 3], r"\(2, 3\)"), ([2, 1], r"\(2, 1\)")]
)
def test_a_partial_that_broadcasts_beyond_the_output_is_refused(shape, shown, wrap):
    f = gw.elementwise(lambda x, y: x**2 * y, (lambda x, y: 2 * x * y, lambda x: tf.ones(shape)), name="square")
    words = rf"(?s)`square` \(test_forms_elementwise.py:\d+\).*by `y` has shape {shown}.*output has shape \(3,\)"
    with pytest.raises(gw.GradientShapeError, match=words):
        wrap(lambda x: gradients(f, x, x * 2))(X)
    with pytest.raises(gw.GradientShapeError, match=words):
        with tf.autodiff.ForwardAccumulator(X, X):
            wrap(f)(X, X * 2)


def test_a_partial_smaller_than_the_output_is_broadcast():
    f = gw.elementwise(lambda x, y: x * y, (lambda y: y, lambda x: x))
    x, y = tf.constant([[1.0], [2.0]]), tf.constant([3.0, 4.0, 5.0])
    for wrap in (lambda f: f, tf.function):
        gx, gy = gradients(wrap(f), x, y)
        np.testing.assert_allclose(gx, [[12.0], [12.0]])
        np.testing.assert_allclose(gy, [3.0, 3.0, 3.0])
    unknown = tf.function(lambda x: gradients(f, x, x), input_signature=[tf.TensorSpec([None, 1])])
    np.testing.assert_allclose(unknown(x)[0], 2 * x)


def test_constants_none_and_static_arguments():
    f = gw.elementwise(lambda x, a, b=2.0: x * a * b, (6.0, None))
    gx, ga = gradients(f, X, tf.constant(3.0))
    np.testing.assert_allclose(gx, [6.0, 6.0, 6.0])
    assert ga is None
    np.testing.assert_allclose(gradients(f, X, 3.0)[0], [6.0, 6.0, 6.0])
    np.testing.assert_allclose(gradients(lambda x: f(a=3.0, x=x, b=2.0), X)[0], [6.0, 6.0, 6.0])


def test_jvp_of_a_constant_partial_has_the_shape_of_the_output():
    f = gw.elementwise(lambda x, y: 2 * x + tf.stop_gradient(y), (2.0, None))
    x, y = tf.constant([1.0, 2.0]), tf.zeros([3, 2])
    for call in (f, tf.function(f)):
        with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 10.0])) as accumulator:
            out = call(x, y)
        np.testing.assert_allclose(accumulator.jvp(out), np.tile([2.0, 20.0], (3, 1)))


def test_whole_number_tensors_get_no_gradient():
    f = gw.elementwise(lambda x, n: x ** tf.cast(n, x.dtype), lambda x, n: tf.cast(n, x.dtype) * x)
    gx, gn = gradients(f, X, tf.constant(2))
    np.testing.assert_allclose(gx, 2 * X)
    assert gn is None


def test_complex_partials_are_conjugated_as_tensorflow_does():
    z = tf.constant([1 + 2j, 0.5 - 1j])
    square = gw.elementwise(lambda z: z * z, lambda z: 2 * z)
    np.testing.assert_allclose(gradients(square, z)[0], gradients(lambda z: z * z, z)[0])
    with tf.autodiff.ForwardAccumulator(z, tf.ones_like(z)) as accumulator:
        out = square(z)
    np.testing.assert_allclose(accumulator.jvp(out), 2 * z)


def test_a_partial_of_a_static_argument_is_not_computed():
    called = []
    f = gw.elementwise(lambda x, y: x * y, (lambda x, y: y, lambda x, y: called.append(1)))
    np.testing.assert_allclose(gradients(f, X, 2.0)[0], [2.0, 2.0, 2.0])
    assert called == []


def test_not_implemented_is_an_error_only_when_used():
    f = gw.elementwise(lambda x, y: x * y, (lambda x, y: y, gw.forms.not_implemented("nobody needed it")), name="f")
    np.testing.assert_allclose(gradients(f, X, 2.0)[0], [2.0, 2.0, 2.0])
    np.testing.assert_allclose(f(X, X), X * X)
    with pytest.raises(gw.ModeError, match=r"(?s)rule `f`.*nobody needed it"):
        gradients(f, X, tf.constant(2.0))


def test_too_few_partials_are_refused_with_the_repair():
    f = gw.elementwise(lambda x, y: x * y, lambda x, y: y, name="product")
    with pytest.raises(gw.GradientCountError, match=r"(?s)rule `product`.*1 partial.*2 arguments.*gw.elementwise"):
        gradients(f, X, X)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gw.elementwise(3, lambda x: x), "the first argument is a function"),
        (lambda: gw.elementwise(tf.tan, None), "partials are functions or constants"),
        (lambda: gw.elementwise(tf.tan, {"z": 1.0}), "a partial for `z`; the arguments are x"),
    ],
)
def test_wrong_use(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_name_and_place_are_the_users():
    f = gw.elementwise(tf.tan, lambda x, out: 1 + out**2)
    assert f.name == "tan"
    assert f.where.startswith("test_forms_elementwise.py:")
    np.testing.assert_allclose(f.forward(X), tf.tan(X))


def test_only_what_the_partials_use_is_kept():
    f = gw.elementwise(lambda x: tf.identity(x) * 3, 3.0)
    with tf.GradientTape() as tape:
        tape.watch(X)
        x = X * 1.0
        y = f(x) * 1.0
    ref = weakref.ref(x)
    del x
    gc.collect()
    assert ref() is None
    np.testing.assert_allclose(tape.gradient(y, X), [3.0] * 3)


def test_compiled_it_is_the_hand_written_graph():
    def operations(f):
        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            return tape.gradient(y, x)

        from tensorflow.python.grappler import tf_optimizer

        concrete = step.get_concrete_function(tf.TensorSpec([3]))
        from tensorflow.core.protobuf import config_pb2, meta_graph_pb2
        from tensorflow.python.framework import meta_graph

        graph = meta_graph.create_meta_graph_def(graph=concrete.graph)
        fetch = meta_graph_pb2.CollectionDef()
        fetch.node_list.value.extend([t.name for t in concrete.outputs])
        graph.collection_def["train_op"].CopyFrom(fetch)
        config = config_pb2.ConfigProto()
        optimized = tf_optimizer.OptimizeGraph(config, graph)
        return sorted(n.op for n in optimized.node if n.op not in ("Placeholder", "Const", "Identity", "NoOp"))

    ours = operations(gw.elementwise(tf.tan, lambda x, out: 1 + out**2))
    assert ours == operations(tf.tan) or len(ours) <= len(operations(tf.tan))


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_other_frameworks(framework):
    module = pytest.importorskip(framework)
    partial = lambda x, out: 1 + out**2
    if framework == "jax":
        f = gw.elementwise(module.numpy.tan, partial)
        found = module.grad(lambda x: f(x).sum())(module.numpy.asarray(X.numpy()))
    else:
        x = module.tensor(X.numpy(), requires_grad=True)
        gw.elementwise(module.tan, partial)(x).sum().backward()
        found = x.grad
    np.testing.assert_allclose(found, 1 / np.cos(X) ** 2, rtol=1e-5)
