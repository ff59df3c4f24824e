"""What rules leave behind: no dead graph, no registry entry, no tensor that the pullback does not use."""

from __future__ import annotations

import gc
import weakref

import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

import gradwright as gw


def registry():
    found = getattr(ops, "gradient_registry", None) or ops._gradient_registry
    return found._registry


@gw.custom_gradient
def doubled(x):
    return x * 2.0, lambda up: up * 0.1


def tape_inside(f):
    @tf.function
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return run


def loop(f):
    def run(x):
        for _ in tf.range(2):
            x = tf.cond(x > 0, lambda x=x: f(x), lambda x=x: x)
        return x

    return run


def second(f):
    @tf.function
    def run(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = f(x)
            first = inner.gradient(y, x)
        return outer.gradient(first, x)

    return run


def outside(f):
    traced = tf.function(lambda x: f(x))

    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = traced(x)
        return tape.gradient(y, x)

    run.get_concrete_function = traced.get_concrete_function
    return run


def forward(f):
    @tf.function
    def run(x):
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = f(x)
        return accumulator.jvp(y)

    return run


def traces(make, times=20):
    """How many graphs live on and how many names stay registered after so many traces that are let go."""

    def once(i):
        traced = make()
        traced(tf.constant(float(i)))
        return weakref.ref(traced.get_concrete_function(tf.TensorSpec([])).graph)

    once(0)  # what is made once a process
    gc.collect()
    before = len(registry())
    graphs = [once(i) for i in range(times)]
    for _ in range(3):
        gc.collect()
    return sum(g() is not None for g in graphs), len(registry()) - before


WAYS = {
    "tape inside": lambda: tape_inside(doubled),
    "tape outside": lambda: outside(doubled),
    "cond in while": lambda: tape_inside(loop(doubled)),
    "second order": lambda: second(doubled),
    "forward mode": lambda: forward(doubled),
    "function in function": lambda: tape_inside(tf.function(lambda x: doubled(x))),
}


@pytest.mark.parametrize("way", WAYS)
def test_twenty_traces_leave_no_graph_and_no_name(way):
    assert traces(WAYS[way], 20 if way == "tape inside" else 6) == (0, 0)


def test_the_count_sees_what_tensorflow_leaves():
    """The test of the test: TensorFlow's own decorator leaves a graph and a name per trace."""
    native = tf.custom_gradient(lambda x: (x * 2.0, lambda up: up * 0.1))
    graphs, names = traces(lambda: tape_inside(native), 4)
    assert graphs > 0 and names >= 4


def test_the_gradient_of_a_function_that_lives_stays_registered():
    kept = outside(doubled)
    for _ in range(3):
        traces(WAYS["tape inside"], 2)
        assert float(kept(tf.constant(3.0))) == pytest.approx(0.1)


class Alive:
    """Which tensors made by a forward are still alive."""

    def __init__(self):
        self.refs = {}

    def __call__(self, name, tensor):
        self.refs[name] = weakref.ref(tensor)
        return tensor

    def names(self):
        gc.collect()
        return {name for name, ref in self.refs.items() if ref() is not None}


@pytest.mark.parametrize("way", ["plain", "keyword", "structure", "variable"])
def test_eager_first_order_keeps_nothing_that_the_pullback_does_not_use(way):
    alive = Alive()
    w = tf.Variable(2.0)

    def body(x):
        a = alive("unused", tf.exp(x))
        b = alive("used", a * 2.0)
        c = alive("unused too", tf.sin(b))
        if way == "variable":
            c = c * w
            return alive("output", c + 1.0), lambda up, variables=None: (up * b, [tf.reduce_sum(up)])
        return alive("output", c + 1.0), (lambda up: {"p": {"x": up * b}}) if way == "structure" else lambda up: up * b

    pair = (lambda p: body(p["x"])) if way == "structure" else (lambda x: body(x))
    f = gw.custom_gradient(pair)
    with tf.GradientTape() as tape:
        source = tf.ones([64])
        tape.watch(source)
        y = {"structure": lambda x: f({"x": x}), "keyword": lambda x: f(x=x)}.get(way, f)(
            alive("argument", source * 1.0)
        )
        loss = tf.reduce_sum(y * 1.0)
        del y
    kept = alive.names()
    assert "used" in kept
    assert not kept & {"unused", "unused too", "argument"}, kept
    # b = 2 exp(1) at ones, and the rule gives up * b
    assert float(tape.gradient(loss, source)[0]) == pytest.approx(2 * 2.718281828, rel=1e-5)


def test_after_the_gradient_nothing_is_kept_at_all():
    alive = Alive()

    @gw.custom_gradient
    def f(x):
        b = alive("used", tf.exp(x))
        return alive("output", b * 1.0), lambda up: up * b

    def run():
        x = alive("input", tf.ones([8]))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    run()
    assert alive.names() == set()


def test_an_unwatched_call_keeps_nothing():
    alive = Alive()
    f = gw.custom_gradient(lambda x: (lambda b: (b * 1.0, lambda up: up * b))(alive("used", tf.exp(x))))
    with tf.GradientTape() as tape:
        y = f(tf.ones([8]))
        assert alive.names() == set()
    assert tape.watched_variables() == () and y is not None


def test_rules_themselves_are_freed():
    def once():
        f = gw.custom_gradient(lambda x: (x * 2.0, lambda up: up))
        tape_inside(f)(tf.constant(1.0))
        with tf.GradientTape() as tape:
            x = tf.constant(1.0)
            tape.watch(x)
            y = f(x)
        tape.gradient(y, x)
        return weakref.ref(f)

    refs = [once() for _ in range(5)]
    gc.collect()
    assert sum(r() is not None for r in refs) <= 1  # AutoGraph and the last traceback may hold one


def test_methods_do_not_keep_their_instances():
    class Layer:
        @gw.custom_gradient
        def f(self, x):
            return x * 2.0, lambda up: up

    layer, ref = Layer(), None
    layer.f(tf.constant(1.0))
    ref = weakref.ref(layer)
    del layer
    gc.collect()
    assert ref() is None
