"""A rule itself: what it is, what it tells of itself, how it is declared, opened, and refused."""

# ruff: noqa: PT012
from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import pickle

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from gradwright.places import place_of
from gradwright.rule import Rule


@gw.custom_gradient
def square(x):
    """x squared."""
    return x * x, lambda up: up * 2.0 * x


def line_of(text):
    """The line of this file that holds a text, counted from one."""
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.startswith(text))


def test_a_rule_tells_its_name_place_and_function():
    assert square.name == "square" and square.__name__ == "square" and square.__doc__ == "x squared."
    assert square.where == f"test_rule.py:{line_of('def square')}"
    assert repr(square) == f"<rule square at {square.where}>"
    assert list(inspect.signature(square).parameters) == ["x"]
    assert square.__wrapped__ is square.pair
    output, grad = square.__wrapped__(tf.constant(3.0))
    assert float(output) == 9.0 and float(grad(tf.constant(1.0))) == 6.0


def test_the_forward_has_no_rule():
    x = tf.constant(3.0)
    tripled = gw.custom_gradient(lambda x: (x * x, lambda up: up * 1000.0))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        free, ruled = tripled.forward(x), tripled(x)
    assert float(tape.gradient(free, x)) == 6.0 and float(tape.gradient(ruled, x)) == 1000.0


def test_declaring_with_options():
    @gw.custom_gradient(strict=True, name="my rule", surrogate=True, example=lambda: (1.0,))
    def f(x):
        return x, lambda up: up

    assert (f.name, f.options.strict, f.options.surrogate, f.options.variables) == ("my rule", True, True, "rule")
    assert f.options.example() == (1.0,)
    assert gw.custom_gradient()(f.pair).name == "f"
    with pytest.raises(ValueError, match='"rule" or "autodiff"'):
        gw.custom_gradient(variables="none")
    with pytest.raises(TypeError, match="decorates a function"):
        gw.custom_gradient(3)
    with pytest.raises(gw.GradwrightError, match=r"rule `square`.*is a rule already"):
        gw.custom_gradient(square)


WRONG_PAIRS = {
    "no grad": (lambda x: x * 2.0, "tensor"),
    "nothing": (lambda x: None, "None"),
    "three": (lambda x: (x, lambda up: up, 3), "tuple of 3"),
    "no function": (lambda x: (x, x), "tuple of 2"),
    "list": (lambda x: [x, lambda up: up], "list of 2"),
}


@pytest.mark.parametrize("kind", WRONG_PAIRS)
@pytest.mark.parametrize("mode", ["no tape", "tape", "two tapes", "traced", "open", "forward"])
def test_a_function_that_returns_no_pair_is_refused(kind, mode):
    function, word = WRONG_PAIRS[kind]
    rule, x = gw.custom_gradient(function, name="lone"), tf.constant([1.0, 2.0])
    with pytest.raises(
        gw.GradwrightError, match=r"(?s)rule `lone` .*must return \(output, grad\).*return output, grad"
    ) as e:
        if mode == "no tape":
            rule(x)
        elif mode in ("tape", "two tapes"):
            with tf.GradientTape(persistent=mode == "two tapes") as tape:
                tape.watch(x)
                rule(x)
        elif mode == "traced":
            tf.function(rule)(x)
        else:
            getattr(rule, mode)(x)
    assert word.lower() in str(e.value).lower()


def test_an_error_of_the_users_own_is_theirs():
    class Mine(Exception):
        pass

    def boom(*_):
        raise Mine("here")

    x = tf.constant(1.0)
    with pytest.raises(Mine, match="here"):
        gw.custom_gradient(boom)(x)
    late = gw.custom_gradient(lambda x: (x * 1.0, boom))
    with pytest.raises(Mine, match="here"), tf.GradientTape() as tape:
        tape.watch(x)
        tape.gradient(late(x), x)


def test_after_an_error_in_a_forward_recording_goes_on():
    x = tf.constant(2.0)

    @gw.custom_gradient
    def fails(x):
        raise RuntimeError("no")

    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(RuntimeError):
            fails(x)
        y = square(x) * x
    assert float(tape.gradient(y, x)) == 12.0


def test_every_repair_is_an_error_when_strict():
    x = tf.constant([1.0, 2.0])
    for grad in (lambda up: tf.ones([3, 2]), lambda up: tf.ones([2], tf.float64)):
        loose = gw.custom_gradient(lambda x, grad=grad: (tf.identity(x), grad))
        strict = gw.custom_gradient(loose.pair, strict=True, name="tight")
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y, z = loose(x), strict(x)
        assert tape.gradient(y, x).shape == [2]
        with pytest.raises(gw.GradwrightError, match=r"rule `tight`.*strict"):
            tape.gradient(z, x)


