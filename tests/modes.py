"""One rule through every mode that TensorFlow has.

>>> from tests.modes import MODES, run
>>> run("eager", lambda x: x * x, [np.array([1.0, 2.0])])[0].tolist()      # doctest: +SKIP
[2.0, 4.0]

A mode takes a rule (any function of tensors that gives one or several), its inputs and its upstreams, and gives
numpy arrays, in the order of the inputs and then of `variables`:

- `gives == "gradients"`: the first-order gradients, None where unconnected. The same in each of these modes.
- `gives == "second"`, `"third"`: the gradient of the sum of all gradients; of the sum of all of those.
- `gives == "tangents"`: the tangents of the outputs for `tangents` (ones unless given) of the inputs.

`needs` says what a mode asks of a rule: "rows" (it treats the rows of its inputs independently and each input has
them), "graph" (its forward and its gradient can be traced), "xla" (and
compiled), "saved" (and stored), "values" (only inputs, no captured variables, can be
asked about), "half" (it works in float16 too), "linear" (its gradient is linear in the upstream).
"""

# ruff: noqa: B905, PT017
from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

import gradwright as gw

# Two logical devices, for the mirrored mode; where TensorFlow runs already, that mode has one replica.
with contextlib.suppress(RuntimeError):
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )

Apply = Callable[..., list[Any]]


@dataclass
class Call:
    """What a mode is given."""

    rule: Callable[..., Any]
    xs: list[Any]
    ups: list[Any] | None
    tangents: list[Any]
    variables: list[Any]
    tracked: list[Any]

    def apply(self, *xs: Any) -> list[Any]:
        """The outputs that can carry a gradient, as a flat list."""
        flat = tf.nest.flatten(self.rule(*xs), expand_composites=True)
        return [y for y in map(tf.convert_to_tensor, flat) if carries(y)]

    def upstreams(self, ys: list[Any]) -> list[Any]:
        """One upstream per output, ones unless given."""
        return (
            [tf.ones_like(y) for y in ys] if self.ups is None else [tf.cast(u, y.dtype) for u, y in zip(self.ups, ys)]
        )


@dataclass(frozen=True)
class Mode:
    """A mode of TensorFlow; call it with a `Call`."""

    name: str
    do: Callable[[Call], list[Any]]
    gives: str
    needs: frozenset[str]


MODES: dict[str, Mode] = {}


def mode(name: str, gives: str = "gradients", needs: str = "") -> Callable[..., Any]:
    def add(do: Callable[[Call], list[Any]]) -> Callable[[Call], list[Any]]:
        MODES[name] = Mode(name, do, gives, frozenset(needs.split()))
        return do

    return add


def run(
    name: str,
    rule: Callable[..., Any],
    inputs: Any,
    upstream: Any = None,
    tangents: Any = None,
    variables: Sequence[Any] = (),
    tracked: Sequence[Any] = (),
) -> list[Any]:
    """Run a rule in one mode; gradients for `variables` are asked, `tracked` ones belong to a saved model only."""
    xs = [tf.convert_to_tensor(x) for x in (inputs if isinstance(inputs, list | tuple) else [inputs])]
    ups = upstream if upstream is None or isinstance(upstream, list | tuple) else [upstream]
    given = [tf.ones_like(x) for x in xs] if tangents is None else [tf.convert_to_tensor(t) for t in tangents]
    call = Call(rule, xs, None if ups is None else [np.asarray(u) for u in ups], given, list(variables), list(tracked))
    return [None if g is None else np.asarray(tf.convert_to_tensor(g)) for g in MODES[name].do(call)]


def names(gives: str = "gradients", lacks: str = "") -> list[str]:
    """The modes of a kind, without those that need what a rule lacks ("rows graph values")."""
    return [m.name for m in MODES.values() if m.gives == gives and not m.needs & set(lacks.split())]


