"""The drop-in tape: what it did not record, and that it is a `tf.GradientTape` in every other respect."""

import operator
import pickle
import threading

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from tests.explain.programs import marked


def about(reason, status, cause, function=None):
    assert (reason.status, reason.cause) == (status, cause), str(reason)
    if function is not None:
        assert reason.where == marked(function), str(reason)


X = (1.0, 2.0, 3.0)


def test_not_watched():
    x = tf.constant(X)
    with gw.GradientTape() as tape:
        y = tf.reduce_sum(x * x)  # <-- here
    assert tape.gradient(y, x) is None
    about(tape.explain(y, x)[0], "none", "not-watched", test_not_watched)
    assert tape.explain(y, x)[0].repair.startswith("tape.watch(x)")


def test_watched_too_late():
    x = tf.constant(X)
    with gw.GradientTape() as tape:
        h = x * 2.0  # <-- here
        tape.watch(x)
        y = tf.reduce_sum(h)
    assert tape.gradient(y, x) is None
    about(tape.explain(y, x)[0], "none", "not-watched", test_watched_too_late)


def test_not_watched_variable():
    v = tf.Variable(X)
    with gw.GradientTape(watch_accessed_variables=False) as tape:
        y = tf.reduce_sum(v * 2.0)  # <-- here
    about(tape.explain(y, v)[0], "none", "not-watched", test_not_watched_variable)


def test_not_trainable():
    frozen, free = tf.Variable(X, trainable=False), tf.Variable(X)
    with gw.GradientTape() as tape:
        y = tf.reduce_sum(frozen * free)  # <-- here
    first, second = tape.explain(y, [frozen, free])
    about(first, "none", "not-trainable", test_not_trainable)
    about(second, "ok", None)


def test_a_frozen_variable_that_is_watched_is_fine():
    frozen = tf.Variable(X, trainable=False)
    with gw.GradientTape() as tape:
        tape.watch(frozen)
        y = tf.reduce_sum(frozen * 2.0)
    about(tape.explain(y, frozen)[0], "ok", None)


def test_computed_after_the_tape():
    x = tf.constant(X)
    with gw.GradientTape() as tape:
        tape.watch(x)
        h = x * 2.0
    y = tf.reduce_sum(h * h)  # <-- here
    assert tape.gradient(y, x) is None
    about(tape.explain(y, x)[0], "none", "outside-tape", test_computed_after_the_tape)


def test_computed_before_the_tape():
    x = tf.constant(X)
    h = tf.sin(x)  # <-- here
    with gw.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(h * h)
    assert tape.gradient(y, x) is None
    about(tape.explain(y, x)[0], "none", "outside-tape", test_computed_before_the_tape)


def test_a_constant_made_before_the_tape_is_not_a_lost_step():
    x, v = tf.constant(X), tf.Variable(X)
    c = tf.constant([3.0, 4.0, 5.0])
    with gw.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(c * v)
    first, second = tape.explain(y, [x, v])
    about(first, "none", "unused")
    about(second, "ok", None)


def test_recording_stopped():
    x = tf.constant(X)
    with gw.GradientTape() as tape:
        tape.watch(x)
        h = x * 2.0
        with tape.stop_recording():
            h = h * 3.0  # <-- here
        y = tf.reduce_sum(h)
    assert tape.gradient(y, x) is None
    about(tape.explain(y, x)[0], "none", "recording-stopped", test_recording_stopped)


def test_reset_forgets():
    x = tf.constant(X)
    with gw.GradientTape(persistent=True) as tape:
        tape.watch(x)
        h = x * 2.0  # <-- here
        tape.reset()
        tape.watch(x)
        y = tf.reduce_sum(h)
        z = tf.reduce_sum(x)
    assert tape.gradient(y, x) is None
    about(tape.explain(y, x)[0], "none", "outside-tape", test_reset_forgets)
    about(tape.explain(z, x)[0], "ok", None)


def test_integer_source():
    x = tf.constant([1, 2])
    with gw.GradientTape() as tape:
        y = tf.reduce_sum(tf.cast(x, tf.float32))
    about(tape.explain(y, x)[0], "none", "integer")


def test_numpy_between():
    x = tf.constant(X)
    with gw.GradientTape() as tape:
        tape.watch(x)
        a = (x * 2.0).numpy()  # <-- here
        y = tf.reduce_sum(tf.constant(np.cos(a)))
    about(tape.explain(y, x)[0], "none", "numpy", test_numpy_between)


READS = {
    ".numpy()": operator.methodcaller("numpy"),
    "float()": float,
    "int()": int,
    "np.array()": np.sin,  # NumPy asks a variable for an array, and does not say what for
}


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("keep_values", [True, False])
def test_a_variable_that_left_as_a_number(how, keep_values):
    v = tf.Variable(2.0)
    with gw.GradientTape(keep_values=keep_values) as tape:
        a = READS[how](v)  # <-- here
        y = tf.constant(a, tf.float32) * 3.0
    (reason,) = tape.explain(y, [v])
    about(reason, "none", "numpy", test_a_variable_that_left_as_a_number)
    assert reason.op == how


