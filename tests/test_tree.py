"""Structures: taken apart, named, drawn, aligned."""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import pytest

from gradwright import tree


def leaf(value):
    return isinstance(value, np.ndarray)


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Plain:
    w: object
    b: object = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    inner: Plain
    scale: object


A, B, C = np.array(1.0), np.array(2.0), np.array(3.0)

STRUCTURES = [
    ([A, B], [A, B], ["p[0]", "p[1]"], "[*, *]"),
    ((A,), [A], ["p[0]"], "(*,)"),
    ({"w": A, "b": B}, [B, A], ["p['b']", "p['w']"], "{'w': *, 'b': *}"),
    ({2: A, 1: B}, [B, A], ["p[1]", "p[2]"], "{2: *, 1: *}"),
    (collections.OrderedDict(w=A, b=B), [A, B], ["p['w']", "p['b']"], "{'w': *, 'b': *}"),
    (Pair(A, B), [A, B], ["p.a", "p.b"], "Pair(a=*, b=*)"),
    (Plain(A, B), [A, B], ["p.w", "p.b"], "Plain(w=*, b=*)"),
    (
        Frozen(Plain(A, B), C),
        [A, B, C],
        ["p.inner.w", "p.inner.b", "p.scale"],
        "Frozen(inner=Plain(w=*, b=*), scale=*)",
    ),
    ({"p": [A, (B, Plain(C))]}, [A, B, C, None], None, "{'p': [*, (*, Plain(w=*, b=None))]}"),
]


@pytest.mark.parametrize(("value", "leaves", "names", "drawn"), STRUCTURES)
def test_a_structure_is_taken_apart_named_drawn_and_put_together(value, leaves, names, drawn):
    found, spec = tree.flatten(value, leaf)
    assert [id(f) for f in found] == [id(e) for e in leaves]
    if names is not None:
        assert tree.paths("p", spec) == names
    assert tree.show(value, leaf) == drawn
    again = tree.unflatten(spec, found)
    assert type(again) is type(value) and tree.flatten(again, leaf)[0] == found


@pytest.mark.parametrize(("value", "leaves", "names", "drawn"), STRUCTURES)
def test_a_structure_aligns_with_itself_and_with_nothing(value, leaves, names, drawn):
    assert [id(x) for x in tree.align(value, value, leaf)] == [id(x) for x in leaves]
    assert tree.align(None, value, leaf) == [None] * len(leaves)


def test_alignment_goes_by_key_and_forgives_lists_for_tuples():
    like = {"w": A, "b": (A, B)}
    assert tree.align({"b": [2, 3], "w": 1}, like, leaf) == [2, 3, 1]
    assert tree.align({"b": None, "w": 1}, like, leaf) == [None, None, 1]
    assert tree.align((1, 2), Pair(A, B), leaf) == [1, 2]
    assert tree.align(collections.OrderedDict(w=1, b=(2, 3)), like, leaf) == [2, 3, 1]


@pytest.mark.parametrize(
    ("value", "like"),
    [
        ((A, B), {"w": A, "b": B}),
        ({"w": A}, {"w": A, "b": B}),
        ({"w": A, "b": B, "c": C}, {"w": A, "b": B}),
        ([A], [A, B]),
        (A, [A, B]),
        ([A, B], A),
        ({"w": A, "b": B}, Plain(A, B)),
        ((A, B), Plain(A, B)),
        (Plain(A, B), (A, B)),
    ],
)
def test_another_structure_does_not_align(value, like):
    with pytest.raises(ValueError):
        tree.align(value, like, leaf)


class Mine(dict):
    def __init__(self, **items):
        super().__init__(**items)


class Many(list):
    pass


class Few(tuple):
    pass


@pytest.mark.parametrize(
    "value", [Mine(b=A, a=B), Many([A, B]), Few((A, B)), collections.defaultdict(list, b=A, a=B), [Mine(c=Many([A]))]]
)
def test_subclasses_of_containers_are_structure_and_keep_their_type(value):
    found, spec = tree.flatten(value, leaf)
    assert all(isinstance(f, np.ndarray) for f in found)
    assert [id(f) for f in tree.align(value, value, leaf)] == [id(f) for f in found]
    assert type(tree.unflatten(spec, found)) is type(value)


def test_the_proxies_in_which_modules_keep_structures_are_structure():
    tf = pytest.importorskip("tensorflow")
    module = tf.Module()
    module.p = {"w": A, "b": [B, (C,)]}
    found, spec = tree.flatten(module.p, leaf)
    assert [float(f) for f in found] == [2.0, 3.0, 1.0]
    assert tree.paths("p", spec) == ["p['b'][0]", "p['b'][1][0]", "p['w']"]
    assert tree.align({"b": [2, (3,)], "w": 1}, module.p, leaf) == [2, 3, 1]
    assert tree.unflatten(spec, [2, 3, 1]) == {"w": 1, "b": [2, (3,)]}


def test_keys_of_mixed_types_have_one_order():
    value = {"a": A, 1: B, (2, 3): C}
    found, _ = tree.flatten(value, leaf)
    assert [id(f) for f in tree.align(value, value, leaf)] == [id(f) for f in found]


def test_a_dataclass_is_met_by_many_threads_at_once():
    import threading

    @dataclasses.dataclass
    class Fresh:
        x: object

    results, barrier = [], threading.Barrier(8)

    def work():
        barrier.wait()
        results.append(tree.flatten([Fresh(A)], leaf)[0])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[A]] * 8