def outcome(
    name: str, rule: Callable[..., Any], inputs: Any, expected: Sequence[Any], rtol: float = 1e-5, **how: Any
) -> str:
    """ "right", or "refused" by a ModeError that names the rule; anything else is an AssertionError."""
    try:
        found = run(name, rule, inputs, **how)
    except gw.ModeError as error:
        assert rule.name in str(error), f"{name}: the refusal does not name the rule: {error}"  # type: ignore[attr-defined]
        return "refused"
    rtol = max(rtol, 4e-3) if "float16" in name else rtol
    assert len(found) == len(expected), f"{name}: {len(found)} results for {len(expected)}"
    for i, (f, e) in enumerate(zip(found, expected)):
        if MODES[name].gives in ("second", "third"):  # beyond first order, nothing and zeros say the same
            f, e = (f, np.zeros_like(f)) if e is None and f is not None else (f, e)
            f, e = (np.zeros_like(e), e) if f is None and e is not None else (f, e)
        assert (f is None) == (e is None), f"{name}: number {i} is {f}, expected {e}"
        if e is not None:
            e = np.asarray(e)
            assert f.shape == e.shape, f"{name}: number {i} has shape {f.shape}, expected {e.shape}"
            np.testing.assert_allclose(f, e, rtol=rtol, atol=rtol * 1e-2, err_msg=f"{name}: number {i}")
    return "right"


def carries(tensor: Any) -> bool:
    return tensor.dtype.is_floating or tensor.dtype.is_complex


def watched(tape: Any, xs: Sequence[Any]) -> None:
    tape.watch([x for x in xs if carries(x)])


def some(gradients: list[Any]) -> list[Any]:
    return [tf.convert_to_tensor(g) for g in gradients if g is not None]


def reverse(call: Call, xs: Sequence[Any], apply: Apply | None = None, persistent: bool = False) -> list[Any]:
    """The gradients by one tape."""
    with tf.GradientTape(persistent=persistent) as tape:
        watched(tape, xs)
        ys = (apply or call.apply)(*xs)
    return tape.gradient(ys, [*xs, *call.variables], output_gradients=call.upstreams(ys))


def second(call: Call, xs: Sequence[Any], first: Callable[..., list[Any]] | None = None) -> list[Any]:
    """The gradient of the sum of the gradients."""
    with tf.GradientTape() as tape:
        watched(tape, xs)
        gradients = some(first(*xs) if first else reverse(call, xs)[: len(xs)])
    return tape.gradient(gradients, list(xs))


def third(call: Call, xs: Sequence[Any]) -> list[Any]:
    """The gradient of the sum of those."""
    with tf.GradientTape() as tape:
        watched(tape, xs)
        gradients = some(second(call, xs))
    return tape.gradient(gradients, list(xs))


def function(python: Callable[..., Any], **options: Any) -> Any:
    """A traced function of the inputs, by AutoGraph as users have it."""
    return tf.function(python, **options)


# ---------------------------------------------------------------------------------------------- eager and functions


@mode("eager")
def _(call: Call) -> list[Any]:
    return reverse(call, call.xs)


@mode("eager, persistent tape")
def _(call: Call) -> list[Any]:
    with tf.GradientTape(persistent=True) as tape:
        watched(tape, call.xs)
        ys = call.apply(*call.xs)
    ups, sources = call.upstreams(ys), [*call.xs, *call.variables]
    first, again = (tape.gradient(ys, sources, output_gradients=ups) for _ in range(2))
    for f, a in zip(first, again):
        assert f is None or np.array_equal(tf.convert_to_tensor(f), tf.convert_to_tensor(a), equal_nan=True)
    return again


@mode("eager, two tapes side by side")
def _(call: Call) -> list[Any]:
    with tf.GradientTape():
        return reverse(call, call.xs)


def _specs(xs: Sequence[Any], kind: str) -> list[Any]:
    shapes = {"shapes": lambda x: [None] * x.shape.rank, "rank": lambda x: None}[kind]
    return [tf.TensorSpec(shapes(x), x.dtype) for x in xs]


