"""Forward mode: the rule's own jvp, or the transpose of its pullback where that is linear in the upstream.

A pullback that is not linear has no transpose; it is refused by name, never linearised at some point.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from gradwright import events
from gradwright.errors import ModeError, compose
from gradwright.frameworks import tf_private as private
from gradwright.frameworks import tf_private_graphs as graphs
from gradwright.frameworks import tf_recording
from gradwright.pullback import Pullback
from gradwright.space import Space


def eager(pullback: Pullback, *tangents: Any) -> list[Any]:
    """Push tangents forward: what TensorFlow calls for its accumulators."""
    own = getattr(pullback.grad, "jvp", None)
    if own is not None and not pullback.variables:
        return by_own_jvp(pullback, own, list(tangents))
    with events.unwatched():
        refuse_nonlinear(pullback)
        return transpose(pullback, pullback.output_spaces, list(tangents))


def in_graph(emission: Any, op_inputs: list[Any], op_outputs: list[Any], *tangents: Any) -> list[Any]:
    """Push tangents forward inside a graph."""
    outputs = op_outputs[: emission.counts[0]]
    if emission.pushed is not None:
        return emission.push(op_inputs, op_outputs, list(tangents))
    if emission.linear.reason:
        raise nonlinear(emission.pullback, emission.linear.reason)
    refuse_unseen_in_batch(emission)
    pull = functools.partial(emission.pull, op_inputs, op_outputs)
    with events.unwatched():
        pushed = transpose(pull, emission.pullback.output_spaces, list(tangents), outputs)
        if emission.linear.unknown:
            pushed = checked_at_run_time(emission.pullback, pull, outputs, pushed)
    return pushed


def refuse_unseen_in_batch(emission: Any) -> None:
    """Refuse to transpose python inside `vectorized_map`: its loop gives zeros there, not the news that it cannot."""
    if emission.linear.unknown and emission.batched:
        raise nonlinear(emission.pullback, "its ops cannot be seen into, inside vectorized_map")


def zeros_or(upstream: Any, output: Any) -> Any:
    """A dense upstream, zeros for none."""
    return tf.zeros_like(output) if upstream is None else tf.convert_to_tensor(upstream)


def checked_at_run_time(pullback: Pullback, pull: Any, outputs: list[Any], pushed: list[Any]) -> list[Any]:
    """Try linearity with numbers when the graph runs; XLA can run no such check, there the rule is refused."""
    if graphs.in_xla(tf.compat.v1.get_default_graph()):
        raise nonlinear(pullback, "its ops cannot be seen into, and XLA can check nothing at run time")
    with private.record.stop_recording():
        one = [tf.random.normal(tf.shape(o), dtype=o.dtype) if o.dtype.is_floating else None for o in outputs]
        two = [tf.random.normal(tf.shape(o), dtype=o.dtype) if o.dtype.is_floating else None for o in outputs]
        mixed = [None if a is None else a * 3 + b * 65536 for a, b in zip(one, two, strict=True)]
        first, second, both = (pull([zeros_or(u, o) for u, o in zip(us, outputs, strict=True)])
                               for us in (one, two, mixed))  # fmt: skip
        agree = [near(c, a * 3 + b * 65536) for a, b, c in zip(first, second, both, strict=True) if a is not None]
    message = str(nonlinear(pullback, "tried with numbers, the gradient of a sum is not the sum of the gradients"))
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(tf.stack(agree)), [message])]):
        return [tf.identity(p) for p in pushed]


def near(left: Any, right: Any) -> Any:
    """Whether two tensors agree to single-precision noise."""
    scale = tf.reduce_max(tf.abs(left)) + tf.reduce_max(tf.abs(right))
    return tf.reduce_max(tf.abs(left - right)) <= tf.cast(1e-2, scale.dtype) * scale


def by_own_jvp(pullback: Pullback, own: Callable[..., Any], tangents: list[Any]) -> list[Any]:
    """Hand the tangents to the rule's jvp, one per tensor argument in its structure, and flatten what it returns."""
    from gradwright import tree
    from gradwright.frameworks.tensorflow import seam
    from gradwright.frameworks.tf_fitting import as_tensor
    from gradwright.frameworks.tf_values import component

    given, at = [], 0
    for slot in pullback.slots:
        if slot.is_tensor:
            part = tangents[at : at + len(slot.tensors)]
            at += len(slot.tensors)
            leaves: list[Any] = [None] * len(slot.leaves)
            for i, tangent in zip(slot.tensors, part, strict=True):
                leaves[i] = tangent
            given.append(leaves[0] if slot.spec is None else tree.unflatten(slot.spec, leaves))
    pushed = tree.flatten(own(*given), seam.is_leaf)[0]
    pushed = [pushed[i] for i in pullback.outputs.tensors]
    return [
        zeros(space) if p is None else tf.cast(component(as_tensor(p, space)), space.dtype)
        for p, space in zip(pushed, pullback.output_spaces, strict=True)
    ]


def zeros(space: Space, output: Any = None) -> Any:
    """A zero tangent."""
    return tf.zeros(space.shape, space.dtype) if output is None else tf.zeros_like(output)