def test_a_variable_that_left_in_a_function():
    v = tf.Variable([1.0, 2.0])
    (reason,) = gw.explain(
        lambda q: tf.constant(v.numpy() * 2.0) + q,  # <-- here
        tf.ones(2),
        wrt=[v],
    )
    about(reason, "none", "numpy", test_a_variable_that_left_in_a_function)


def test_a_variable_that_was_only_printed_is_unused(capsys):
    v, w = tf.Variable(2.0), tf.Variable(3.0)
    with gw.GradientTape() as tape:
        print(v.numpy(), float(v))
        y = w * w
    about(tape.explain(y, v)[0], "none", "unused")
    about(tape.explain(y, w)[0], "ok", None)


def test_an_operator_with_an_array_keeps_the_gradient():
    v = tf.Variable([1.0, 2.0])
    with gw.GradientTape() as tape:
        y = tf.reduce_sum(np.ones(2, np.float32) * v)
    about(tape.explain(y, v)[0], "ok", None)


def test_intermediates_as_sources():
    x = tf.constant(X)
    with gw.GradientTape(persistent=True) as tape:
        tape.watch(x)
        h = x * 2.0
        y = tf.reduce_sum(tf.floor(h) + h)
    about(tape.explain(y, h)[0], "ok", None)
    assert [r.cause for r in tape.explain(y, h)[0].also] == ["no-gradient"]
    np.testing.assert_allclose(tape.gradient(y, h), [1.0, 1.0, 1.0])


def test_structures_of_sources_in_order():
    a, b = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b")
    with gw.GradientTape() as tape:
        y = a * 3.0
    reasons = tape.explain(y, {"first": a, "second": [b]})
    assert [(r.source, r.status) for r in reasons] == [("a", "ok"), ("b", "none")]


def test_nested_tapes_and_second_order():
    x = tf.constant(2.0)
    with gw.GradientTape() as outer:
        outer.watch(x)
        with gw.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        slope = inner.gradient(y, x)
    curvature = outer.gradient(slope, x)
    assert float(curvature) == pytest.approx(12.0)
    about(outer.explain(slope, x)[0], "ok", None)
    about(inner.explain(y, x)[0], "ok", None)


def test_second_order_lost_between_tapes():
    x = tf.constant(2.0)
    with gw.GradientTape() as inner:
        inner.watch(x)
        y = x**3
    slope = inner.gradient(y, x)
    with gw.GradientTape() as outer:
        outer.watch(x)
        z = slope * 2.0
    assert outer.gradient(z, x) is None
    assert outer.explain(z, x)[0].status == "none"


def test_every_method_of_the_tape():
    x = tf.constant([1.0, 2.0])
    with gw.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = tf.reshape(x, (2, 1)) ** 2
    assert isinstance(tape, tf.GradientTape) and isinstance(tape, gw.GradientTape)
    np.testing.assert_allclose(tape.jacobian(y, x), [[2.0, 0.0], [0.0, 4.0]])
    np.testing.assert_allclose(tape.gradient(z, x), [2.0, 4.0])
    zero = tape.gradient(y, tf.constant(1.0), unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert float(zero) == 0.0
    np.testing.assert_allclose(tape.gradient(y, x, output_gradients=tf.constant([1.0, 10.0])), [2.0, 40.0])
    with gw.GradientTape() as batched:
        rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        batched.watch(rows)
        squares = rows**2
    np.testing.assert_allclose(batched.batch_jacobian(squares, rows)[1], [[6.0, 0.0], [0.0, 8.0]])
    v = tf.Variable(1.0)
    with gw.GradientTape() as tape:
        _ = v * 2.0
    assert tape.watched_variables()[0] is v


def test_a_used_tape_refuses_a_second_gradient_as_before():
    x = tf.constant(X)
    with gw.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x)
    tape.gradient(y, x)
    with pytest.raises(RuntimeError):
        tape.gradient(y, x)
    about(tape.explain(y, x)[0], "ok", None)


# ---- inside traced functions


def test_tape_inside_a_traced_function():
    w, seen = tf.Variable([1.0, 2.0]), []

    @tf.function
    def step(x):
        with gw.GradientTape() as tape:
            tape.watch(x)
            h = tf.floor(x)  # <-- here
            y = tf.reduce_sum(h * w)
        seen.extend(tape.explain(y, [x, w]))
        return tape.gradient(y, w)

    np.testing.assert_allclose(step(tf.constant([1.5, 2.5])), [1.0, 2.0])
    about(seen[0], "none", "no-gradient", test_tape_inside_a_traced_function)
    assert seen[0].source == "x"
    about(seen[1], "ok", None)


