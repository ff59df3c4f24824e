"""Whose function is this, with several frameworks loaded and arguments that do not say."""

import functools
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import gradwright as gw  # noqa: E402
from gradwright.frameworks.named import named_in  # noqa: E402

ONE = {
    "tensorflow": tf.constant(1.0),
    "jax": jnp.float32(1.0),
    "torch": torch.tensor(1.0),
}
HELD = {"p": None}


@dataclass
class Record:
    w: Any


class Slotted:
    __slots__ = ("w",)


class Owner:
    def __init__(self, w):
        self.w = w

    def method(self, x):
        return x * self.w


def slotted(w):
    made = Slotted()
    made.w = w
    return made


def closed(held):
    return lambda x: x * held


def default(w):
    def function(x, *, w=w):
        return x * w

    return function


PLACES = {
    "cell": closed,
    "dict": lambda w: closed({"a": np.ones(2), "w": w}),
    "nested": lambda w: closed([({"w": (w,)},)]),
    "dataclass": lambda w: closed(Record(w)),
    "object": lambda w: closed(Owner(w)),
    "slots": lambda w: closed(slotted(w)),
    "namespace": lambda w: closed(types.SimpleNamespace(w=w)),
    "method": lambda w: Owner(w).method,
    "partial": lambda w: functools.partial(lambda w, x: x * w, w),
    "inner": lambda w: closed(closed({"w": w})),
    "default": default,
    "rule": lambda w: closed(gw.custom_gradient(lambda x: (x * w, lambda up: up * w))),
}


@pytest.mark.parametrize("framework", ONE)
@pytest.mark.parametrize("place", PLACES)
def test_a_tensor_is_found_where_it_is_held(place, framework):
    assert named_in(PLACES[place](ONE[framework])) == framework


def test_a_module_is_found_where_it_is_named():
    def by_import(x):
        from jax import numpy

        return numpy.sin(x)

    def by_helper(x):
        return helper(x)

    def in_grad(x):
        return x, lambda up: jnp.sin(up)

    assert [named_in(f) for f in (by_import, by_helper, in_grad)] == ["jax"] * 3
    assert named_in(lambda x: torch.sin(x)) == "torch"
    assert named_in(lambda x: tf.sin(x)) == "tensorflow"


def helper(x):
    return jnp.sin(x)


def test_a_held_tensor_says_more_than_a_named_module():
    held = {"w": ONE["jax"]}
    assert named_in(lambda x: (tf.sin if HELD["p"] else jnp.sin)(x * held["w"])) == "jax"


def test_an_attribute_is_no_global():
    assert named_in(lambda x: x.torch + jnp.sin(x)) == "jax"


def test_what_leads_in_a_circle_comes_to_an_end():
    round_about = types.SimpleNamespace()
    round_about.again = [round_about]
    assert named_in(closed(round_about)) == "tensorflow"  # nothing speaks: the first that is loaded


def loss(w, hold, read, answered):
    held = hold(w)

    @gw.custom_gradient
    def times(x):
        return x * read(held), lambda up: (up * 2.0, [3 * up * x]) if answered else up * 2.0

    return times(5.0)


@pytest.mark.parametrize(
    ("hold", "read"),
    [(lambda w: {"w": w}, lambda h: h["w"]), (lambda w: [w], lambda h: h[0]), (Record, lambda h: h.w)],
)
def test_a_rule_called_with_a_number_keeps_its_gradient_and_its_refusals(hold, read):
    """y = x w with d_w tripled: nothing but the rule gives 3 x. Without an answer for w it is refused."""
    assert float(jax.grad(loss)(2.0, hold, read, True)) == pytest.approx(15.0)
    with pytest.raises(gw.VariablesError):
        jax.grad(loss)(2.0, hold, read, False)


@pytest.mark.parametrize("hold", [Owner, lambda w: types.SimpleNamespace(w=w), slotted])
def test_what_an_object_hides_is_refused_and_never_passed_through(hold):
    with pytest.raises(gw.VariablesError):
        jax.grad(loss)(2.0, hold, lambda h: h.w, False)
