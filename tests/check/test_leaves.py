"""Arguments as named leaves and back."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import pytest

from gradwright.check.leaves import Call

Pair = namedtuple("Pair", "first second")


@dataclass
class Box:
    inside: object
    beside: object


def names(fn, *args, **kwargs):
    return [slot.name for slot in Call.bind(fn, args, kwargs).slots]


def test_names_are_paths():
    f = lambda grads, xs, p, b, *rest, k=0, **more: None
    assert names(f, {"b": 1, "a": 2}, [3, (4,)], Pair(5, 6), Box(7, 8), 9, k=10, z=11) == [
        "grads['a']", "grads['b']", "xs[0]", "xs[1][0]", "p.first", "p.second", "b.inside", "b.beside",
        "rest[0]", "k", "z",
    ]  # fmt: skip


def test_filling_keeps_structures_and_keys():
    call = Call.bind(lambda g, p, b: None, (OrderedDict(b=1, a=2), Pair(3, [4]), Box(5, (6,))), {})
    (g, p, b), kwargs = call.fill([10, 20, 30, 40, 50, 60])
    assert g == {"b": 20, "a": 10} and p == Pair(30, [40]) and b == Box(50, (60,)) and kwargs == {}


def test_keywords_move_to_their_places():
    call = Call.bind(lambda x, s: None, (), {"s": 2, "x": 1})
    assert call.fill([1, 2]) == ((1, 2), {})


def test_a_kept_call_stays_as_it_was_written():
    call = Call.bind(lambda x, s, t=0: None, (1,), {"t": 3, "s": 2}, keep=True)
    assert [slot.name for slot in call.slots] == ["x", "t", "s"]
    assert call.fill([slot.value for slot in call.slots]) == ((1,), {"t": 3, "s": 2})


def test_functions_without_signature_get_numbers():
    assert names(max, 1, 2) == ["args[0]", "args[1]"]


def test_arguments_that_do_not_fit_raise():
    with pytest.raises(TypeError):
        Call.bind(lambda x: None, (1, 2), {})
