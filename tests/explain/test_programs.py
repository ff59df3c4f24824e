"""Every program gets its true status, cause and line: eager, traced, from a tape, without values."""

import pytest
import tensorflow as tf

import gradwright as gw
from tests.explain.programs import EAGER, PROGRAMS, TRACED, TRUE_LINE_ELSEWHERE, marked


def true_line(program):
    return marked(TRUE_LINE_ELSEWHERE.get(program.function, program.function))


def agree(program, reason):
    assert (reason.status, reason.cause) == (program.status, program.cause), str(reason)
    if line := true_line(program):
        assert reason.where == line, str(reason)
    if program.status == "ok":
        assert not reason.also, str(reason)
    else:
        assert reason.message and (reason.repair or program.cause == "unused")


def plain_gradient(function, x):
    """The status by a plain tape: the independent oracle."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    gradient = tape.gradient(y, x)
    if gradient is None:
        return "none"
    gradient = tf.convert_to_tensor(gradient)
    if not bool(tf.reduce_all(tf.math.is_finite(gradient))):
        return "nonfinite"
    return "ok" if bool(tf.reduce_any(gradient != 0)) else "zero"


def of_mode(mode):
    return [p for p in PROGRAMS if mode in p.modes]


@pytest.mark.parametrize("program", of_mode(EAGER), ids=repr)
def test_eager(program):
    x = tf.constant(program.x)
    (reason,) = gw.explain(program.function, x)
    agree(program, reason)


@pytest.mark.parametrize("program", of_mode(TRACED), ids=repr)
def test_inside_a_traced_function_the_inner_line(program):
    (reason,) = gw.explain(tf.function(program.function), tf.constant(program.x))
    agree(program, reason)


@pytest.mark.parametrize("program", of_mode(EAGER), ids=repr)
def test_by_the_tape_after_its_gradient_was_taken(program):
    x = tf.constant(program.x)
    with gw.GradientTape() as tape:
        tape.watch(x)
        y = program.function(x)
    tape.gradient(y, x)
    agree(program, tape.explain(y, x)[0])


WITHOUT_VALUES = [p for p in of_mode(EAGER) if p.function.__name__ not in {"masked_half", "inside_a_rule"}]


@pytest.mark.parametrize("program", WITHOUT_VALUES, ids=repr)
def test_keeping_no_values(program):
    (reason,) = gw.explain(program.function, tf.constant(program.x), keep_values=False)
    assert (reason.status, reason.cause) == (program.status, program.cause), str(reason)


@pytest.mark.parametrize("program", [p for p in of_mode(EAGER) if "py_function" not in repr(p)], ids=repr)
def test_the_status_is_the_plain_tapes(program):
    assert plain_gradient(program.function, tf.constant(program.x)) == program.status
