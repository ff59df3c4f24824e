"""Binding of calls: names, statics, structures, whatever the python signature."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

from gradwright.signature import HOLE, Signature
from tests.seams import T, seam

a, b, c = T("a"), T("b"), T("c")


def bind(f, *args, **kwargs):
    return Signature(f).bind(args, kwargs, seam)


def f_plain(x, y): ...
def f_default(x, y=2.0, *, mode="fast", z=None): ...
def f_var(x, *xs, **options): ...
def f_only(x, /, y, *, k): ...


CALLS = [
    # function, args, kwargs, names of tensors, (name, is tensor) of the slots
    (f_plain, (a, b), {}, ["x", "y"], ["x", "y"]),
    (f_plain, (a,), {"y": b}, ["x", "y"], ["x", "y"]),
    (f_plain, (), {"y": b, "x": a}, ["x", "y"], ["x", "y"]),
    (f_plain, (a, 3.0), {}, ["x"], ["x", "y"]),
    (f_plain, (a, "text"), {}, ["x"], ["x", "y"]),
    (f_default, (a,), {}, ["x"], ["x", "y", "mode", "z"]),
    (f_default, (a,), {"z": b}, ["x", "z"], ["x", "y", "mode", "z"]),
    (f_default, (a, b), {"mode": c}, ["x", "y", "mode"], ["x", "y", "mode", "z"]),
    (f_var, (a, b, 1, c), {}, ["x", "xs[0]", "xs[2]"], ["x", "xs[0]", "xs[1]", "xs[2]"]),
    (f_var, (a,), {"scale": b, "flag": True}, ["x", "scale"], ["x", "scale", "flag"]),
    (f_only, (a, b), {"k": c}, ["x", "y", "k"], ["x", "y", "k"]),
    (f_plain, ({"w": a, "b": b}, [c, 1]), {}, ["x['b']", "x['w']", "y[0]"], ["x", "y"]),
    (f_plain, ((a, (b,)), None), {}, ["x[0]", "x[1][0]"], ["x", "y"]),
    (lambda u, v: None, (a, b), {}, ["u", "v"], ["u", "v"]),
    (functools.partial(f_plain, 1.0), (a,), {}, ["y"], ["y"]),
    (functools.partial(f_plain, y=1.0), (a,), {}, ["x"], ["x", "y"]),
]


@pytest.mark.parametrize(("function", "args", "kwargs", "tensors", "slots"), CALLS)
def test_tensors_are_named_by_the_users_own_names(function, args, kwargs, tensors, slots):
    bound = bind(function, *args, **kwargs)
    assert bound.names() == tensors
    assert [slot.name for slot in bound.slots] == slots
    assert len(bound.tensors()) == len(tensors)


def test_what_the_function_receives_is_what_was_given():
    bound = bind(f_default, a, mode="slow")
    assert bound.args == (a,) and bound.kwargs == {"mode": "slow"}
    bound = bind(f_var, a, b, 1, scale=c)
    assert bound.args == (a, b, 1) and bound.kwargs == {"scale": c}
    bound = bind(f_only, a, y=b, k=c)
    assert bound.args == (a, b) and bound.kwargs == {"k": c}


def test_arrays_become_tensors_in_any_place():
    bound = bind(f_plain, np.ones(2), {"w": np.zeros(1), "n": 3})
    assert bound.names() == ["x", "y['w']"]
    assert isinstance(bound.args[0], T) and isinstance(bound.args[1]["w"], T) and bound.args[1]["n"] == 3


def test_the_users_own_container_is_handed_on():
    class Own(dict):
        pass

    own = Own(w=a)
    assert bind(f_plain, own, b).args[0] is own


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((a, b, c), {}), ((a,), {"q": b}), ((a,), {"x": b})])
def test_a_call_that_python_refuses_is_refused_by_python(args, kwargs):
    with pytest.raises(TypeError):
        bind(f_plain, *args, **kwargs)


def test_dataclasses_are_named_by_field():
    @dataclasses.dataclass
    class Params:
        w: object
        name: str
        rest: list

    bound = bind(f_plain, Params(a, "n", [b, c]), 1)
    assert bound.names() == ["x.w", "x.rest[0]", "x.rest[1]"]


def test_a_skeleton_holds_no_tensor():
    for slot in bind(f_plain, {"w": a, "n": 1}, b).slots:
        kept = slot.skeleton()
        assert all(leaf is HOLE or not isinstance(leaf, T) for leaf in kept.leaves)
        assert kept.names() == slot.names()
    assert "T" not in repr(bind(f_plain, {"w": a}, b).slots[0].skeleton().value)


def test_what_takes_a_gradient():
    slots = bind(lambda *xs: None, a, 1.0, 2, True, "s", None, [a], {}, 1j).slots
    assert [slot.takes_gradient for slot in slots] == [True, True, True, False, False, False, True, False, True]


@pytest.mark.parametrize(
    ("function", "simple"), [(f_plain, True), (f_default, False), (f_var, False), (f_only, False), (lambda x: x, True)]
)
def test_a_simple_signature_is_known_as_one(function, simple):
    assert Signature(function).simple is simple


def test_a_builtin_without_signature_takes_everything():
    assert bind(dict.fromkeys, a, b).names() in (["args[0]", "args[1]"], ["iterable", "value"])
    assert bind(max, a, b).names() == ["args[0]", "args[1]"]
