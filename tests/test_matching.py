"""Gradients are matched by structure and name; what does not match is refused by name, in words."""

from __future__ import annotations

import pytest

import gradwright as gw
from gradwright.errors import Fault
from gradwright.matching import listed, match
from gradwright.signature import Signature
from tests.seams import T, seam

a, b, c = T("a"), T("b"), T("c")
ga, gb, gc = T("ga"), T("gb"), T("gc")


def matched(function, call, returned, takes=None):
    slots = [s.skeleton() for s in Signature(function).bind(call, {}, seam).slots]
    return match(returned, slots, seam, takes)


def two(x, y): ...
def mixed(x, mode, y, flag=True): ...
def one(p): ...
def many(*xs, k=1): ...
def tail(x, n, option=None, other=None): ...


UNDERSTOOD = [
    # function, arguments, what grad returned, the gradients in order of the tensors
    (two, (a, b), (ga, gb), [ga, gb]),
    (two, (a, b), [ga, gb], [ga, gb]),
    (two, (a, b), (ga, None), [ga, None]),
    (two, (a, b), {"y": gb, "x": ga}, [ga, gb]),
    (two, (a, b), None, [None, None]),
    (two, (a, 2.0), ga, [ga]),
    (two, (a, 2.0), (ga, None), [ga]),
    (two, (a, 2.0), (ga, gb), [ga]),  # a rule for tensors, called with a number
    (two, (2.0, b), (ga, gb), [gb]),
    (two, (2.0, b), gb, [gb]),
    (two, (2.0, b), {"x": ga, "y": gb}, [gb]),
    (mixed, (a, "s", b), (ga, gb), [ga, gb]),
    (mixed, (a, "s", b), (ga, None, gb), [ga, gb]),
    (mixed, (a, "s", b), (ga, None, gb, None), [ga, gb]),
    (mixed, (a, "s", b), {"x": ga, "y": gb}, [ga, gb]),
    (mixed, (a, "s", b), {"x": ga, "y": gb, "mode": None}, [ga, gb]),
    (tail, (a, 2), (ga, None, None), [ga]),
    (tail, (a, "n"), (ga, None), [ga]),
    (one, ([a, b],), [ga, gb], [ga, gb]),
    (one, ([a, b],), (ga, gb), [ga, gb]),
    (one, ((a, b),), ([ga, gb],), [ga, gb]),
    (one, ({"w": a, "b": b},), {"b": gb, "w": ga}, [gb, ga]),
    (one, ({"w": a, "b": b},), ({"b": gb, "w": ga},), [gb, ga]),
    (one, ({"w": a, "b": b},), {"p": {"b": gb, "w": ga}}, [gb, ga]),
    (one, ({"w": a, "n": 3},), {"w": ga, "n": None}, [ga]),
    (one, ([a],), [ga], [ga]),
    (two, ({"w": a}, b), ({"w": ga}, gb), [ga, gb]),
    (two, ({"w": a}, b), (None, gb), [None, gb]),
    (two, ([a, b], c), ([ga, None], gc), [ga, None, gc]),
    (many, (a, b), (ga, gb), [ga, gb]),
    (many, (a, b), {"xs[0]": ga, "xs[1]": gb}, [ga, gb]),
    (many, (a, b), {"xs": (ga, gb)}, [ga, gb]),
]


@pytest.mark.parametrize(("function", "call", "returned", "expected"), UNDERSTOOD)
def test_natural_forms_are_understood(function, call, returned, expected):
    found = matched(function, call, returned)
    assert len(found) == len(expected) and all(f is e for f, e in zip(found, expected, strict=True)), found


REFUSED = [
    # function, arguments, what grad returned, words of the message
    (two, (a, b), ga, ["expected 2 gradients, for `x` and `y`", "received 1", "d_x, d_y"]),
    (two, (a, b), (ga,), ["expected 2 gradients", "received 1"]),
    (two, (a, b), (ga, gb, gc), ["expected 2 gradients", "received 3"]),
    (two, (a, b), (), ["received 0"]),
    (
        two,
        (a, 2.0),
        (ga, None, None),
        ["expected 1 gradient, for `x`", "`y` is static and may be left out", "received 3"],
    ),
    (two, (a, b), {"x": ga}, ["none for `y`"]),
    (two, (a, b), {"x": ga, "z": gb}, ["'z'", "no argument"]),
    (two, (a, b), {"x": ga, "Y": gb}, ["'Y'", "did you mean 'y'"]),
    (mixed, (a, "s", b), (ga, gc, gb), ["`mode`", "no tensor"]),
    (one, ({"w": a, "b": b},), (ga, gb), ["`p`", "(*, *)", "{'w': *, 'b': *}"]),
    (one, ({"w": a, "b": b},), {"w": ga}, ["`p`", "{'w': *}", "{'w': *, 'b': *}"]),
    (one, ({"w": a, "b": b},), ga, ["`p`", "structure"]),
    (one, ([a, b],), (ga, gb, gc), ["`p`"]),
    (two, ({"w": a, "b": b}, c), ((ga, gb), gc), ["`x`", "(*, *)", "{'w': *, 'b': *}"]),
    (two, (a, b), ([ga], gb), ["`x`", "[*]"]),
    (many, (a, b), {"xs": (ga,)}, ["`xs` has 2 elements"]),
    (many, (a, b), ga, ["`xs[0]` and `xs[1]`"]),
]


@pytest.mark.parametrize(("function", "call", "returned", "words"), REFUSED)
def test_what_does_not_match_is_refused_by_name(function, call, returned, words):
    with pytest.raises(Fault) as fault:
        matched(function, call, returned)
    assert fault.value.kind is gw.GradientCountError
    text = f"{fault.value.fact}\n{fault.value.repair}"
    assert all(word in text for word in words), text


INTEGERS = [
    # which tensors can have a gradient, what came, what is made of it
    ([True, False], ga, [ga, None]),
    ([True, False], (ga,), [ga, None]),
    ([True, False], (ga, None), [ga, None]),
    ([True, False], (ga, gb), [ga, gb]),  # its fit makes None of it
    ([True, False], {"x": ga}, [ga, None]),
    ([False, True], gb, [None, gb]),
    ([False, True], (gb,), [None, gb]),
    ([False, False], None, [None, None]),
    ([False, False], (), [None, None]),
]


@pytest.mark.parametrize(("takes", "returned", "expected"), INTEGERS)
def test_nothing_need_be_returned_for_integers(takes, returned, expected):
    assert matched(two, (a, b), returned, takes) == expected


def test_the_count_is_told_of_what_needs_a_gradient():
    with pytest.raises(Fault, match=r"expected 1 gradient, for `x`.*`y` is no float and may be left out.*received 3"):
        matched(two, (a, b), (ga, gb, gc), [True, False])


@pytest.mark.parametrize(
    ("names", "text"),
    [([], "no argument"), (["x"], "`x`"), (["x", "w"], "`x` and `w`"), (["x", "w", "b"], "`x`, `w` and `b`")],
)
def test_names_in_a_sentence(names, text):
    assert listed(names) == text