def test_opening_a_call():
    w, frozen = tf.Variable(2.0, name="w"), tf.Variable(5.0, trainable=False)

    @gw.custom_gradient
    def affine(p, k=1.0, *, scale):
        y = w * p["x"] * scale + p["b"] * frozen

        def grad(up):
            return {"p": {"x": up["y"] * w * scale, "b": tf.ones([3, 2], tf.float64) * 5.0}, "scale": up["y"] * 1.0}, [
                up["y"] * 7.0
            ]

        return {"y": y, "n": 3}, grad

    x, b, s = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]), tf.constant(10.0)
    call = affine.open({"x": x, "b": b}, scale=s)
    assert call.names == ["p['b']", "p['x']", "scale"]
    assert [t is e for t, e in zip(call.leaves, [b, x, s], strict=True)] == [True] * 3
    assert set(call.output) == {"y", "n"} and len(call.outputs) in (1, 2)
    assert [v is w for v in call.variables] == [True] and call.variable_names == ["w"]
    ups = [tf.ones_like(o) for o in call.outputs]
    pulled = call.pull(ups)
    assert [g.shape.as_list() for g in pulled.gradients] == [[2], [2], []]
    assert pulled.gradients[0].numpy().tolist() == [15.0, 15.0] and pulled.gradients[2].numpy() == 2.0
    assert dict(pulled.repairs).keys() == {"p['b']", "scale", "w"}
    assert "cast to float32" in [text for name, text in pulled.repairs if name == "p['b']"]
    assert "summed over axis 0" in [text for name, text in pulled.repairs if name == "p['b']"]
    raw = call.pull(ups, fit=False)
    assert raw.gradients[0].shape == [3, 2] and raw.gradients[0].dtype == tf.float64 and raw.repairs == []
    assert raw.raw[0]["p"]["b"] is raw.gradients[0]
    again = call.pull([u + u for u in ups])
    np.testing.assert_allclose(again.gradients[1], 2.0 * pulled.gradients[1])


def test_opening_needs_no_tape_and_leaves_none():
    call = square.open(tf.constant(3.0))
    assert float(call.pull([tf.constant(1.0)]).gradients[0]) == 6.0
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        square.open(x)
        y = x * 1.0
    assert float(tape.gradient(y, x)) == 1.0


def test_a_rule_is_an_ordinary_object():
    assert callable(square) and isinstance(square, Rule)
    assert float(copy.copy(square)(tf.constant(3.0))) == 9.0
    assert pickle.loads(pickle.dumps(square))(tf.constant(3.0)).numpy() == 9.0
    assert copy.deepcopy(square) is not None


def test_a_method_is_a_rule_of_its_instance():
    class Layer:
        k = 3.0

        @gw.custom_gradient
        def double(self, x):
            """Doubled."""
            return x * self.k, lambda up: up * self.k

        @staticmethod
        @gw.custom_gradient
        def static(x):
            return x * 2.0, lambda up: up * 7.0

        @classmethod
        @gw.custom_gradient
        def of_class(cls, x):
            return x * cls.k, lambda up: up * cls.k * 2.0

    layer, x = Layer(), tf.constant(2.0)
    assert layer.double.name == "double" and layer.double.where == Layer.double.where
    assert list(inspect.signature(layer.double).parameters) == ["x"]
    for rule, expected in ((layer.double, 3.0), (Layer.static, 7.0), (layer.static, 7.0), (Layer.of_class, 6.0)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = rule(x)
        assert float(tape.gradient(y, x)) == expected
    assert layer.double.open(x).names == ["x"]


def test_where_points_at_the_users_def():
    def plain(x): ...

    wrapped = functools.partial(functools.partial(plain, 1))
    assert place_of(wrapped).startswith("test_rule.py:")
    assert place_of(len) == "builtin"

    @functools.wraps(plain)
    def around(*args): ...

    assert place_of(around) == place_of(plain)


def test_dataclass_outputs_and_arguments():
    @dataclasses.dataclass
    class Pair:
        a: object
        b: object

    @gw.custom_gradient
    def swap(p):
        return Pair(p.b * 1.0, p.a * 1.0), lambda up: Pair(up.b * 10.0, up.a * 100.0)

    p = Pair(tf.constant(1.0), tf.constant(2.0))
    for trace in (lambda f: f, tf.function):

        def run():
            with tf.GradientTape() as tape:
                tape.watch([p.a, p.b])
                q = swap(p)
                loss = 3.0 * q.a + 5.0 * q.b
            return tape.gradient(loss, [p.a, p.b])

        assert [float(g) for g in trace(run)()] == [50.0, 300.0]


def test_a_rule_without_tensor_arguments_answers_for_its_variables():
    w = tf.Variable(3.0)
    f = gw.custom_gradient(lambda: (w * w, lambda up, variables=None: ([], [up * 100.0])))
    for trace in (lambda f: f, tf.function):

        def run():
            with tf.GradientTape() as tape:
                y = f()
            return tape.gradient(y, w)

        assert float(trace(run)()) == 100.0


def test_a_grad_that_cannot_take_its_upstreams_is_refused_with_their_number():
    two = gw.custom_gradient(lambda x: ((x * 1.0, x * 2.0), lambda upstream: upstream), name="two")
    x = tf.constant([1.0, 2.0])

    def gradient(call):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = call(x)[0]
        return tape.gradient(y, x)

    for call in (two, tf.function(two)):
        with pytest.raises(gw.GradientCountError, match=r"(?s)rule `two` .*gets 2 upstreams.*def grad\(up_0, up_1\)"):
            gradient(call)


def test_an_error_of_the_users_own_stays_his():
    def grad(upstream):
        raise TypeError("mine")

    x = tf.constant([1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = gw.custom_gradient(lambda x: (x * 1.0, grad))(x)
    with pytest.raises(TypeError, match="mine"):
        tape.gradient(y, x)


def test_a_rule_made_in_a_traced_function_is_placed_where_the_user_wrote_it():
    """AutoGraph runs a rewritten copy of the function from a file of its own."""

    def layer(x):
        @gw.custom_gradient
        def inner(x):
            return x * 2.0, lambda up: up

        lone = gw.custom_gradient(lambda x: (x * 2.0, lambda up: up))
        places.append((inner.where, lone.where))
        for _ in tf.range(2):
            x = lone(inner(x))
        return x

    places = []
    layer(tf.constant(1.0))
    tf.function(layer)(tf.constant(1.0))
    assert places[0][0].startswith("test_rule.py:") and set(places) == {places[0]}
