"""Every form of rule in every mode: right, or refused by name; and `docs/modes.md`, which tells the same.

After a change of behaviour: `python -m tests.test_modes` measures anew and writes the page.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from tests.mode_forms import FORMS, Form, X, marked
from tests.modes import MODES, Mode, outcome, run

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "modes.md"
EMPTY = "·"
BEYOND = "TensorFlow fails"


def measured(form: Form, mode: Mode) -> str:
    """How a form fares in a mode: right, refused, or an empty cell where the question has no meaning."""
    if mode.gives not in form.gives or mode.needs & set(form.lacks.split()):
        return EMPTY
    expected = form.gives[mode.gives]
    how = {k: v for k, v in form.how.items() if k != "variables" or mode.gives == "gradients"}
    if mode.gives != "gradients" and "variables" in form.how:
        how["tracked"] = form.how["variables"]
    if isinstance(expected[0], str):
        with pytest.raises(gw.ModeError, match=form.rule.name):
            run(mode.name, form.rule, form.inputs, **how)
        return "refused"
    try:
        return outcome(mode.name, form.rule, form.inputs, expected, **how)
    except (ValueError, TypeError) as error:
        if isinstance(error, gw.GradwrightError) or not fails_without_rule(form, mode, how, type(error)):
            raise
        return BEYOND


def fails_without_rule(form: Form, mode: Mode, how: dict[str, Any], kind: type) -> bool:
    """Whether TensorFlow's own gradient of the same forward fails in this mode, in the same way."""
    try:
        run(mode.name, form.rule.forward, form.inputs, **how)
    except kind:
        return True
    return False


def written() -> dict[tuple[str, str], str]:
    """The cells of the page."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    forms = rows[0][1:]
    return {(row[0], form): cell for row in rows[1:] for form, cell in zip(forms, row[1:], strict=True)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_a_form_in_a_mode(form, mode):
    assert measured(FORMS[form], MODES[mode]) == written()[mode, form]


def test_the_page_has_every_mode_and_form():
    assert set(written()) == {(mode, form) for mode in MODES for form in FORMS}


def test_a_wrong_rule_is_seen_in_every_mode():
    """The test of the tests: a factor off by a tenth fails in each mode."""
    off = gw.custom_gradient(lambda x: (tf.exp(x), lambda up: 3.3 * up * tf.exp(x)), name="off")
    some = [m for m in MODES if MODES[m].gives == "gradients"][::6]
    few = [*some, "forward mode, eager", "eager, order 2"]
    for mode in few:
        with pytest.raises(AssertionError):
            outcome(mode, off, [X], FORMS["closure over the output"].gives[MODES[mode].gives])


@pytest.mark.parametrize("place", ["eager", "tape inside", "tape outside"])
def test_derivatives_of_derivatives_reach_captured_variables(place):
    """y = w x² with gradients marked by 3 and 7: d(dy/dx)/dw = 3·2x, d(dy/dw)/dw = 0, d(dy/dw)/dx = 7·2x."""
    v, x = tf.Variable(2.0), tf.constant(5.0)

    @gw.custom_gradient
    def f(x):
        return v * x * x, lambda up, variables=None: (3.0 * up * 2.0 * v * x, [7.0 * up * x * x])

    call = tf.function(f) if place == "tape outside" else f

    def orders():
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = call(x)
            dx, dv = inner.gradient(y, [x, v])
        zero = tf.UnconnectedGradients.ZERO
        return [dx, dv, *(outer.gradient(g, s, unconnected_gradients=zero) for g in (dx, dv) for s in (x, v))]

    found = (tf.function(orders) if place == "tape inside" else orders)()
    assert [float(g) for g in found] == [60.0, 175.0, 12.0, 30.0, 70.0, 0.0]


def test_a_rule_of_a_rule_and_of_ordinary_ops():
    """sin(f(f(x))·x) with marked f: the chain by hand, in eager mode, traced, and at second order."""
    x = tf.constant(0.3, tf.float64)
    slope = lambda x: 3.0 * np.exp(x)

    def chain(x):
        return tf.sin(marked(marked(x)) * x)

    def first(x):
        inner, outer = np.exp(x), np.exp(np.exp(x))
        return np.cos(outer * x) * (slope(inner) * slope(x) * x + outer)

    for trace in (lambda f: f, tf.function):

        def gradient(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = chain(x)
            return tape.gradient(y, x)

        np.testing.assert_allclose(trace(gradient)(x), first(0.3), rtol=1e-12)


def test_sessions_of_version_one_with_variables_of_their_own():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        v = tf.compat.v1.get_variable("v", initializer=[2.0, 3.0], use_resource=True)
        x = tf.compat.v1.placeholder(tf.float32, [None, 2])
        f = gw.custom_gradient(lambda x: (x * v, lambda up: (3.0 * up * v, [7.0 * up * x])), name="f")
        gradients = tf.gradients(f(x), [x, v])
        session.run(tf.compat.v1.global_variables_initializer())
        dx, dv = session.run(gradients, {x: X})
    np.testing.assert_allclose(dx, np.broadcast_to([6.0, 9.0], X.shape))
    np.testing.assert_allclose(dv, 7.0 * X.sum(0), rtol=1e-6)


def page() -> str:
    """The page, measured now."""
    head = pathlib.Path(__file__).with_name("modes_page.md").read_text()
    lines = ["| mode | " + " | ".join(FORMS) + " |", "|" + "---|" * (len(FORMS) + 1)]
    for name, mode in MODES.items():
        lines.append(f"| {name} | " + " | ".join(measured(form, mode) for form in FORMS.values()) + " |")
    return head + "\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