def _cond(apply: Apply) -> Apply:
    return lambda *xs: tf.cond(
        tf.reduce_all(tf.equal(xs[0], xs[0])), lambda: apply(*xs), lambda: [tf.zeros_like(y) for y in apply(*xs)]
    )


def _while(apply: Apply) -> Apply:
    def looped(*xs: Any) -> list[Any]:
        empty = [tf.zeros_like(y) for y in apply(*xs)]
        turns = tf.where(tf.reduce_all(tf.equal(xs[0], xs[0])), 2, 0)
        return list(tf.while_loop(lambda i, *_: i < turns, lambda i, *_: (i + 1, *apply(*xs)), [0, *empty]))[1:]

    return looped


def _map(apply: Apply) -> Apply:
    def mapped(*xs: Any) -> list[Any]:
        specs = [tf.TensorSpec(y.shape, y.dtype) for y in apply(*[x[0] for x in xs])]
        return tf.map_fn(lambda rows: apply(*rows), list(xs), fn_output_signature=specs)

    return mapped


def _switch(apply: Apply) -> Apply:
    def switched(*xs: Any) -> list[Any]:
        zero = lambda: [tf.zeros_like(y) for y in apply(*xs)]
        index = tf.where(tf.reduce_all(tf.equal(xs[0], xs[0])), 1, 0)
        return tf.switch_case(index, [zero, lambda: apply(*xs), zero])

    return switched


def _same(apply: Apply) -> Apply:
    return apply


PLACES: list[tuple[str, Callable[[Apply], Apply], dict[str, Any], str]] = [
    ("function", _same, {}, "graph"),
    ("unknown shapes", _same, {"specs": "shapes"}, "graph"),
    ("unknown rank", _same, {"specs": "rank"}, "graph"),
    ("jit_compile", _same, {"jit_compile": True}, "graph xla"),
    ("jit_compile, unknown shapes", _same, {"jit_compile": True, "specs": "shapes"}, "graph xla"),
    ("cond", _cond, {}, "graph"),
    ("while", _while, {}, "graph"),
    ("map_fn", _map, {}, "graph rows"),
    ("switch_case", _switch, {}, "graph"),
    ("cond in cond", lambda a: _cond(_cond(a)), {}, "graph"),
    ("cond in while", lambda a: _while(_cond(a)), {}, "graph"),
    ("while in cond", lambda a: _cond(_while(a)), {}, "graph"),
    ("while in while", lambda a: _while(_while(a)), {}, "graph"),
    ("cond in map_fn", lambda a: _map(_cond(a)), {}, "graph rows"),
    ("map_fn in cond", lambda a: _cond(_map(a)), {}, "graph rows"),
    ("switch_case in while", lambda a: _while(_switch(a)), {}, "graph"),
    ("while, unknown shapes", _while, {"specs": "shapes"}, "graph"),
    ("function in function", lambda a: tf.function(lambda *xs: a(*xs)), {}, "graph"),
    ("function in while", lambda a: _while(tf.function(lambda *xs: a(*xs))), {}, "graph"),
    ("recompute_grad", lambda a: tf.recompute_grad(lambda *xs: a(*xs)), {}, "graph values"),
]


def _place(name: str, wrap: Callable[[Apply], Apply], options: dict[str, Any], needs: str) -> None:
    def made(call: Call, python: Callable[..., Any]) -> Any:
        rest = dict(options)
        if "specs" in rest:
            rest["input_signature"] = _specs(call.xs, rest.pop("specs"))
        return function(python, **rest)

    @mode(f"{name}, tape inside", needs=needs)
    def _(call: Call) -> list[Any]:
        return made(call, lambda *xs: reverse(call, xs, wrap(call.apply)))(*call.xs)

    @mode(f"{name}, tape outside", needs=needs)
    def _(call: Call) -> list[Any]:
        wrapped = wrap(call.apply)
        return reverse(call, call.xs, made(call, lambda *xs: wrapped(*xs)))


for _each in PLACES:
    _place(*_each)


