"""The old names: a sign whose gradient is half its upstream, in every form and mode."""

import contextlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from gradwright import compat

X = tf.constant([-1.0, 2.0, 3.0])


@pytest.fixture(autouse=True)
def half():
    @compat.RegisterGradient("HalfUpstream")
    def half(op, upstream):
        return upstream * 0.5

    yield half
    with contextlib.suppress(gw.OverrideError):
        compat.RegisterGradient.remove("HalfUpstream")


def by_map(x):
    with compat.gradient_override_map({"Sign": "HalfUpstream"}):
        return tf.sign(x)


def by_graph_method(x):
    with compat.get_default_graph().gradient_override_map({"Sign": "HalfUpstream"}):
        return tf.sign(x)


def by_function_with_a_graph(x):
    with compat.gradient_override_map(tf.compat.v1.get_default_graph(), {"Sign": "HalfUpstream"}):
        return tf.sign(x)


@compat.Defun(tf.float32, python_grad_func=lambda op, upstream: upstream * 0.5)
def by_python_grad_func(x):
    return tf.sign(x)


@compat.Defun(tf.float32, tf.float32)
def half_gradient(x, upstream):
    return upstream * 0.5


@compat.Defun(tf.float32, grad_func=half_gradient)
def by_grad_func(x):
    return tf.sign(x)


FORMS = [by_map, by_graph_method, by_function_with_a_graph, by_python_grad_func, by_grad_func]
LOSSES = [
    (lambda y: tf.reduce_sum(y), 0.5),
    (lambda y: 2 * tf.reduce_sum(y), 1.0),
    (lambda y: tf.reduce_sum(5 * y), 2.5),
]


@pytest.mark.parametrize(("loss", "wanted"), LOSSES, ids=["sum", "doubled", "times five"])
@pytest.mark.parametrize("sign", FORMS)
def test_half_the_upstream(sign, loss, wanted):
    def inside(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = loss(sign(x))
        return tape.gradient(y, x)

    compiled = tf.function(lambda x: loss(sign(x)), autograph=False)
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = compiled(X)
    for found in (inside(X), tf.function(inside, autograph=False)(X), tape.gradient(y, X)):
        assert found.numpy().tolist() == [wanted] * 3


@pytest.mark.parametrize("sign", FORMS)
def test_sessions(sign):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [3])
        [g] = tf.gradients(5 * tf.reduce_sum(sign(x)), x)
        assert session.run(g, {x: X.numpy()}).tolist() == [2.5] * 3


def test_the_map_around_a_traced_function():
    traced = tf.function(tf.sign).get_concrete_function(X)
    with compat.gradient_override_map({"Sign": "HalfUpstream"}), tf.GradientTape() as tape:
        tape.watch(X)
        y = traced(X)
    assert tape.gradient(y, X).numpy().tolist() == [0.5] * 3


def test_the_map_as_the_method_of_a_graph(monkeypatch):
    class Graph(tf.Graph):
        gradient_override_map = compat.gradient_override_map

    with Graph().as_default() as graph, tf.compat.v1.Session() as session:
        x = tf.constant([1.0])
        with graph.gradient_override_map({"Sign": "HalfUpstream"}):
            y = tf.sign(x)
        assert session.run(tf.gradients(y, x))[0].tolist() == [0.5]


def test_registering_again_replaces(half):
    assert compat.RegisterGradient("HalfUpstream")(half) is half
    compat.RegisterGradient("HalfUpstream")(lambda op, up: up * 9.0)
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = by_map(X)
    assert tape.gradient(y, X).numpy().tolist() == [9.0] * 3


def test_registering_again_can_be_forbidden(half):
    with pytest.raises(gw.OverrideError, match="overwrite=True"):
        compat.RegisterGradient("HalfUpstream", overwrite=False)(half)


def test_what_tensorflow_registered_under_a_free_name_is_replaced():
    name = "OfTensorFlow"
    tf.RegisterGradient(name)(lambda op, up: up)
    with pytest.raises(gw.OverrideError, match=r"tf\.RegisterGradient"):
        compat.RegisterGradient(name, overwrite=False)(lambda op, up: up)
    compat.RegisterGradient(name)(lambda op, up: up * 4.0)
    with compat.gradient_override_map({"Sign": name}), tf.GradientTape() as tape:
        tape.watch(X)
        y = tf.sign(X)
    assert tape.gradient(y, X).numpy().tolist() == [4.0] * 3
    compat.RegisterGradient.remove(name)


