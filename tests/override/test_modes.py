"""Vectorised, forward, threaded, broken off: right or refused, and undone."""

import threading

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from tests.override.tools import GUIDED, PLAIN, RULES, X, close, gradient, relus, times


def test_vectorized_map_within_and_around_a_scope():
    overridden = gw.override(RULES, tf.nn.relu)
    with gw.override(RULES) as hits:
        assert gradient(lambda x: tf.vectorized_map(tf.nn.relu, x)) == GUIDED
    assert hits["Relu"] == 1
    assert gradient(lambda x: tf.vectorized_map(overridden, x)) == GUIDED
    assert gradient(tf.function(lambda x: tf.vectorized_map(overridden, x))) == GUIDED
    assert gradient(lambda x: tf.vectorized_map(tf.nn.relu, x)) == PLAIN
    traced = gw.override(RULES, tf.function(relus).get_concrete_function(tf.TensorSpec([])))
    assert gradient(lambda x: tf.vectorized_map(traced, x)) == GUIDED


def test_vectorized_map_with_the_tape_inside_a_function():
    overridden = gw.override(RULES, tf.nn.relu)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.constant([1.0, -1.0, 1.0, 2.0]) * tf.vectorized_map(overridden, x))
        return tape.gradient(loss, x)

    assert step(X).numpy().tolist() == GUIDED


def test_per_example_gradients_inside_vectorized_map():
    def one(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = -tf.nn.relu(x)
        return tape.gradient(y, x)

    with gw.override({"Relu": times(5.0)}):
        assert tf.vectorized_map(one, X).numpy().tolist() == [-5.0] * 4


def test_an_op_that_stays_itself_when_vectorised():
    kernel = tf.ones([2, 2, 1, 1])
    conv = lambda x: tf.nn.conv2d(x[None], kernel, 1, "SAME")[0]
    images = tf.ones([3, 4, 4, 1])
    plain = np.array(gradient(lambda x: tf.map_fn(conv, x), images, 1.0))
    tripled = gw.override({"Conv2D": lambda op, up: gw.override.native(op, up * 3.0)}, conv)
    assert close(gradient(lambda x: tf.vectorized_map(tripled, x), images, 1.0), 3 * plain)


def test_an_op_that_vectorising_turns_into_others_is_refused():
    # Where both factors vary, the vectorised MatMul is a BatchMatMul.
    f = gw.override({"MatMul": lambda op, up: gw.override.native(op, up * 3.0)}, lambda x: tf.matmul(x, x))
    squares = tf.ones([3, 2, 2])
    with pytest.raises(gw.ModeError, match="vectorised"):
        tf.vectorized_map(f, squares)
    assert close(gradient(lambda x: tf.map_fn(f, x), squares, 1.0), 12 * np.ones([3, 2, 2]))


def test_jacobians():
    with gw.override({"Relu": times(5.0)}):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(X)
            y = tf.nn.relu(X)
        assert close(tape.jacobian(y, X), 5 * np.eye(4))
    assert close(tape.jacobian(y, X), 5 * np.eye(4))


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function, lambda f: tf.function(f).get_concrete_function(X)])
def test_jacobians_of_functions_and_of_their_gradients(wrap):
    f = gw.override({"Square": lambda op, up: 3.0 * up * op.inputs[0]}, wrap(lambda x: tf.square(x)))
    with tf.GradientTape() as outer:
        outer.watch(X)
        with tf.GradientTape() as inner:
            inner.watch(X)
            y = f(X)
        jacobian = inner.jacobian(y, X)
    assert close(jacobian, 3 * np.diag(X))
    assert close(outer.gradient(jacobian, X), [3.0] * 4)


def forward(f):
    with tf.autodiff.ForwardAccumulator(X, tf.ones(4)) as accumulator:
        y = f(X)
    return accumulator.jvp(y)


def scoped(x):
    with gw.override(RULES):
        return tf.nn.relu(x)


def accumulator_inside(x):
    with tf.autodiff.ForwardAccumulator(x, tf.ones(4)) as accumulator, gw.override(RULES):
        y = tf.nn.relu(x)
    return accumulator.jvp(y)


def used(f):
    """The function, whose backward is built for one and for several orders."""
    gradient(f)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(X)
        y = f(X)
    tape.gradient(y, X)
    return f