def _in_session(call: Call, build: Callable[..., list[Any]]) -> list[Any]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        xs = [tf.compat.v1.placeholder(x.dtype, x.shape) for x in call.xs]
        found = build(xs)
        kept = [tf.convert_to_tensor(g) for g in found if g is not None]
        values = iter(session.run(kept, dict(zip(xs, [x.numpy() for x in call.xs]))))
        return [None if g is None else next(values) for g in found]


def _v1_gradients(call: Call, xs: list[Any]) -> list[Any]:
    ys = call.apply(*xs)
    return tf.gradients(ys, xs, grad_ys=call.upstreams(ys))


@mode("v1 graph, tf.gradients", needs="graph values")
def _(call: Call) -> list[Any]:
    return _in_session(call, lambda xs: _v1_gradients(call, xs))


@mode("v1 graph, tape", needs="graph values")
def _(call: Call) -> list[Any]:
    return _in_session(call, lambda xs: reverse(call, xs))


# ------------------------------------------------------------------------------------------------------ vectorised


def _contract(
    call: Call, persistent: Callable[[Any, Any, Any], Any], xs: Sequence[Any], batch: bool = False
) -> list[Any]:
    """The gradients as upstreams times Jacobians."""
    with tf.GradientTape(persistent=True) as tape:
        watched(tape, xs)
        ys = [y[:, None] if batch and len(y.shape) == 1 else y for y in call.apply(*xs)]
    sources = [*xs, *call.variables]
    totals: list[Any] = [None] * len(sources)
    for y, up in zip(ys, call.upstreams(ys)):
        up = tf.reshape(up, tf.shape(y))
        jacobians = [persistent(tape, y, s) if carries(s) else None for s in sources]
        for i, jacobian in enumerate(jacobians):
            if jacobian is not None:
                ones = tf.ones([len(jacobian.shape) - len(up.shape)], tf.int32)
                weights = tf.reshape(up, tf.concat([tf.shape(up), ones], 0))
                part = tf.reduce_sum(weights * jacobian, list(range(1 if batch else 0, len(up.shape))))
                totals[i] = part if totals[i] is None else totals[i] + part
    return totals


@mode("jacobian", needs="linear")
def _(call: Call) -> list[Any]:
    return _contract(call, lambda t, y, x: t.jacobian(y, x), call.xs)


@mode("jacobian, no pfor", needs="linear")
def _(call: Call) -> list[Any]:
    return _contract(call, lambda t, y, x: t.jacobian(y, x, experimental_use_pfor=False), call.xs)


@mode("jacobian in function", needs="graph linear")
def _(call: Call) -> list[Any]:
    return function(lambda *xs: _contract(call, lambda t, y, x: t.jacobian(y, x), xs))(*call.xs)


def _batch_jacobian(tape: Any, y: Any, x: Any) -> Any:
    return tape.batch_jacobian(y, x)


@mode("jacobian, unknown shapes", needs="graph linear")
def _(call: Call) -> list[Any]:
    run = lambda *xs: _contract(call, lambda t, y, x: t.jacobian(y, x), xs)
    return function(run, input_signature=_specs(call.xs, "shapes"))(*call.xs)


@mode("batch_jacobian", needs="rows values linear")
def _(call: Call) -> list[Any]:
    return _contract(call, _batch_jacobian, call.xs, batch=True)


@mode("batch_jacobian in function", needs="rows graph values linear")
def _(call: Call) -> list[Any]:
    return function(lambda *xs: _contract(call, _batch_jacobian, xs, batch=True))(*call.xs)


def _vectorized(apply: Apply) -> Apply:
    return lambda *xs: tf.vectorized_map(lambda rows: apply(*rows), tuple(xs))


@mode("vectorized_map, gradient through", needs="rows graph")
def _(call: Call) -> list[Any]:
    return reverse(call, call.xs, _vectorized(call.apply))


@mode("vectorized_map in function, gradient through", needs="rows graph")
def _(call: Call) -> list[Any]:
    return function(lambda *xs: reverse(call, xs, _vectorized(call.apply)))(*call.xs)


