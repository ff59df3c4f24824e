"""One record per backward in every mode; the norms follow from d(sum of squares) = 2 x at x = (3, 4)."""

import gc
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from gradwright import events

X = tf.constant([3.0, 4.0])
HALF = pytest.approx(np.sqrt(2.0))


@gw.custom_gradient
def through(x):
    return x, lambda upstream: upstream


def squares(x):
    return tf.reduce_sum(through(x) ** 2)


def inside(function, **options):
    @tf.function(**options)
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    return lambda: run(X)


def outside(function, **options):
    traced = tf.function(function, **options)

    def run():
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = traced(X)
        return tape.gradient(y, X)

    return run


def looped(x):
    return tf.reduce_sum(tf.while_loop(lambda i, q: i < 3, lambda i, q: (i + 1, through(q)), [0, x])[1])


def looped_for_xla(x):
    body = tf.while_loop(lambda i, q: i < 3, lambda i, q: (i + 1, through(q)), [0, x], maximum_iterations=3)
    return tf.reduce_sum(body[1])


def chosen(x):
    return tf.reduce_sum(tf.cond(x[0] > 0, lambda: through(x), lambda: x))


def chosen_in_loop(x):
    def body(i, q):
        return i + 1, tf.cond(i > 0, lambda: through(q), lambda: q)

    return tf.reduce_sum(tf.while_loop(lambda i, q: i < 3, body, [0, x])[1])


def mapped(x):
    return tf.reduce_sum(tf.map_fn(through, x))


def nested():
    return inside(tf.function(squares))


