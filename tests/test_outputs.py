"""Outputs: their structure without their tensors, and upstreams handed to grad in it."""

from __future__ import annotations

import collections
import dataclasses

import pytest

import gradwright as gw
from gradwright.errors import Fault
from gradwright.outputs import Outputs, named_outputs
from tests.seams import T, seam

a, b = T("a"), T("b")
ua, ub = T("ua"), T("ub")

Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Made:
    y: object
    k: object = 3


CASES = [
    # output, upstreams per tensor, positional arguments of grad
    (a, [ua], [ua]),
    ((a, b), [ua, ub], [ua, ub]),
    ([a, b], [ua, ub], [ua, ub]),
    ((a,), [ua], [ua]),
    (Pair(a, b), [ua, ub], [ua, ub]),
    ((a, "static"), [ua], [ua, None]),
    ({"y": a, "b": b}, [ub, ua], [{"y": ub, "b": ua}]),
    ({"y": a}, [ua], [{"y": ua}]),
    ((a, [b]), [ua, ub], [ua, [ub]]),
]


@pytest.mark.parametrize(("output", "upstreams", "expected"), CASES)
def test_upstreams_come_in_the_structure_of_the_output(output, upstreams, expected):
    outputs = Outputs(output, seam)
    outputs.forget()
    args, kwargs = outputs.spread(upstreams, lambda *ups: ups)
    if isinstance(output, dict):  # optree lists a dict's tensors by sorted key
        expected = [dict(zip(sorted(output), upstreams, strict=True))]
    assert kwargs == {} and list(args) == expected
    assert type(outputs.rebuild([ua, ub][: len(upstreams)])) is type(output if not isinstance(output, T) else ua)


def test_a_dataclass_hands_one_instance():
    outputs = Outputs(Made(a), seam)
    (up,), _ = outputs.spread([ua], lambda up: up)
    assert isinstance(up, Made) and up.y is ua
    again = outputs.rebuild([b])
    assert again.y is b and isinstance(again.k, T | int)


def test_a_dict_may_be_received_by_names_after_its_keys():
    outputs = Outputs({"s": a, "a": b}, seam)
    by = {"a": ua, "s": ub}  # sorted order of the tensors
    for grad in (lambda s, a: 0, lambda a, s: 0, lambda us, ua: 0, lambda d_a, d_s: 0):
        args, kwargs = outputs.spread([ua, ub], grad)
        assert args == []
        assert {name[-1]: value for name, value in kwargs.items()} == by
    args, kwargs = outputs.spread([ua, ub], lambda up: 0)
    assert (args, kwargs) == ([by], {})
    assert list(args[0]) == ["s", "a"] or args[0] == by


@pytest.mark.parametrize("grad", [lambda p, q: 0, lambda s, q: 0, lambda xa, ya: 0, lambda s, a, z: 0])
def test_names_that_do_not_tell_are_refused(grad):
    with pytest.raises(Fault, match="the output is a dict with the keys") as fault:
        Outputs({"s": a, "a": b}, seam).spread([ua, ub], grad)
    assert fault.value.kind is gw.GradientCountError and "upstream['s']" in fault.value.repair


def test_numbers_become_tensors_and_statics_stay():
    outputs = Outputs((a, 2.0, "s", None), seam)
    assert outputs.tensors == [0, 1] and isinstance(outputs.leaves[1], T)
    assert outputs.rebuild([a, b]) == (a, b, "s", None)


def test_nothing_is_kept_of_the_tensors():
    outputs = Outputs((a, "s"), seam)
    outputs.forget()
    assert outputs.leaves == [] and outputs.statics == [None, "s"]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (a, ["output"]),
        ((a, b), ["output[0]", "output[1]"]),
        ({"y": a}, ["output['y']"]),
        (Made(a), ["output.y", "output.k"]),
    ],
)
def test_outputs_have_names(value, names):
    assert named_outputs(value) == names
