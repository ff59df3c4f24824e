"""Where an override meets an op: after it ran eagerly, or when it is put into a graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

from gradwright.errors import Fault, GradientCountError, compose
from gradwright.frameworks import tf_override_modes as modes
from gradwright.frameworks import tf_override_ops as known
from gradwright.frameworks import tf_override_state as state
from gradwright.frameworks import tf_override_tags as tags
from gradwright.frameworks import tf_private as private
from gradwright.frameworks.tensorflow import seam
from gradwright.override.entries import Entry, narrowest


def on_op(op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: str | None = None, graph: Any = None) -> Any:
    """Called by TensorFlow after each op of this thread; gives the outputs back unchanged."""
    activation = state.current()
    if activation is None:
        return outputs
    # The slower of the two eager paths names the op in bytes, and records it later by `record_gradient`.
    slow = type(op_type) is bytes
    if slow:
        op_type = op_type.decode()
    candidates = activation.table.get(op_type)
    if graph is None:
        state.met(activation, (op_type,))
        if candidates:
            _eager(candidates, op_type, inputs, attrs, outputs, record=not slow)
    elif activation.lives_in(graph):
        state.met(activation, (op_type,))
        if candidates and outputs:
            _in_graph(candidates, outputs[0].op)
    return outputs


def _eager(candidates: list[Entry], op_type: str, inputs: Any, attrs: Any, outputs: Any, record: bool) -> None:
    """Count an op that ran, and record its rule on the tapes in place of the native one."""
    op = _eager_op(op_type, inputs, attrs, outputs)
    entry = narrowest(candidates, lambda: op, lambda: known.site_now(op.name))
    if entry is None or not _reachable(entry, op) or (op_type == "Identity" and known.is_plumbing()):
        return
    entry.hit(op.name if "/" in op.name else known.user_line())
    if record:
        _record(entry, op)


def _eager_op(op_type: str, inputs: Any, attrs: Any, outputs: Any) -> known.EagerOp:
    outputs = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
    return known.EagerOp(op_type, list(inputs), attrs, outputs)


def _in_graph(candidates: list[Entry], op: Any) -> None:
    """Count an op that was just made, and tag it with its rule."""
    # An IdentityN with a gradient of its own is a custom gradient, ours or TensorFlow's.
    if tags.tag_of(op) is not None:
        return
    entry = narrowest(candidates, lambda: op, lambda: known.site_now(op.name))
    if entry is None or not _reachable(entry, op) or (op.type == "Identity" and known.is_plumbing()):
        return
    modes.refuse_tangents(entry, list(op.inputs))
    entry.hit(op.name)
    tag(op, entry)


def tag(op: Any, entry: Entry) -> None:
    """Give an op of a graph its rule, in every way the graph may be differentiated."""
    tags.put(op, functools.partial(answer, entry), entry)
    op.pfor_converter = functools.partial(modes.vectorize, entry, tag_and_record)


def tag_and_record(op: Any, entry: Entry) -> None:
    """Tag an op that is on a tape already, and record its rule over the native one."""
    tag(op, entry)
    _record(entry, op)


def _reachable(entry: Entry, op: Any) -> bool:
    """Whether a gradient can ever be asked of this op; if not, the reason is noted."""
    reason = known.blocked(op.inputs, op.outputs)
    within = state.running_forward()
    if within is not None:
        reason = f"inside the custom gradient `{within}`, which answers for its inputs itself"
    if reason is not None:
        entry.hits.miss(entry.op_type, reason)
    return reason is None


def record_gradient(native: Callable[..., Any]) -> Callable[..., Any]:
    """`execute.record_gradient`, which the slower eager path and graphs under a tape call after the op was made."""

    def record_own(op_name: str, inputs: Any, attrs: Any, outputs: Any) -> Any:
        entry = op = None
        activation = state.current()
        if activation is not None and outputs and op_name in activation.table:
            eager = isinstance(outputs[0], private.EagerTensor)
            op = _eager_op(op_name, inputs, attrs, outputs) if eager else outputs[0].op
            entry = _eager_entry(activation.table[op_name], op) if eager else tags.entry_of(op)
        return _record(entry, op) if entry is not None else native(op_name, inputs, attrs, outputs)

    return record_own


def _eager_entry(candidates: list[Entry], op: Any) -> Entry | None:
    entry = narrowest(candidates, lambda: op, lambda: known.site_now(op.name))
    if entry is None or state.running_forward() is not None or known.blocked(op.inputs, op.outputs):
        return None
    return None if op.type == "Identity" and known.is_plumbing() else entry


def _record(entry: Entry, op: Any) -> None:
    """Put the rule on the tapes; the last record of an output is the one that a tape follows."""
    inputs, outputs = list(op.inputs), list(op.outputs)
    if not private.possible_orders(inputs):
        return
    modes.refuse_tangents(entry, inputs)
    private.record.record_operation(op.type, outputs, inputs, lambda *upstreams: answer(entry, op, upstreams))


def answer(entry: Entry, op: Any, upstreams: Any, saving: bool = False) -> list[Any]:
    """Ask a rule for the gradients of an op, and make them fit its inputs."""
    modes.refuse_transposition(entry)
    upstreams = [tf.convert_to_tensor(u) if isinstance(u, tf.IndexedSlices) else u for u in upstreams]
    if saving:
        modes.refuse_unsavable(entry, op, upstreams)
    else:
        upstreams = modes.guarded(entry, upstreams)
    with state.suspended():
        try:
            result = entry.rule(op, *upstreams)
        except Exception as error:
            error.add_note(f"in the override rule `{entry.name}` ({entry.where}) of {op.type} {op.name}")
            raise
        return _fitted(entry, op, list(result) if isinstance(result, list | tuple) else [result])


def _fitted(entry: Entry, op: Any, gradients: list[Any]) -> list[Any]:
    """One gradient per input; inputs that take none (axes, shapes) may have been left out."""
    inputs = list(op.inputs)
    if len(gradients) != len(inputs):
        gradients = _spread(entry, op, gradients)
    return [_fit(entry, op, i, gradient) for i, gradient in enumerate(gradients)]


def _spread(entry: Entry, op: Any, gradients: list[Any]) -> list[Any]:
    takes = [known.carries(t.dtype) for t in op.inputs]
    if len(gradients) != sum(takes):
        fact = f"returned {len(gradients)} gradients for {op.type}, which has {len(takes)} inputs"
        repair = f"return {', '.join(f'g{i}' if t else 'None' for i, t in enumerate(takes))}"
        raise GradientCountError(compose(entry.name, entry.where, fact, repair))
    given = iter(gradients)
    return [next(given) if t else None for t in takes]


def _fit(entry: Entry, op: Any, i: int, gradient: Any) -> Any:
    if gradient is None or op.inputs[i].dtype in (tf.resource, tf.variant):
        return gradient
    try:
        return seam.fit(gradient, seam.space(op.inputs[i])).gradient
    except Fault as fault:
        fact = f"the gradient of input {i} of {op.type} {fault.fact}"
        raise fault.kind(compose(entry.name, entry.where, fact, fault.repair)) from None


def native(op: Any, *upstreams: Any) -> Any:
    """What TensorFlow's own gradient of an op gives for these upstreams; see `gw.override.native`."""
    with state.suspended():
        function = lookup(op.type) if lookup is not None else modes.by_running_again
        return [None] * len(op.inputs) if function is None else function(op, *upstreams)


# The gradient registered for an op type or under a name: a function, None for "no gradient", or LookupError.
lookup: Any = getattr(getattr(ops, "gradient_registry", None), "lookup", None)