def relu_gradient():
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = tf.nn.relu(X)
    return tape.gradient(y, X).numpy().tolist()


def test_a_built_in_gradient_is_replaced_only_on_demand_and_comes_back(half):
    with pytest.raises(gw.OverrideError, match="overwrite=True"):
        compat.RegisterGradient("Relu")(half)
    compat.RegisterGradient("Relu", overwrite=True)(half)
    try:
        assert relu_gradient() == [0.5] * 3
    finally:
        compat.RegisterGradient.remove("Relu")
    assert relu_gradient() == [0.0, 1.0, 1.0]


def test_names_registered_by_tensorflow_serve_the_map():
    tf.RegisterGradient("ByTensorFlowItself")(lambda op, up: up * 3.0)
    with compat.gradient_override_map({"Sign": "ByTensorFlowItself"}), tf.GradientTape() as tape:
        tape.watch(X)
        y = tf.sign(X)
    assert tape.gradient(y, X).numpy().tolist() == [3.0] * 3


def test_removed_and_unknown_names():
    compat.RegisterGradient.remove("HalfUpstream")
    for use in (lambda: compat.RegisterGradient.remove("HalfUpstream"), lambda: by_map(X)):
        with pytest.raises(gw.OverrideError, match="HalfUpstream"):
            use()


def test_wrong_use_is_refused():
    with pytest.raises(gw.OverrideError, match="did you mean Relu"):
        compat.gradient_override_map({"relu": "HalfUpstream"})
    with pytest.raises(gw.OverrideError, match="did you mean 'HalfUpstream'"):
        compat.gradient_override_map({"Sign": "HalfUpstrem"})
    for wrong in ("Relu", None, {"Relu"}):
        with pytest.raises(gw.GradwrightError):
            compat.gradient_override_map(wrong)
    with pytest.raises(gw.GradwrightError, match="name"):
        compat.RegisterGradient(lambda op, up: up)
    with pytest.raises(gw.GradwrightError, match="two gradients"):
        compat.Defun(tf.float32, grad_func=half_gradient, python_grad_func=lambda op, up: up)
    with pytest.raises(gw.GradwrightError, match="2 inputs"):
        half_gradient(X)
    with pytest.raises(gw.OverrideError, match="never served"), compat.gradient_override_map({"Sign": "HalfUpstream"}):
        tf.nn.relu(X)


def test_defun_converts_and_sees_inputs_and_outputs():
    seen = {}

    def gradient(op, to_sum, to_product):
        seen.update(inputs=len(op.inputs), outputs=[o.numpy().tolist() for o in op.outputs], type=op.type)
        return to_sum + to_product * op.inputs[1], to_sum + to_product * op.inputs[0]

    @compat.Defun(tf.float32, tf.float32, func_name="both", python_grad_func=gradient)
    def both(a, b):
        return a + b, a * b

    a = tf.constant([2.0])
    with tf.GradientTape() as tape:
        tape.watch(a)
        total, product = both(a, [5])
        loss = total + 3.0 * product
    assert tape.gradient(loss, a).numpy().tolist() == [16.0]
    assert seen == {"inputs": 2, "outputs": [[7.0], [10.0]], "type": "both"}


def test_defun_without_a_gradient_is_differentiated_natively():
    square = compat.Defun(tf.float32)(lambda x: x * x)
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = square(X)
    assert np.allclose(tape.gradient(y, X), 2 * X)


def test_captured_variables_get_the_frameworks_gradient():
    v = tf.Variable([1.0, 2.0, 3.0])
    f = compat.Defun(tf.float32, python_grad_func=lambda op, up: up * 0.5)(lambda x: tf.sign(x) * v.read_value())
    for form in (f, tf.function(lambda x: f(x))):
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = form(X)
        to_x, to_v = tape.gradient(y, [X, v])
        assert to_x.numpy().tolist() == [0.5] * 3 and to_v.numpy().tolist() == [-1.0, 1.0, 1.0]


def test_importing_loads_no_framework():
    code = "import sys, gradwright.compat; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
