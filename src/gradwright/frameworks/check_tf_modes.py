"""The ways TensorFlow can call a function and take its gradient, each by one short name.

Each mode takes a `Run` (the function, its inputs, captured variables and upstreams) and gives the gradients in the
order of inputs and variables. Names and meanings are printed by `gradwright.check.modes.names`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf


@dataclass
class Run:
    """What a mode is given; `apply(*xs)` gives the flat list of outputs that carry gradients."""

    apply: Callable[..., list[Any]]
    xs: list[Any]
    variables: list[Any]
    upstreams: list[Any]

    def reverse(self, xs: list[Any], apply: Callable[..., list[Any]] | None = None) -> list[Any]:
        """The gradients by one tape around the call."""
        with tf.GradientTape() as tape:
            tape.watch(xs)
            ys = (apply or self.apply)(*xs)
        return _dense(tape.gradient(ys, [*xs, *self.variables], output_gradients=self.upstreams))


def _dense(gradients: list[Any]) -> list[Any]:
    return [None if g is None else tf.convert_to_tensor(g) for g in gradients]


def _kept(gradients: list[Any], holes: list[int]) -> list[Any]:
    """Traced functions return tensors only: the places of None are noted on the side."""
    holes[:] = [i for i, g in enumerate(gradients) if g is None]
    return [g for g in gradients if g is not None]


def _refilled(found: Any, holes: list[int]) -> list[Any]:
    out = list(found)
    for i in holes:
        out.insert(i, None)
    return out


def _inside(
    run: Run, wrap: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda a: a, **options: Any
) -> list[Any]:
    """The tape inside a traced function."""
    holes: list[int] = []
    traced = tf.function(lambda *xs: _kept(run.reverse(list(xs), wrap(run.apply)), holes), autograph=False, **options)
    return _refilled(traced(*run.xs), holes)


def _cond(apply: Callable[..., Any]) -> Callable[..., Any]:
    def branched(*xs: Any) -> list[Any]:
        true = tf.reduce_all(tf.equal(xs[0], xs[0]))
        return list(tf.cond(true, lambda: apply(*xs), lambda: [tf.zeros_like(y) for y in apply(*xs)]))

    return branched


def _while(apply: Callable[..., Any]) -> Callable[..., Any]:
    def looped(*xs: Any) -> list[Any]:
        empty = [tf.zeros_like(y) for y in apply(*xs)]
        turns = tf.where(tf.reduce_all(tf.equal(xs[0], xs[0])), 2, 0)
        return list(tf.while_loop(lambda i, *_: i < turns, lambda i, *_: (i + 1, *apply(*xs)), [0, *empty]))[1:]

    return looped


def _mapped(apply: Callable[..., Any]) -> Callable[..., Any]:
    def over_copies(*xs: Any) -> list[Any]:
        specs = [tf.TensorSpec(y.shape, y.dtype) for y in apply(*xs)]
        found = tf.map_fn(lambda parts: apply(*parts), [tf.stack([x, x]) for x in xs], fn_output_signature=specs)
        return [y[0] for y in found]

    return over_copies


def _vectorized(apply: Callable[..., Any]) -> Callable[..., Any]:
    def over_copies(*xs: Any) -> list[Any]:
        found = tf.vectorized_map(lambda parts: apply(*parts), tuple(tf.stack([x, x]) for x in xs))
        return [y[0] for y in found]

    return over_copies


def _persistent(run: Run) -> list[Any]:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(run.xs)
        ys = run.apply(*run.xs)
    wanted = [*run.xs, *run.variables]
    tape.gradient(ys, wanted, output_gradients=run.upstreams)
    return _dense(tape.gradient(ys, wanted, output_gradients=run.upstreams))


def _outside(run: Run) -> list[Any]:
    return run.reverse(run.xs, tf.function(lambda *xs: run.apply(*xs), autograph=False))


def _unknown_shapes(run: Run) -> list[Any]:
    return _inside(run, input_signature=[tf.TensorSpec([None] * len(x.shape), x.dtype) for x in run.xs])


def _jacobian(run: Run) -> list[Any]:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(run.xs)
        ys = run.apply(*run.xs)
    totals: list[Any] = [None] * (len(run.xs) + len(run.variables))
    for y, up in zip(ys, run.upstreams, strict=True):
        for i, jacobian in enumerate(tape.jacobian(y, [*run.xs, *run.variables])):
            if jacobian is not None:
                part = tf.tensordot(tf.math.conj(up) if up.dtype.is_complex else up, jacobian, len(up.shape))
                totals[i] = part if totals[i] is None else totals[i] + part
    return totals


def _graph_v1(run: Run) -> list[Any]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        xs = [tf.compat.v1.placeholder(x.dtype, x.shape) for x in run.xs]
        ups = [tf.constant(u.numpy()) for u in run.upstreams]
        holes: list[int] = []
        found = _kept(_dense(tf.gradients(run.apply(*xs), xs, grad_ys=ups)), holes)
        fed = dict(zip(xs, [x.numpy() for x in run.xs], strict=True))
        return _refilled(session.run(found, fed), holes)


def _saved_model(run: Run) -> list[Any]:
    module = tf.Module()
    module.kept = list(run.variables)  # type: ignore[attr-defined]
    signature = [tf.TensorSpec(x.shape, x.dtype) for x in run.xs]
    module.serve = tf.function(lambda *xs: run.apply(*xs), input_signature=signature, autograph=False)  # type: ignore
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder)
        loaded = tf.saved_model.load(folder)
    again = Run(lambda *xs: list(loaded.serve(*xs)), run.xs, list(loaded.kept), run.upstreams)
    return again.reverse(run.xs)


def _mirrored(run: Run) -> list[Any]:
    strategy = tf.distribute.MirroredStrategy([d.name for d in tf.config.list_logical_devices("CPU")][:2])
    holes: list[int] = []
    found = strategy.run(lambda: _kept(run.reverse(run.xs), holes))
    return _refilled([strategy.experimental_local_results(g)[0] for g in found], holes)


MODES: dict[str, tuple[str, Callable[[Run], list[Any]]]] = {
    "eager": ("a tape around the call", lambda run: run.reverse(run.xs)),
    "persistent": ("a persistent tape, asked twice", _persistent),
    "function": ("tf.function with the tape inside", _inside),
    "function-outside": ("tf.function with the tape outside", _outside),
    "unknown-shapes": ("tf.function whose inputs have unknown sizes", _unknown_shapes),
    "jit": ("tf.function(jit_compile=True) with the tape inside", lambda run: _inside(run, jit_compile=True)),
    "cond": ("inside tf.cond in a tf.function", lambda run: _inside(run, _cond)),
    "while": ("inside tf.while_loop in a tf.function", lambda run: _inside(run, _while)),
    "map": ("inside tf.map_fn in a tf.function", lambda run: _inside(run, _mapped)),
    "vectorized": ("the gradient through tf.vectorized_map", lambda run: run.reverse(run.xs, _vectorized(run.apply))),
    "jacobian": ("tape.jacobian, weighed with the upstream", _jacobian),
    "graph-v1": ("tf.gradients in a v1 graph and session", _graph_v1),
    "saved-model": ("saved and loaded as a SavedModel", _saved_model),
    "mirrored": ("in each replica of a MirroredStrategy", _mirrored),
}
