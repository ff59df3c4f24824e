"""Answers for captured variables: every natural form, and a refusal with names for the rest."""

from __future__ import annotations

import functools
import re

import pytest

import gradwright as gw
from gradwright.captured import split, takes_variables
from gradwright.errors import Fault
from tests.seams import T, V, seam

w, b = V("w"), V("b")
frozen, other = V("frozen", trainable=False), V("other")
dx, dw, db, dz = T("dx"), T("dw"), T("db"), T("dz")

FORMS = {
    "list": [dw, db],
    "tuple": (dw, db),
    "by ref": {b.ref(): db, w.ref(): dw},
    "by variable pairs": [(b, db), (w, dw)],
    "by ref pairs": [(b.ref(), db), (w.ref(), dw)],
    "function": lambda vs: [{id(w): dw, id(b): db}[id(v)] for v in vs],
    "function of a mapping": lambda vs: {v.ref(): {id(w): dw, id(b): db}[id(v)] for v in vs},
    "with the frozen one": [dw, dz, db],
    "by ref with the frozen one": {frozen.ref(): dz, w.ref(): dw, b.ref(): db},
    "nothing for one": [dw, None],
}


@pytest.mark.parametrize("inputs", [dx, (dx, dx), {"x": dx}, [dx], None])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_understood(form, inputs):
    found, answers = split((inputs, FORMS[form]), [w, b], [w, frozen, b], seam)
    assert found is inputs
    assert answers == ([dw, None] if form == "nothing for one" else [dw, db])


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (dx, ["`w` and `b`", "no gradient for them"]),
        ((dx, dx), ["`w` and `b`"]),
        (None, ["`w` and `b`"]),
        ((dx, [dw]), ["expected 2 variable gradients", "`w` and `b`", "received 1"]),
        ((dx, [dw, db, dz, dz]), ["received 4"]),
        ((dx, {w.ref(): dw}), ["`b`", "no gradient for it"]),
        ((dx, {w.ref(): dw, b.ref(): db, other.ref(): dz}), ["`other`", "did not read", "`w` and `b`"]),
        ((dx, {"w": dw, "b": db}), ["'w'", "no variable"]),
        ((dx, lambda vs: None), ["`w` and `b`"]),
        ((dx, lambda vs: dw), ["`w` and `b`"]),
    ],
)
def test_what_is_forgotten_or_unknown_is_named_and_the_form_is_shown(returned, words):
    with pytest.raises(Fault) as fault:
        split(returned, [w, b], [w, frozen, b], seam)
    text = f"{fault.value.fact}\n{fault.value.repair}"
    assert fault.value.kind is gw.VariablesError
    assert all(word in text for word in words), text
    assert "return input_gradients, [d_" in text and re.search(r"\{(w|b)\.ref\(\): d_\1\}", text)


def test_the_form_names_no_variables_that_python_could_not_write():
    one, two = V("a/b"), V("a/b")
    with pytest.raises(Fault) as fault:
        split(dx, [one, two], [one, two], seam)
    assert "[d_v for each variable in order of first use], or {v.ref(): d_v}" in fault.value.repair


def test_one_variable_is_told_in_the_singular():
    with pytest.raises(Fault, match="reads `w`, but grad returns no gradient for it"):
        split(dx, [w], [w], seam)


@pytest.mark.parametrize("returned", [dx, (dx, dx), {"x": dx}, [dx, dx, dx], (dx, None), None])
def test_without_variables_nothing_is_split(returned):
    assert split(returned, [], [], seam) == (returned, [])


def test_a_rule_written_for_a_layer_stays_right_when_the_layer_is_frozen():
    for answer in ([dz], [None], {frozen.ref(): dz}, [], lambda vs: [], {}):
        assert split((dx, answer), [], [frozen], seam) == (dx, [])


def test_two_gradients_of_structures_are_not_taken_for_an_answer():
    pair = ([dx, dx], [dx, dx])
    assert split(pair, [], [], seam) == (pair, [])


def named(up, variables=None): ...
def only(up, *, variables): ...
def rest(up, **kwargs): ...
def plain(up): ...
def local(up):
    variables = up
    return variables


class Callable:
    def __call__(self, up, variables=None): ...

    def method(self, up, variables=None): ...

    def bare(self, up): ...


@pytest.mark.parametrize(
    ("grad", "expected"),
    [
        (named, True),
        (only, True),
        (rest, True),
        (plain, False),
        (local, False),
        (lambda up, variables: up, True),
        (lambda *ups: ups, False),
        (Callable(), True),
        (Callable().method, True),
        (Callable().bare, False),
        (functools.partial(named), True),
        (functools.partial(plain), False),
        (functools.partial(named, variables=[]), True),
        (max, False),
    ],
)
def test_whether_grad_wants_the_variables(grad, expected):
    assert takes_variables(grad) is expected


YOUNG = frozenset({id(b)})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [([dw, db], [dw, db]), ([dw], [dw, None]), ({w.ref(): dw}, [dw, None]), ({b.ref(): db, w.ref(): dw}, [dw, db]),
     (lambda vs: [dw, db], [dw, db])],
)  # fmt: skip
def test_a_variable_made_by_the_forward_may_be_answered_for(answer, expected):
    assert split((dx, answer), [w, b], [w, b], seam, YOUNG) == (dx, expected)


@pytest.mark.parametrize("returned", [dx, (dx, dx), [dx, dx, dx], {"x": dx}, None])
def test_temporaries_need_no_answer(returned):
    assert split(returned, [b], [b], seam, YOUNG) == (returned, [None])
    with pytest.raises(Fault, match="reads `w`"):
        split(returned, [w, b], [w, b], seam, YOUNG)