@mode("vectorized_map in function, tape outside", needs="rows graph")
def _(call: Call) -> list[Any]:
    return reverse(call, call.xs, function(lambda *xs: _vectorized(call.apply)(*xs)))


@mode("vectorized_map, unknown shapes", needs="rows graph")
def _(call: Call) -> list[Any]:
    run = lambda *xs: reverse(call, xs, _vectorized(call.apply))
    return function(run, input_signature=_specs(call.xs, "shapes"))(*call.xs)


@mode("vectorized_map, gradient inside", needs="rows graph values")
def _(call: Call) -> list[Any]:
    ups = call.upstreams(call.apply(*call.xs))

    def row(parts: Any) -> Any:
        xs, own = parts
        with tf.GradientTape() as tape:
            watched(tape, xs)
            ys = call.apply(*xs)
        found = tape.gradient(ys, list(xs), output_gradients=list(own))
        return [tf.zeros_like(x) if g is None else g for g, x in zip(found, xs)]

    live = [carries(x) for x in call.xs]
    found = tf.vectorized_map(row, (tuple(call.xs), tuple(ups)))
    return [g if alive else None for g, alive in zip(found, live)]


# ------------------------------------------------------------------------------------------------ orders two, three

for _name, _needs, _do in [
    ("eager, order 2", "", lambda call: second(call, call.xs)),
    ("function, order 2, both tapes inside", "graph", lambda call: function(lambda *xs: second(call, xs))(*call.xs)),
    ("function, order 2, outer tape outside", "graph",
     lambda call: second(call, call.xs, function(lambda *xs: reverse(call, xs)[: len(xs)]))),
    ("function, order 2, both tapes outside", "graph",
     lambda call: _second_of(call, function(lambda *xs: call.apply(*xs)))),
    ("jit_compile, order 2", "graph xla",
     lambda call: function(lambda *xs: second(call, xs), jit_compile=True)(*call.xs)),
    ("unknown shapes, order 2", "graph",
     lambda call: function(lambda *xs: second(call, xs), input_signature=_specs(call.xs, "shapes"))(*call.xs)),
    ("cond, order 2", "graph", lambda call: function(lambda *xs: _second_of(call, _cond(call.apply), xs))(*call.xs)),
    ("while, order 2", "graph", lambda call: function(lambda *xs: _second_of(call, _while(call.apply), xs))(*call.xs)),
    ("while, order 2, both tapes outside", "graph",
     lambda call: _second_of(call, function(lambda *xs: _while(call.apply)(*xs)))),
    ("v1 graph, order 2", "graph values",
     lambda call: _in_session(call, lambda xs: tf.gradients(some(_v1_gradients(call, xs)), xs))),
]:  # fmt: skip
    mode(_name, "second", _needs)(_do)


def _second_of(call: Call, apply: Apply, xs: Sequence[Any] | None = None) -> list[Any]:
    return second(call, call.xs if xs is None else xs, lambda *inner: reverse(call, inner, apply)[: len(inner)])


@mode("eager, persistent tapes, order 2", "second")
def _(call: Call) -> list[Any]:
    with tf.GradientTape(persistent=True) as outer:
        watched(outer, call.xs)
        gradients = some(reverse(call, call.xs, persistent=True)[: len(call.xs)])
    return outer.gradient(gradients, call.xs)


@mode("eager, order 2 on one persistent tape", "second")
def _(call: Call) -> list[Any]:
    with tf.GradientTape(persistent=True) as tape:
        watched(tape, call.xs)
        ys = call.apply(*call.xs)
        gradients = some(tape.gradient(ys, call.xs, output_gradients=call.upstreams(ys)))
    return tape.gradient(gradients, call.xs)


mode("eager, order 3", "third")(lambda call: third(call, call.xs))
mode("function, order 3", "third", "graph")(lambda call: function(lambda *xs: third(call, xs))(*call.xs))
mode("jit_compile, order 3", "third", "graph xla")(
    lambda call: function(lambda *xs: third(call, xs), jit_compile=True)(*call.xs)
)