def transpose(
    pull: Callable[[list[Any]], list[Any]],
    spaces: list[Space],
    tangents: list[Any],
    outputs: list[Any] | None = None,
) -> list[Any]:
    """Transpose a linear pullback: the tangent of the output is the derivative of <pullback(u), tangents> by u.

    The outputs are needed where their shapes are not known before the run.
    """
    like = outputs or [None] * len(spaces)
    # An accumulator that asks for a tangent has recording stopped meanwhile.
    with tf_recording.recording(), tf.GradientTape() as tape:
        upstreams = [ones(space, output) for space, output in zip(spaces, like, strict=True)]
        watched = [u for u, s in zip(upstreams, spaces, strict=True) if s.kind != "none"]
        tape.watch(watched)
        pairs = meet(pull(upstreams), tangents)
    targets, weights = [g for g, _ in pairs], [t for _, t in pairs]
    if not pairs:
        pushed = None
    elif private.executing_eagerly():
        pushed = tape.gradient(targets, watched, output_gradients=weights)
    else:
        # Inside some graphs (gradients of branches and loops) tapes are told nothing.
        pushed = tf.gradients(targets, watched, weights)
    pushed = iter(pushed or [None] * len(watched))
    made = [next(pushed) if s.kind != "none" else None for s in spaces]
    for k, (m, s) in enumerate(zip(made, spaces, strict=True)):
        if m is None:
            made[k] = zeros(s, like[k]) if s.kind == "none" or not pairs else by_basis(pull, k, upstreams, tangents)
    return made


def ones(space: Space, output: Any) -> Any:
    """An upstream of ones."""
    return tf.ones(space.shape, space.dtype) if output is None else tf.ones_like(output)


def meet(gradients: list[Any], tangents: list[Any]) -> list[tuple[Any, Any]]:
    """Pair the gradients that exist with their tangents."""
    return [
        (tf.convert_to_tensor(g), tf.convert_to_tensor(t))
        for g, t in zip(gradients, tangents, strict=True)
        if g is not None and t is not None
    ]


def by_basis(pull: Callable[[list[Any]], list[Any]], k: int, like: list[Any], tangents: list[Any]) -> Any:
    """Push forward through a pullback that TensorFlow cannot differentiate: one unit upstream at a time."""
    dtype, shape = like[k].dtype, tf.shape(like[k])
    size = tf.reduce_prod(shape)

    @tf.autograph.experimental.do_not_convert
    def row(i: Any) -> Any:
        unit = tf.reshape(tf.one_hot(i, size, dtype=dtype), shape)
        ups = [unit if j == k else tf.zeros_like(u) for j, u in enumerate(like)]
        parts = [tf.cast(tf.reduce_sum(g * tf.cast(t, g.dtype)), dtype) for g, t in meet(pull(ups), tangents)]
        return tf.add_n(parts) if parts else tf.zeros([], dtype)

    rows = tf.map_fn(row, tf.range(size), fn_output_signature=tf.TensorSpec([], dtype))
    return tf.ensure_shape(tf.reshape(rows, shape), like[k].shape)


def refuse_nonlinear(pullback: Pullback) -> None:
    """Raise where a pullback does not treat sums and multiples of upstreams as a linear map must."""
    with private.record.stop_recording():
        broken = nonlinearity(pullback, pullback.output_spaces)
    if broken:
        raise nonlinear(pullback, broken)


def nonlinear(pullback: Pullback, reason: str) -> ModeError:
    """The refusal of forward mode."""
    rule = pullback.rule
    return ModeError(
        compose(
            rule.name,
            rule.where,
            f"forward mode needs a gradient that is linear in the upstream, and this one is not: {reason}",
            "give the rule a jvp (gw.rule with f.defjvp), or use reverse mode",
        )
    )


def nonlinearity(pull: Callable[[list[Any]], list[Any]], spaces: list[Space]) -> str | None:
    """Say how a pullback fails to be linear, or None. Tried at ordinary, tiny and huge upstreams."""
    one, two = draw(spaces, 1), draw(spaces, 2)
    first, second = values(pull(one)), values(pull(two))
    both = values(pull([a + b for a, b in zip(one, two, strict=True)]))
    if not close(both, [a + b for a, b in zip(first, second, strict=True)]):
        return "the gradient of a sum of upstreams is not the sum of the gradients"
    for power in (-24, 30):
        factor = 2.0 ** (power if all(s.dtype not in ("float16",) for s in spaces) else power / 6)
        scaled = values(pull([u * tf.cast(factor, u.dtype) for u in one]))
        if not close(scaled, [f * factor for f in first]):
            return f"an upstream multiplied by {factor:g} does not multiply the gradient"
    return None


def draw(spaces: list[Space], seed: int) -> list[Any]:
    """Upstreams drawn at random, the same ones each time."""
    generator = np.random.default_rng(seed)
    drawn = []
    for space in spaces:
        value = generator.normal(size=space.shape)
        if space.kind == "complex":
            value = value + 1j * generator.normal(size=space.shape)
        drawn.append(tf.cast(tf.constant(value), space.dtype) if space.kind != "none" else zeros(space))
    return drawn


def values(gradients: list[Any]) -> list[np.ndarray]:
    """Gradients as numbers in double precision, nothing as zero."""
    return [
        np.zeros(()) if g is None else np.asarray(tf.cast(tf.convert_to_tensor(g), wide(g.dtype)).numpy())
        for g in gradients
    ]


def wide(dtype: Any) -> Any:
    """The widest dtype of the same kind."""
    return tf.complex128 if tf.as_dtype(dtype).is_complex else tf.float64


def close(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    """Whether two lists of gradients agree to single-precision noise, measured by their largest element."""
    for a, b in zip(left, right, strict=True):
        scale = max(float(np.max(np.abs(a), initial=0.0)), float(np.max(np.abs(b), initial=0.0)))
        if not np.allclose(a, b, rtol=0, atol=2e-2 * scale if scale else 0, equal_nan=True):
            return False
    return True