def unused(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = squares(x)
    tape.gradient(y, x)
    return y


def traced(function):
    made = tf.function(function)
    return lambda: made(X)


def by_gradients():
    return traced(lambda x: tf.gradients(squares(x), x)[0])


def rows(x):
    def one(row):
        with tf.GradientTape() as tape:
            tape.watch(row)
            y = tf.reduce_sum(through(row) ** 2)
        return tape.gradient(y, row)

    return tf.vectorized_map(one, tf.stack([x, 2 * x]))


def jacobian_eagerly():
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = through(X) ** 2
    return tape.jacobian(y, X)


def jacobian_inside():
    @tf.function
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = through(x) ** 2
        return tape.jacobian(y, x)

    return lambda: run(X)


def jacobian_outside():
    traced = tf.function(lambda x: through(x) ** 2)

    def run():
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = traced(X)
        return tape.jacobian(y, X)

    return run


def in_a_session():
    def run():
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.constant([3.0, 4.0])
            session.run(tf.gradients(squares(x), x))

    return run


MODES = {
    "inside": (inside(squares), [10.0]),
    "outside": (outside(squares), [10.0]),
    "nested": (nested(), [10.0]),
    "gradient not used": (traced(unused), [10.0]),
    "tf.gradients": (by_gradients(), [10.0]),
    "while, inside": (inside(looped), [HALF] * 3),
    "while, outside": (outside(looped), [HALF] * 3),
    "cond, inside": (inside(chosen), [HALF]),
    "cond, outside": (outside(chosen), [HALF]),
    "cond in while, outside": (outside(chosen_in_loop), [HALF] * 2),
    "map_fn": (inside(mapped), [1.0, 1.0]),
    "unknown shape": (outside(squares, input_signature=[tf.TensorSpec([None])]), [10.0]),
    "unknown rank": (inside(squares, input_signature=[tf.TensorSpec(None)]), [10.0]),
    "XLA, inside": (inside(squares, jit_compile=True), [10.0]),
    "XLA, outside": (outside(squares, jit_compile=True), [10.0]),
    "XLA, while": (inside(looped_for_xla, jit_compile=True), [HALF] * 3),
    "vectorized_map": (lambda: rows(X), [10.0, 20.0]),
    "vectorized_map, inside": (traced(rows), [10.0, 20.0]),
    "jacobian, eager": (jacobian_eagerly, [6.0, 8.0]),
    "jacobian, inside": (jacobian_inside(), [6.0, 8.0]),
    "jacobian, outside": (jacobian_outside(), [6.0, 8.0]),
    "session": (in_a_session(), [10.0]),
}


@pytest.mark.parametrize("mode", MODES)
def test_each_run_is_recorded_also_of_functions_traced_before(mode):
    run, norms = MODES[mode]
    run()
    with gw.observe() as log:
        run()
        assert [r.upstream.norm for r in log.records] == norms
        run()
    run()
    assert [r.upstream.norm for r in log.records] == norms * 2
    assert all(r.gradients["x"].norm == r.upstream.norm and r.rule == "through" for r in log.records)
    with gw.observe(every=len(norms)) as thinned:
        run()
        run()
    assert [r.upstream.norm for r in thinned.records] == norms[:1] * 2 or mode == "session"


@pytest.mark.parametrize("mode", [m for m in MODES if "XLA" not in m])
def test_values_come_from_every_mode(mode):
    run, norms = MODES[mode]
    with gw.observe(values=True) as log:
        run()
    assert [np.linalg.norm(r.upstream.value) for r in log.records] == [pytest.approx(n) for n in norms]
    assert all(r.upstream.shape == r.upstream.value.shape for r in log.records)


@pytest.mark.parametrize("mode", ["XLA, inside", "XLA, outside", "XLA, while"])
def test_values_under_xla_are_refused_by_name(mode):
    with gw.observe(values=True), pytest.raises(gw.ModeError, match=r"`through` .*XLA(.|\n)*values=False"):
        MODES[mode][0]()


def test_vectorised_loops_under_xla_are_refused_by_name():
    run = tf.function(rows, jit_compile=True)
    with gw.observe(), pytest.raises(gw.ModeError, match=r"`through` .*XLA.*vectorised loop"):
        run(X)
    run(X)


def test_xla_says_what_was_overwritten(monkeypatch):
    from gradwright.frameworks import tf_observe_xla

    monkeypatch.setattr(tf_observe_xla, "ROWS", 4)
    run = inside(squares, jit_compile=True)
    with gw.observe() as log:
        for _ in range(6):
            run()
    assert len(log.records) == 4
    assert "2 records of `through`" in log.table()


def test_the_order_is_that_of_the_runs():
    a = tf.function(lambda x: tf.reduce_sum(gw.probe(x, "a") ** 2))
    b = tf.function(lambda x: tf.reduce_sum(gw.probe(x, "b") ** 2), jit_compile=True)
    c = tf.function(lambda x: tf.reduce_sum(gw.probe(x, "c") ** 2), jit_compile=True)
    with gw.observe() as log:
        for function in (b, c, b, a):
            with tf.GradientTape() as tape:
                tape.watch(X)
                y = function(X)
            tape.gradient(y, X)
    assert [r.rule for r in log.records if r.rule != "a"] == ["b", "c", "b"]
    assert [r.call for r in log.records if r.rule == "b"] == [0, 1]


def test_second_order_sees_both_backwards():
    def twice(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = squares(x)
            first = tape.gradient(y, x)
        return outer.gradient(first, x)

    for run in (twice, tf.function(twice)):
        with gw.observe() as log:
            np.testing.assert_array_equal(run(X), [2, 2])
        assert [r.upstream.norm for r in log.records] == [10.0, pytest.approx(np.sqrt(8.0))]


def test_forward_mode_in_functions_is_no_backward():
    @tf.function
    def pushed(x):
        with tf.autodiff.ForwardAccumulator(x, x) as accumulator:
            y = squares(x)
        return accumulator.jvp(y)

    with gw.observe() as log:
        assert float(pushed(X)) == 50.0
        with tf.autodiff.ForwardAccumulator(X, X) as accumulator:
            y = tf.function(squares)(X)
        assert float(accumulator.jvp(y)) == 50.0
    assert not log.records


def test_a_concrete_function_made_inside_is_quiet_afterwards_and_heard_again():
    with gw.observe() as log:
        concrete = tf.function(lambda x: tf.gradients(squares(x), x)[0]).get_concrete_function(X)
        concrete(X)
    concrete(X)
    assert len(log.records) == 1
    with gw.observe() as again:
        concrete(X)
    assert len(again.records) == 1 and len(log.records) == 1


def test_a_concrete_function_made_before_is_told_in_a_note():
    @gw.custom_gradient
    def early(x):
        return x, lambda upstream: upstream

    concrete = tf.function(lambda x: tf.gradients(early(x), x)[0]).get_concrete_function(X)
    with gw.observe() as log:
        concrete(X)
    assert not log.records
    assert "no backward of `early`" in log.table()


def test_without_the_retracing_a_function_traced_before_is_told_in_a_note(monkeypatch):
    from gradwright.frameworks import tf_retrace

    @gw.custom_gradient
    def old(x):
        return x, lambda upstream: upstream

    run = inside(lambda x: tf.reduce_sum(old(x)))
    run()
    monkeypatch.setattr(tf_retrace, "function_context", types.SimpleNamespace())
    with gw.observe() as log:
        run()
        inside(squares)()
    assert [r.rule for r in log.records] == ["through"]
    assert "no backward of `old`" in log.table()


def test_an_unwatched_trace_is_free_of_us():
    traced = tf.function(lambda x: tf.reduce_sum(gw.probe(x, "p") ** 2))
    with gw.observe():
        traced(X)
    graph = traced.get_concrete_function(X).graph
    assert not [op.type for op in graph.get_operations() if op.type == "IdentityN"]


def test_nothing_stays_behind_also_after_an_exception():
    from tensorflow.python.eager.polymorphic_function import function_context

    before = function_context.make_function_context
    log = gw.observe()

    def failing():
        with log:
            inside(squares)()
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert len(log.records) == 1
    assert function_context.make_function_context is before
    assert not events.listeners


def test_logs_nest_and_each_keeps_its_own():
    run = inside(squares)
    with gw.observe() as outer:
        run()
        with gw.observe(every=2) as inner:
            run()
            run()
        run()
    assert (len(outer.records), len(inner.records)) == (4, 1)


def test_a_thread_with_a_log_is_heard_by_it_alone_one_without_by_all():
    found = {}
    ready = threading.Barrier(3)

    def with_own(name):
        with gw.observe() as log:
            ready.wait()
            for _ in range(3):
                inside(lambda x: tf.reduce_sum(gw.probe(x, name) ** 2))()
                with tf.GradientTape() as tape:
                    tape.watch(X)
                    y = gw.probe(X, name)
                tape.gradient(y, X)
        found[name] = [r.rule for r in log.records]

    def without():
        ready.wait()
        inside(lambda x: tf.reduce_sum(gw.probe(x, "worker") ** 2))()

    with gw.observe() as log:
        threads = [threading.Thread(target=with_own, args=(n,)) for n in "ab"] + [threading.Thread(target=without)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {r.rule for r in log.records} == {"worker"}
    for name in "ab":
        assert found[name].count(name) == 6 and set(found[name]) <= {name, "worker"}
    assert not events.listeners


def test_traces_are_shared_between_logs_that_ask_the_same():
    count = []

    @tf.function
    def run(x):
        count.append(1)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = squares(x)
        return tape.gradient(y, x)

    for _ in range(3):
        with gw.observe() as log:
            run(X)
        assert len(log.records) == 1
        run(X)
    assert len(count) == 2


def test_graphs_are_let_go():
    import weakref

    with gw.observe() as log:
        traced = tf.function(lambda x: tf.gradients(squares(x), x)[0])
        traced(X)
        graph = weakref.ref(traced.get_concrete_function(X).graph)
        del traced
    gc.collect()
    assert graph() is None
    assert len(log.records) == 1


def test_a_saved_model_made_inside_works_elsewhere(tmp_path):
    module = tf.Module()
    module.run = tf.function(squares, input_signature=[tf.TensorSpec([2])])
    with gw.observe() as log:
        module.run(X)
        tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = loaded.run(X)
    np.testing.assert_array_equal(tape.gradient(y, X), [6, 8])
    assert not log.records