# ---------------------------------------------------------------------------------------------------- forward mode


def forward(call: Call, xs: Sequence[Any], apply: Apply | None = None) -> list[Any]:
    """The tangents of the outputs."""
    pairs = [(x, t) for x, t in zip(xs, call.tangents) if carries(x)]
    with tf.autodiff.ForwardAccumulator([x for x, _ in pairs], [t for _, t in pairs]) as accumulator:
        ys = (apply or call.apply)(*xs)
    return accumulator.jvp(ys)


def _forward_over_reverse(call: Call, xs: Sequence[Any], apply: Apply | None = None) -> list[Any]:
    pairs = [(x, t) for x, t in zip(xs, call.tangents) if carries(x)]
    with tf.autodiff.ForwardAccumulator([x for x, _ in pairs], [t for _, t in pairs]) as accumulator:
        gradients = reverse(call, xs, apply)[: len(xs)]
    return [None if g is None else accumulator.jvp(tf.convert_to_tensor(g)) for g in gradients]


def _reverse_over_forward(call: Call, xs: Sequence[Any], apply: Apply | None = None) -> list[Any]:
    with tf.GradientTape() as tape:
        watched(tape, xs)
        pushed = [t for t in forward(call, xs, apply) if t is not None]
    return tape.gradient(pushed, list(xs), output_gradients=call.upstreams(pushed))


for _name, _needs, _gives, _do in [
    ("forward mode, eager", "", "tangents", lambda call: forward(call, call.xs)),
    ("forward mode, accumulator in function", "graph", "tangents",
     lambda call: function(lambda *xs: forward(call, xs))(*call.xs)),
    ("forward mode, accumulator outside function", "graph", "tangents",
     lambda call: forward(call, call.xs, function(lambda *xs: call.apply(*xs)))),
    ("forward mode, jit_compile", "graph xla", "tangents",
     lambda call: function(lambda *xs: forward(call, xs), jit_compile=True)(*call.xs)),
    ("forward mode, unknown shapes", "graph", "tangents",
     lambda call: function(lambda *xs: forward(call, xs), input_signature=_specs(call.xs, "shapes"))(*call.xs)),
    ("forward mode, cond", "graph", "tangents",
     lambda call: function(lambda *xs: forward(call, xs, _cond(call.apply)))(*call.xs)),
    ("forward mode, while", "graph", "tangents",
     lambda call: function(lambda *xs: forward(call, xs, _while(call.apply)))(*call.xs)),
    ("forward mode, cond, accumulator outside", "graph", "tangents",
     lambda call: forward(call, call.xs, function(lambda *xs: _cond(call.apply)(*xs)))),
    ("forward mode, while, accumulator outside", "graph", "tangents",
     lambda call: forward(call, call.xs, function(lambda *xs: _while(call.apply)(*xs)))),
    ("forward mode, vectorized_map", "graph rows", "tangents",
     lambda call: forward(call, call.xs, _vectorized(call.apply))),
    ("forward over reverse, eager", "", "second", lambda call: _forward_over_reverse(call, call.xs)),
    ("forward over reverse, in function", "graph", "second",
     lambda call: function(lambda *xs: _forward_over_reverse(call, xs))(*call.xs)),
    ("forward over reverse, accumulator outside", "graph", "second",
     lambda call: _forward_over_reverse(call, call.xs, function(lambda *xs: call.apply(*xs)))),
    ("reverse over forward, eager", "", "second", lambda call: _reverse_over_forward(call, call.xs)),
    ("reverse over forward, in function", "graph", "second",
     lambda call: function(lambda *xs: _reverse_over_forward(call, xs))(*call.xs)),
]:  # fmt: skip
    mode(_name, _gives, _needs)(_do)


# ------------------------------------------------------------------------------------- Keras, strategies, saved models


