"""What a function has captured, found by name and replaced."""

import functools
import gc
import weakref
from dataclasses import dataclass

import gradwright as gw
from gradwright.frameworks.closures import Walk, cells_of, mentioned, names_read
from gradwright.frameworks.emptied import Emptied

WALK = Walk(lambda value: isinstance(value, complex))
OUTSIDE = 7


def found(function, walk=WALK):
    return list(walk.find(function))


def doubled(function, walk=WALK):
    return walk.put(function, lambda value: 2 * value)


def test_names_follow_the_order_of_mention():
    z, a = 1j, 2j

    def f(x):
        return z + a + OUTSIDE

    assert mentioned(f.__code__) == ("z", "a")  # Python itself sorts them
    assert names_read(f.__code__) == ("z", "a", "OUTSIDE")
    assert found(f) == [("z", 1j), ("a", 2j)]


def test_structures_functions_and_attributes():
    @dataclass
    class Both:
        left: complex
        right: object

    w, both, listed = {"a": 1j, "b": [2j]}, Both(3j, (4j, "text")), [5j]

    def inner(y, k=6j):
        return y + w["a"] + w["b"][0] + k

    def f(x, *, m=7j):
        return inner(x) + both.left + both.right[0] + listed[0] + m

    f.jvp = functools.partial(lambda z, x: z * x, 8j)
    names = dict(found(f))
    assert sorted(z.imag for z in names.values()) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert names["w['a']"] == 1j and names["both.right[0]"] == 4j and names["listed[0]"] == 5j
    other = doubled(f)
    assert other(0) == 2 * f(0) and f(0) == 28j
    assert other.jvp(1) == 16j and f.jvp(1) == 8j


def test_what_holds_nothing_stays_itself():
    calls, z = [], 1j

    def counted():
        calls.append(z)
        return len(calls)

    other = doubled(counted)
    assert other() == 1 and counted() == 2 and calls == [2j, 1j]
    assert doubled(len) is len and doubled("text") == "text"


def test_writing_to_a_cell_still_works():
    count, z = 0, 1j

    def f():
        nonlocal count
        count += 1
        return z

    doubled(f)()
    f()
    assert count == 2


def test_recursion_and_methods():
    z = 1j

    def power(n):
        return 1 if n == 0 else z * power(n - 1)

    assert doubled(power)(3) == (2j) ** 3
    assert power(3) == 1j**3

    class Holder:
        def times(self, x):
            return x * z

    assert doubled(Holder().times)(1) == 2j


def test_a_rule_in_a_closure():
    z = 1j
    rule = gw.custom_gradient(lambda x: (x * z, lambda up: up * z))

    def f(x):
        return rule.forward(x)

    assert found(f) == [("z", 1j)]
    assert doubled(f)(1.0) == 2j and f(1.0) == 1j


def test_containers_in_shared_cells_are_left_alone():
    seen, z = [5j], 1j

    def pair():
        return lambda: (seen, z)

    walk = Walk(WALK.wanted, closed=cells_of(pair))
    assert found(pair(), walk) == [("z", 1j)]
    kept, value = doubled(pair(), walk)()
    assert kept is seen and value == 2j


def test_emptied_and_filled():
    z, n, both = 1j, 3, [2j]

    def plain():
        return z * n

    def deep():
        return z + both[0]

    def cyclic():
        return (z, cyclic)

    for function, captured, values, expected in [
        (plain, [1j], [5j], 15j),
        (deep, [1j, 2j], [3j, 4j], 7j),
        (lambda: n, [], [], 3),
        (len, [], [], None),
    ]:
        emptied = Emptied(function, WALK)
        assert emptied.captured == captured
        assert expected is None or emptied.filled(values)() == expected
    assert plain() == 3j and deep() == 3j
    value, function = Emptied(cyclic, WALK).filled([9j])()
    assert value == 9j and function()[0] == 9j


def test_emptied_keeps_nothing_alive():
    class Value:
        pass

    def closure():
        value = Value()
        return lambda: value

    function = closure()
    watched = weakref.ref(function())
    emptied = Emptied(function, Walk(lambda value: isinstance(value, Value)))
    emptied.captured = []
    del function
    gc.collect()
    assert watched() is None
