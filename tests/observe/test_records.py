"""What a record tells of an eager backward; the numbers come from numpy and from the rule's own mathematics."""

import math

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from gradwright.errors import ArgumentError


@gw.custom_gradient
def scale(x, s):
    return x * s, lambda upstream: (upstream * s, upstream * x)


def pull(function, *inputs, upstream=None):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = function(*inputs)
    return tape.gradient(output, inputs, output_gradients=upstream)


def test_one_record_for_each_call_and_backward():
    x, s = tf.constant([[1.0, 0.0], [-2.0, 4.0]]), tf.constant(3.0)
    with gw.observe() as log:
        pull(scale, x, s)
        pull(scale, x, s, upstream=tf.constant([[0.0, 1.0], [2.0, math.inf]]))
    first, second = log.records
    assert (first.rule, first.where, first.call, second.call) == ("scale", scale.where, 0, 1)
    assert first.where.startswith("test_records.py:")
    ups = first.upstream
    assert (ups.shape, ups.dtype, ups.norm, ups.mean, ups.min, ups.max) == ((2, 2), "float32", 2.0, 1.0, 1.0, 1.0)
    assert (ups.zeros, ups.nonfinite, ups.value) == (0, 0, None)
    assert first.gradients["x"].norm == pytest.approx(6.0)
    assert first.gradients["s"].shape == () and first.gradients["s"].mean == 3.0
    assert (second.upstream.zeros, second.upstream.nonfinite, second.upstream.max) == (1, 1, math.inf)


def test_two_backwards_of_one_call_are_two_records():
    x = tf.constant([1.0, 2.0])
    with gw.observe() as log, tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = scale(x, tf.constant(2.0))
    assert not log.records
    with gw.observe() as log:
        tape.gradient(y, x)
        tape.gradient(y, x, output_gradients=tf.constant([3.0, 4.0]))
    assert [r.upstream.norm for r in log.records] == [pytest.approx(math.sqrt(2)), 5.0]


def test_repairs_and_the_shapes_before_and_after():
    with gw.observe() as log:
        pull(scale, tf.ones([2, 3]), tf.constant([1.0, 2.0, 3.0]))
    (record,) = log.records
    assert record.repairs == [("s", "summed over axis 0")]
    assert record.inputs == {"x": (2, 3), "s": (3,)}
    assert record.returned == {"x": (2, 3), "s": (2, 3)} and record.gradients["s"].shape == (3,)


def test_values_only_on_request():
    x, s = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])
    with gw.observe(values=True) as log:
        pull(scale, x, s)
    np.testing.assert_array_equal(log.records[0].upstream.value, [1, 1])
    np.testing.assert_array_equal(log.records[0].gradients["x"].value, [3, 4])


def test_an_unconnected_argument_has_none():
    @gw.custom_gradient
    def first(x, y):
        return x + y, lambda upstream: (upstream, None)

    with gw.observe() as log:
        pull(first, tf.constant(1.0), tf.constant(2.0))
    assert log.records[0].gradients["y"] is None
    assert "None (unconnected)" in log.table()


def test_several_outputs_have_the_structure_of_the_output():
    @gw.custom_gradient
    def both(x):
        return (x, 2 * x), lambda a, b: a + 2 * b

    @gw.custom_gradient
    def keyed(x):
        return {"a": x, "b": 2 * x}, lambda upstream: upstream["a"] + 2 * upstream["b"]

    with gw.observe() as log:
        pull(lambda x: 3 * both(x)[0], tf.constant(1.0))
        pull(lambda x: (lambda out: 5 * out["a"] + 7 * out["b"])(keyed(x)), tf.constant(1.0))
    assert [stats.mean for stats in log.records[0].upstream] == [3.0, 0.0]
    assert isinstance(log.records[0].upstream, tuple)
    assert {k: stats.mean for k, stats in log.records[1].upstream.items()} == {"a": 5.0, "b": 7.0}


def test_nested_arguments_and_captured_variables_by_name():
    v = tf.Variable(2.0, name="weight")

    @gw.custom_gradient
    def rule(parts, mode="fast"):
        def grad(upstream):
            return {"parts": {"a": upstream, "b": None}}, [upstream * 3.0]

        return parts["a"] * v, grad

    with gw.observe() as log, tf.GradientTape() as tape:
        a, b = tf.constant(1.0), tf.constant(2.0)
        tape.watch([a, b])
        tape.gradient(rule({"a": a, "b": b}), v)
    names = log.records[0].gradients
    assert set(names) == {"parts['a']", "parts['b']", "weight"}
    assert names["weight"].mean == 3.0


def test_a_sparse_upstream_is_told_as_the_rule_receives_it():
    with gw.observe() as log:
        pull(lambda x: tf.gather(scale(x, tf.constant(1.0)), [0, 0, 2]), tf.constant([1.0, 2.0, 3.0]))
    upstream = log.records[0].upstream
    assert (upstream.shape, upstream.norm, upstream.zeros) == ((3,), pytest.approx(math.sqrt(5)), 1)


def test_probes_carry_their_name_and_change_nothing():
    x = tf.constant([3.0, 4.0])
    with gw.observe() as log:
        (watched,) = pull(lambda x: tf.reduce_sum(gw.probe(x, "middle") ** 2), x)
    (plain,) = pull(lambda x: tf.reduce_sum(gw.probe(x, "middle") ** 2), x)
    np.testing.assert_array_equal(watched, plain)
    (record,) = log.records
    assert (record.rule, record.upstream.norm) == ("middle", 10.0)
    assert record.where.startswith("test_records.py:")
    assert gw.probe(x, "middle") is x  # no tape looks on


def test_a_probe_in_a_compiled_function_is_placed_where_the_user_wrote_it():
    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(gw.probe(x, "middle") ** 2)
        return tape.gradient(y, x)

    with gw.observe() as log:
        step(tf.constant([3.0, 4.0]))
    line = step.python_function.__code__.co_firstlineno + 4
    assert log.records[0].where == f"test_records.py:{line}"


def test_a_probe_recorded_before_the_log_is_seen_by_it():
    x = tf.constant([3.0, 4.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(gw.probe(x, "early") ** 2)
    with gw.observe() as log:
        tape.gradient(y, x)
    assert [r.rule for r in log.records] == ["early"]


def test_forward_mode_is_no_backward():
    x = tf.constant([3.0, 4.0])
    with gw.observe() as log, tf.autodiff.ForwardAccumulator(x, x) as accumulator:
        y = scale(gw.probe(x, "p"), tf.constant(2.0))
    np.testing.assert_array_equal(accumulator.jvp(y), [6, 8])
    assert not log.records


def test_nothing_is_recorded_outside():
    with gw.observe() as log:
        pass
    pull(scale, tf.constant(1.0), tf.constant(2.0))
    assert log.records == [] and "no gradient flowed" in log.table()


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: gw.observe(every=0), "every="),
        (lambda: gw.observe(every=True), "every="),
        (lambda: gw.observe(statistics="most"), "statistics="),
        (lambda: gw.observe(rules=3), "rules="),
        (lambda: gw.observe(layers="h"), "gw.observe(model, layers=...)"),
        (lambda: gw.observe(True), "values=True"),
        (lambda: gw.observe(scale), "Keras models"),
        (lambda: gw.probe(tf.constant(1.0), ""), "needs a name"),
    ],
)
def test_wrong_use_is_told(call, word):
    with pytest.raises(ArgumentError, match=word.replace("(", r"\(").replace(")", r"\)")):
        call()


def test_one_log_opens_once_at_a_time():
    with gw.observe() as log, pytest.raises(RuntimeError, match="open already"), log:
        pass