def around(f, times):
    for _ in range(times):
        f = tf.function(lambda x, f=f: f(x) * 1.0, autograph=False)
    return f


@pytest.mark.parametrize(
    "run",
    [
        lambda: forward(scoped),
        lambda: forward(tf.function(scoped)),
        lambda: forward(used(tf.function(scoped))),
        lambda: forward(gw.override(RULES, tf.function(relus))),
        lambda: forward(used(gw.override(RULES, tf.function(relus).get_concrete_function(X)))),
        lambda: forward(used(tf.function(gw.override(RULES, tf.function(relus))))),
        lambda: forward(used(around(scoped, 2))),
        lambda: forward(used(around(gw.override(RULES, tf.function(relus)), 2))),
        lambda: forward(used(around(gw.override(RULES, tf.function(relus).get_concrete_function(X)), 1))),
        lambda: accumulator_inside(X),
        lambda: tf.function(accumulator_inside)(X),
    ],
)
def test_forward_mode_is_refused_by_name_and_not_poisoned(run):
    with pytest.raises(gw.ModeError, match=r"guided.*forward"):
        run()
    assert forward(tf.nn.relu).numpy().tolist() == [0.0, 1.0, 1.0, 1.0]
    assert forward(tf.function(relus)).numpy().tolist() == [0.0, 1.0, 1.0, 1.0]


def test_forward_mode_of_other_tensors_in_the_scope_goes_on():
    other = tf.constant(3.0)
    with tf.autodiff.ForwardAccumulator(other, tf.constant(1.0)) as accumulator, gw.override(RULES):
        tf.nn.relu(X)
        y = other * other
    assert float(accumulator.jvp(y)) == 6.0


def test_other_threads_see_nothing_and_have_their_own():
    wrong = []
    kernel = tf.ones([1, 1, 1, 1])
    conv = lambda x: tf.nn.conv2d(x, kernel, 1, "SAME")

    def work(factor):
        x = tf.ones([1, 2, 2, 1])
        for _ in range(60):
            if factor is None:
                found = gradient(conv, x, 1.0), gradient(tf.nn.relu, x, 1.0)
            else:
                rules = {"Relu": times(factor), "Conv2D": lambda op, up: (up * factor, None)}
                with gw.override(rules):
                    found = gradient(conv, x, 1.0), gradient(tf.nn.relu, x, 1.0)
            if not all(np.all(np.array(one) == (factor or 1.0)) for one in found):
                wrong.append(factor)

    threads = [threading.Thread(target=work, args=(f,)) for f in (None, 2.0, 3.0, None)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def patched():
    from gradwright.frameworks import tf_override

    return [getattr(owner, name) for owner, name, _ in tf_override._places()]


def test_everything_is_back_after_the_scope_and_after_errors():
    from tensorflow.python.eager import context

    before = patched()
    with gw.override(RULES, strict=False):
        assert patched() != before
    with pytest.raises(KeyError, match="mine"), gw.override(RULES):
        raise KeyError("mine")
    assert patched() == before and not context.context().op_callbacks
    with pytest.raises(ZeroDivisionError) as caught:
        gradient(gw.override({"Relu": lambda op, up: 1 / 0}, tf.nn.relu))
    assert any("of Relu" in note for note in caught.value.__notes__)
    assert patched() == before and gradient(tf.nn.relu) == PLAIN


def test_a_stand_in_that_came_later_is_left_alone():
    from tensorflow.python.eager import execute

    original = execute.record_gradient
    with gw.override(RULES):
        inner = execute.record_gradient
        later = lambda *args: inner(*args)
        execute.record_gradient = later
        assert gradient(tf.nn.relu) == GUIDED
    try:
        assert execute.record_gradient is later
        assert gradient(tf.nn.relu) == PLAIN
        with gw.override(RULES):
            assert gradient(tf.nn.relu) == GUIDED
    finally:
        execute.record_gradient = original


def test_a_scope_may_be_entered_again_and_decorates():
    scope = gw.override(RULES)
    for _ in range(2):
        with scope as hits:
            assert gradient(tf.nn.relu) == GUIDED
        assert hits["Relu"] == 1

    @gw.override(RULES)
    def decorated(x):
        return tf.nn.relu(x)

    assert gradient(decorated) == GUIDED and decorated.__name__ == "decorated"