def test_tape_inside_a_traced_function_with_control_flow():
    w, seen = tf.Variable([1.0, 2.0]), []

    @tf.function
    def step(x):
        with gw.GradientTape() as tape:
            tape.watch(x)
            total = tf.constant(0.0)
            for _ in tf.range(3):
                if tf.reduce_sum(w) > 0.0:
                    total += tf.reduce_sum(tf.stop_gradient(x) * w)  # <-- here
                else:
                    total += tf.reduce_sum(w)
        seen.extend(tape.explain(total, [x, w]))
        return tape.gradient(total, w)

    np.testing.assert_allclose(step(tf.constant([1.5, 2.5])), [4.5, 7.5])
    about(seen[0], "none", "stop-gradient", test_tape_inside_a_traced_function_with_control_flow)
    about(seen[1], "ok", None)


def test_misuse_of_a_tape_inside_a_traced_function():
    seen = []

    @tf.function
    def step(x, y):
        with gw.GradientTape() as tape:
            tape.watch(y)
            a = tf.reduce_sum(x * y)
            with tape.stop_recording():
                b = tf.reduce_sum(y * 2.0)
        c = tf.reduce_sum(y * 3.0)
        seen.extend(tape.explain(t, s)[0].cause for t, s in [(a, x), (a, y), (b, y), (c, y)])
        return a + b + c

    step(tf.constant(1.0), tf.constant(2.0))
    assert seen == ["not-watched", None, "recording-stopped", "outside-tape"]


def test_sign_is_seen_to_be_flat_while_tracing():
    seen = []

    @tf.function
    def step(x):
        with gw.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.sign(x))
        seen.extend(tape.explain(y, x))
        return y

    step(tf.constant([1.0, 2.0]))
    about(seen[0], "zero", "flat")


# ---- bad use


def test_bad_use_is_told_clearly():
    x = tf.constant(X)
    with gw.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x)
    with pytest.raises(gw.GradwrightError, match="float, not a tensor"):
        tape.explain(3.0, x)
    with pytest.raises(gw.GradwrightError, match="source 0 is ndarray, not a tensor"):
        tape.explain(y, np.ones(3))
    with pytest.raises(gw.GradwrightError, match="the variable"):
        tape.explain(tf.Variable(1.0), x)
    with pytest.raises(gw.GradwrightError, match="never entered"):
        gw.GradientTape().explain(y, x)
    about(tape.explain(y, tf.constant([1.0, 2.0]))[0], "none", "unused")


# ---- nothing stays behind


def the_hooks():
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import context, execute
    from tensorflow.python.framework.ops import EagerTensor

    return (
        tuple(context.context().op_callbacks),
        execute.execute,
        pywrap_tfe.TFE_Py_TapeSetRecordOperation,
        EagerTensor.numpy,
        EagerTensor.__float__,
        hasattr(EagerTensor, "__array_ufunc__"),
        np.asarray,
        tf.GradientTape.gradient,
    )


def test_nothing_stays_after_an_exception():
    before, x = the_hooks(), tf.constant(X)
    with pytest.raises(ZeroDivisionError):
        with gw.GradientTape():
            raise ZeroDivisionError

    def fails(x):
        _ = x * 2.0
        raise KeyError("own")

    with pytest.raises(KeyError):
        gw.explain(fails, x)
    with pytest.raises(KeyError):
        gw.explain(tf.function(fails), x)
    with gw.GradientTape():
        assert the_hooks() != before
    assert the_hooks() == before


def test_threads_do_not_meet():
    before, failures = the_hooks(), []

    def work(number):
        try:
            for _ in range(5):
                x = tf.constant([float(number), 1.0])
                blocked = gw.explain(lambda x: tf.reduce_sum(tf.floor(x)), x)[0]
                about(blocked, "none", "no-gradient")
                with gw.GradientTape() as tape:
                    tape.watch(x)
                    y = tf.reduce_sum(x * x)
                about(tape.explain(y, x)[0], "ok", None)
                assert len(tape._companion.log.nodes) < 10
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert the_hooks() == before


def test_another_thread_is_not_recorded():
    def elsewhere():
        float(tf.reduce_sum(tf.constant([1.0]) * 2.0))

    with gw.GradientTape() as tape:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        _ = tf.constant(1.0) + 1.0
    assert [n.op for n in tape._companion.log.nodes] == ["AddV2"]
    assert not tape._companion.log.exits


def test_keeping_no_values_keeps_no_tensors():
    x = tf.constant(X)
    with gw.GradientTape(keep_values=False) as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.nn.relu(x - 10.0))
    log = tape._companion.log
    assert not log.values
    pickle.dumps([(n.op, n.inputs, n.outputs, n.where) for n in log.nodes])
    about(tape.explain(y, x)[0], "zero", "flat")
