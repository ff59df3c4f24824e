"""Modes, second order, forward mode."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from gradwright.frameworks.check_tf_modes import MODES

custom = tf.custom_gradient
X = tf.constant([0.5, -1.0, 2.0])


@gw.custom_gradient
def cube(x):
    return x**3, lambda up: 3.0 * up * x * x


def with_jvp(factor):
    def f(x):
        def grad(up):
            return up * tf.cos(x)

        grad.jvp = lambda t: factor * t * tf.cos(x)
        return tf.sin(x), grad

    return gw.custom_gradient(f)


@pytest.mark.parametrize("mode", [*MODES, "forward", "second-order"])
def test_a_right_rule_in_each_mode(mode):
    report = gw.check(cube, X, modes=(mode,))
    assert report.ok, str(report)
    assert report.modes.get(mode, "right") in ("right", "refused")


def test_all_modes_at_once_and_other_spellings():
    report = gw.check(cube, X, modes=("graph", "xla", "vectorized_map", "forward_mode"))
    assert list(report.modes) == ["function", "jit", "vectorized", "forward"]


def test_an_unknown_mode_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown mode 'grpah'.*'eager'.*'function'"):
        gw.check(cube, X, modes=("grpah",))


def test_a_rule_that_cannot_be_traced():
    pair = lambda x: (x * x, lambda up: up * tf.constant(2.0 * x.numpy()))
    assert gw.check(custom(pair), X).ok
    report = gw.check(custom(pair), X, modes=("eager", "function"))
    assert report.labels == ["mode"] and report.modes == {"eager": "right", "function": "wrong"}


def test_a_rule_that_refuses_a_mode_by_name():
    rule = gw.custom_gradient(lambda x: (x * x, lambda up: up * tf.constant(2.0 * x.numpy())))
    report = gw.check(rule, X, modes=("eager", "function"))
    assert report.ok and report.modes == {"eager": "right", "function": "refused"}
    assert any(note.label == "mode" and "traced" in note.message for note in report.notes)


def test_a_rule_that_differs_when_traced():
    rule = custom(lambda x: (x * x, lambda up: up * (2.0 if tf.executing_eagerly() else 3.0) * x))
    report = gw.check(rule, X, modes=("function",))
    assert report.labels == ["mode"] and "'function'" in report.faults[0].message and report.faults[0].argument == "x"


def test_a_mode_that_the_forward_itself_cannot_take_is_no_mistake():
    f = custom(lambda x: (tf.sin(x) + x.numpy() * 0, lambda up: up * tf.cos(x)))
    report = gw.check(f, X, modes=("jit",))
    assert report.ok and report.modes == {"jit": "not possible"}


def test_variables_in_modes():
    w = tf.Variable([1.0, 2.0, 3.0])
    rule = gw.custom_gradient(lambda x: (x * w, lambda up, variables: (up * w, [up * x])))
    assert gw.check(rule, X, modes=("eager", "persistent", "function", "function-outside", "jit", "saved-model")).ok


@pytest.mark.parametrize("rule", [cube, custom(lambda x: (x**3, lambda up: 3.0 * up * x * x)), lambda x: x**3])
def test_second_order(rule):
    report = gw.check(rule, X, order=2)
    assert report.ok and "second order" in report.proven


@pytest.mark.parametrize(
    "grad", [lambda x, up: 3.0 * up * x.numpy() ** 2, lambda x, up: 3.0 * up * tf.stop_gradient(x) ** 2]
)
def test_a_gradient_that_lost_its_dependence_on_the_input(grad):
    rule = gw.custom_gradient(lambda x: (x**3, lambda up: grad(x, up)))
    assert gw.check(rule, X).ok
    report = gw.check(rule, X, order=2)
    assert report.labels == ["second-order"] and "lost its dependence on `x`" in str(report)


def test_a_gradient_that_lost_its_dependence_on_the_upstream():
    rule = gw.custom_gradient(lambda x: (2.0 * x, lambda up: tf.constant(2.0 * up.numpy())))
    report = gw.check(rule, X, order=2)
    assert report.labels == ["second-order"] and "by the upstream" in str(report)


def test_a_nested_rule_with_a_wrong_second_order():
    inner = custom(lambda x: (tf.cos(x), lambda up: up * tf.sin(x)))  # the sign is wrong
    rule = gw.custom_gradient(lambda x: (tf.sin(x), lambda up: up * inner(x)))
    assert gw.check(rule, X).ok
    assert gw.check(rule, X, order=2).labels == ["second-order"]


def test_forward_mode_of_a_rule_with_its_own_jvp():
    assert "forward and reverse adjoint" in gw.check(with_jvp(1.0), X).proven
    report = gw.check(with_jvp(-1.0), X)
    assert report.labels == ["forward-mode"] and "-1 times the right tangent" in str(report)


def test_several_arguments_in_second_order():
    rule = gw.custom_gradient(
        lambda x, y: (x * tf.sin(y), lambda up: (up * tf.sin(y), up * x * tf.cos(tf.stop_gradient(y))))
    )
    report = gw.check(rule, X, X + 1.0, order=2)
    assert [(f.label, f.argument) for f in report.faults] == [("second-order", "y")]


def test_numbers_agree_with_mathematics():
    report = gw.check(cube, X, order=2, modes=("eager",))
    assert report.ok and np.isfinite(report.detectable)


def sine(fwd, jvp=None):
    f = gw.rule(lambda x: tf.sin(x), name="sine")
    f.defvjp(fwd, lambda x, up: (up * tf.cos(x),))
    return f.defjvp(jvp) if jvp else f


def right_fwd(x):
    return tf.sin(x), x


@pytest.mark.parametrize("broken", [lambda p, t: t[0] * tf.cos(p[0]), lambda p, t: (tf.sin(p[0]), t[0].missing)])
def test_a_jvp_that_cannot_run_is_a_fault(broken):
    report = gw.check(sine(right_fwd, broken), X)
    assert report.labels == ["forward-mode"] and report.faults[0].where.startswith("test_modes_and_orders.py:")


def test_a_jvp_that_runs_in_its_own_precision_only_is_none():
    slope = tf.constant([1.0, 2.0, 3.0])
    report = gw.check(sine(right_fwd, lambda p, t: (tf.sin(p[0]), t[0] * tf.cos(p[0]) + 0.0 * slope)), X)
    assert report.ok, str(report)


@pytest.mark.parametrize(
    "fwd", [lambda x: (tf.cos(x), x), lambda x: (tf.sin(x)[None], x), lambda x: (tf.sin(x) + 1, x)]
)
def test_a_fwd_that_gives_another_value_is_a_fault(fwd):
    report = gw.check(sine(fwd), X)
    assert report.verdict == "wrong" and "fwd gives another" in str(report)


def test_a_fwd_that_is_a_stabler_way_to_write_the_function_is_right():
    f = gw.rule(lambda x: tf.math.log(1.0 + tf.exp(x)))
    f.defvjp(lambda x: (tf.nn.softplus(x), x), lambda x, up: (up * tf.sigmoid(x),))
    report = gw.check(f, tf.constant([-40.0, 0.5, 20.0]))
    assert report.ok, str(report)