@mode("Keras functional model", needs="rows graph values")
def _(call: Call) -> list[Any]:
    import keras

    places = [keras.Input(x.shape[1:], dtype=x.dtype.name) for x in call.xs]
    model = keras.Model(places, call.rule(*places))
    return reverse(call, call.xs, lambda *xs: [y for y in tf.nest.flatten(model(list(xs))) if carries(y)])


@mode("Keras subclassed layer", needs="graph")
def _(call: Call) -> list[Any]:
    import keras

    class Layer(keras.layers.Layer):
        def call(self, *xs: Any) -> Any:
            return call.apply(*xs)

    layer = Layer(dtype=call.xs[0].dtype.name)
    return reverse(call, call.xs, lambda *xs: layer(*xs))


def _fit(call: Call, policy: str, **compiled: Any) -> list[Any]:
    """One step of gradient descent with rate one: the weights (the inputs) lose their gradients."""
    import keras

    class Weights(keras.Model):
        def build(self, _: Any) -> None:
            dtype = "float32" if "mixed" in policy else policy
            live = [x for x in call.xs if carries(x)]
            self.own = [self.add_weight(shape=x.shape, dtype=dtype, initializer="zeros") for x in live]

        def call(self, one: Any) -> Any:
            own = iter(self.own)
            xs = [tf.convert_to_tensor(next(own)) if carries(x) else x for x in call.xs]
            ys = call.apply(*xs)
            parts = [tf.reduce_sum(tf.cast(u * y, tf.float32)) for u, y in zip(call.upstreams(ys), ys)]
            return tf.add_n(parts) * tf.cast(one, tf.float32)

    one = np.ones((1, 1), "float32")
    model = Weights(dtype=policy)
    model.build((1, 1))
    before = [x.numpy() for x in call.xs if carries(x)]
    for weight, value in zip(model.own, before):
        weight.assign(value)
    model.compile(
        keras.optimizers.SGD(1.0), loss=lambda true, made: tf.reduce_sum(made), auto_scale_loss=False, **compiled
    )
    model.fit(one, one, epochs=1, verbose=0)
    found = iter(b - w.numpy() for b, w in zip(before, model.own))
    return [next(found) if carries(x) else None for x in call.xs]


mode("Keras fit", needs="graph values")(lambda call: _fit(call, call.xs[0].dtype.name))
mode("Keras fit, eager", needs="values")(lambda call: _fit(call, call.xs[0].dtype.name, run_eagerly=True))
mode("Keras fit, mixed_float16", needs="graph values half")(lambda call: _fit(call, "mixed_float16"))


def _mirrored(call: Call, traced: bool) -> list[Any]:
    strategy = tf.distribute.MirroredStrategy([d.name for d in tf.config.list_logical_devices("CPU")][:2])
    step = lambda: strategy.run(lambda *xs: reverse(call, xs), call.xs)
    found = (function(step) if traced else step)()
    replicas = [strategy.experimental_local_results(g) for g in found]
    for values in replicas:
        assert all(v is None or np.array_equal(v, values[0], equal_nan=True) for v in values)
    return [values[0] for values in replicas]


mode("MirroredStrategy", needs="values")(lambda call: _mirrored(call, False))
mode("MirroredStrategy, in function", needs="graph values")(lambda call: _mirrored(call, True))


def _saved(call: Call, wrap: Callable[[Apply], Apply]) -> list[Any]:
    module = tf.Module()
    module.others, module.variables_of_rule = list(call.tracked), list(call.variables)  # type: ignore[attr-defined]
    wrapped = wrap(call.apply)
    specs = [tf.TensorSpec(x.shape, x.dtype) for x in call.xs]
    module.serve = tf.function(lambda *xs: wrapped(*xs), input_signature=specs)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder)
        loaded = tf.saved_model.load(folder)
    call.variables = list(loaded.variables_of_rule)
    return reverse(call, call.xs, lambda *xs: tf.nest.flatten(loaded.serve(*xs)))


mode("SavedModel", needs="graph saved")(lambda call: _saved(call, _same))
mode("SavedModel, cond in while", needs="graph saved")(lambda call: _saved(call, lambda a: _while(_cond(a))))
