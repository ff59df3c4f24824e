"""Rules in eager mode: run the forward, record one operation.

With a single first-order tape the forward is not recorded at all, so nothing stays alive that the pullback does
not use. Where a higher order is possible the forward is recorded too, the output is made anew, and the rule is
recorded on it, so that derivatives of the derivative follow the rule.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import tensorflow as tf

from gradwright import events
from gradwright.errors import Fault
from gradwright.frameworks import tf_forward, tf_held, tf_orders, tf_tapes
from gradwright.frameworks import tf_private as private
from gradwright.frameworks.tensorflow import seam
from gradwright.frameworks.tf_values import as_input, component, is_variable, raw_variable, with_component
from gradwright.outputs import Outputs
from gradwright.pullback import Pullback, inside_a_pullback
from gradwright.rule import Rule
from gradwright.signature import Bound, plain_slots
from gradwright.space import Space

EagerTensor = private.EagerTensor
no_tapes, possible_orders, newest_id = private.no_tapes, private.possible_orders, private.newest_id
stop_recording_now, restart_recording = private.stop_recording_now, private.restart_recording
record_operation, tensor_id, executing_eagerly = private.record_operation, private.tensor_id, private.executing_eagerly
shape_tuple, dtype_number = private.shape_tuple, private.dtype_number
_FLOATS = frozenset(
    getattr(tf, name).as_datatype_enum
    for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
)


def plain(rule: Rule, args: tuple[Any, ...]) -> Any:
    """The short way for eager tensors in plain places: what `general` does, with less to look at."""
    if not tf_tapes.installed:
        return general(rule, args, {})
    if no_tapes():
        output = rule.unpack(rule.pair(*args))[0]
        return output if type(output) is EagerTensor else as_outputs(output)
    thread = tf_tapes.thread
    orders, born = possible_orders(args), newest_id()
    first_order = orders == 1 and thread.depth == 1
    reads: list[Any] = []
    thread.readers.append(reads)
    if first_order:
        stop_recording_now()
    try:
        result = rule.pair(*args)
    finally:
        if first_order:
            restart_recording()
        thread.readers.pop()
    output, grad = rule.unpack(result)
    if reads or type(output) is not EagerTensor or (orders and not first_order):
        bound = Bound(args, {}, named_slots(rule, args))
        return recorded(rule, bound, list(args), output, grad, tf_tapes.Heard(reads, born), born, first_order)
    if not orders:
        if inside_a_pullback():
            tf_orders.refuse_lost_capture(rule, list(args))
        return unrecorded(output)
    if tensor_id(output) <= born:
        output = private.copy_without_record(output)
    if hasattr(grad, "wanted"):
        grad.wanted = watched_each(args)
    facts = [(shape_tuple(a), dtype_number(a)) for a in args]
    fact = (shape_tuple(output), dtype_number(output))
    record_operation(
        rule.name,
        [output],
        args,
        functools.partial(plain_backward, rule, grad, facts, fact),
        functools.partial(plain_pushforward, rule, grad, facts, fact),
    )
    return output


def watched_each(inputs: Any) -> tuple[bool, ...]:
    """For each input, whether a tape may ask for its gradient; a grad with the attribute `wanted` is told."""
    return tuple(bool(possible_orders([each])) for each in inputs)


def plain_backward(rule: Rule, grad: Any, facts: list[Any], fact: Any, upstream: Any) -> list[Any]:
    """Hand over gradients that fit at sight; everything else is for the whole pullback."""
    if type(upstream) is not EagerTensor or events.listeners or not executing_eagerly():
        return symbolic_safe(whole(rule, grad, facts, fact), [upstream])
    try:
        returned = grad(upstream)
    except (TypeError, Fault):
        # Once more the long way, which tells a grad that cannot take its upstreams from an error inside of it,
        # and names the rule.
        return symbolic_safe(whole(rule, grad, facts, fact), [upstream])
    gradients = (returned,) if type(returned) is EagerTensor else returned
    if type(gradients) not in (tuple, list) or len(gradients) != len(facts):
        return whole(rule, grad, facts, fact).settle(returned).gradients
    for gradient, (shape, number) in zip(gradients, facts, strict=True):
        if (
            type(gradient) is not EagerTensor
            or shape_tuple(gradient) != shape
            or dtype_number(gradient) != number
            or number not in _FLOATS
        ):
            return whole(rule, grad, facts, fact).settle(returned).gradients
    return list(gradients)


def plain_pushforward(rule: Rule, grad: Any, facts: list[Any], fact: Any, *tangents: Any) -> list[Any]:
    """Forward mode of a plain call."""
    return tf_forward.eager(whole(rule, grad, facts, fact), *tangents)


def whole(rule: Rule, grad: Any, facts: list[Any], fact: Any) -> Pullback:
    """The pullback of a plain call, made when it is needed."""
    slots = plain_slots(rule.signature, len(facts))
    return Pullback(rule, slots, facts_as_spaces(facts), Outputs.single(), facts_as_spaces([fact]), grad, seam)


def named_slots(rule: Rule, args: tuple[Any, ...]) -> list[Any]:
    """The slots of a call with one tensor in each place."""
    slots = plain_slots(rule.signature, len(args))
    for slot, arg in zip(slots, args, strict=False):
        slot.value, slot.leaves = arg, [arg]
    return slots


def as_outputs(output: Any) -> Any:
    """Give the output as tensors, in its structure."""
    outputs = Outputs(output, seam)
    return outputs.rebuild([outputs.leaves[i] for i in outputs.tensors])


def unrecorded(output: Any) -> Any:
    """Cut an output off whatever the forward captured: a rule answers for its arguments and nothing else."""
    if private.possible_orders([output]):
        return private.copy_without_record(output)
    return output


def facts_as_spaces(facts: list[tuple[tuple[int, ...], int]]) -> list[Any]:
    """Shapes and dtype numbers as spaces."""
    return [Space(tuple(shape), tf.dtypes.as_dtype(number).name) for shape, number in facts]


def general(rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Any signature, structures, variables and composite tensors."""
    bound = rule.bind(args, kwargs, seam)
    tensors = bound.tensors()
    inputs = [as_input(tensor) for tensor in tensors]
    for tensor in tensors:
        if is_variable(tensor) and raw_variable(tensor).trainable:
            private.tell_tapes_of(raw_variable(tensor))
    first_order = private.possible_orders(inputs) == 1 and tf_tapes.only_one_tape()
    born = private.newest_id()
    output, grad, reads = tf_tapes.run(rule, bound, first_order)
    return recorded(rule, bound, inputs, output, grad, reads, born, first_order)


def recorded(
    rule: Rule,
    bound: Bound,
    inputs: list[Any],
    output: Any,
    grad: Any,
    reads: list[Any],
    born: int,
    first_order: bool = False,
) -> Any:
    """Record a call on the tapes and give its output."""
    outputs = Outputs(output, seam)
    pullback = Pullback.of(rule, bound, outputs, grad, reads, seam)
    for variable in pullback.variables:
        private.tell_tapes_of(variable)
    if inside_a_pullback() and not private.no_tapes():
        tf_orders.refuse_lost_capture(rule, bound.tensors())
    inputs = inputs + [variable.handle for variable in pullback.variables]
    if hasattr(grad, "wanted"):
        grad.wanted = watched_each(inputs[: len(pullback.spaces)])
    wholes = [outputs.leaves[i] for i in outputs.tensors]
    outputs.forget()
    parts = [component(whole) for whole in wholes]
    output = None
    if not inputs or private.no_tapes() or not private.possible_orders(inputs):
        parts = [unrecorded(part) for part in parts]
        return outputs.rebuild([with_component(w, p) for w, p in zip(wholes, parts, strict=True)])
    made = record_first_order(parts, born) if first_order else [private.copy_without_record(p) for p in parts]
    own = [] if first_order else [part for part in parts if private.tensor_id(part) > born]
    backward = functools.partial(backward_of, pullback, [weakref.ref(part) for part in own])
    pushforward = functools.partial(tf_forward.eager, pullback)
    if not first_order:
        for old, new in zip(parts, made, strict=True):
            # An input that is handed on as an output is still the input to the grad that captured it.
            if all(old is not tensor for tensor in inputs):
                tf_held.replace(grad, old, new)
        # JVP computations that use the output must find it on the outer tapes.
        private.record_backprop_only(rule.name, made, inputs, backward)
        # What still holds the forward's own output must meet the rule too; the last record of a tensor counts.
        if len(own) == len(parts) and len({id(p) for p in parts}) == len(parts):
            private.record_backprop_only(rule.name, parts, inputs, backward)
    private.record_operation(rule.name, made, inputs, backward, pushforward)
    return outputs.rebuild([with_component(w, m) for w, m in zip(wholes, made, strict=True)])


def record_first_order(parts: list[Any], born: int) -> list[Any]:
    """Outputs that may be recorded: each made by this forward, each once."""
    seen: set[int] = set()
    made = []
    for part in parts:
        if private.tensor_id(part) <= born or id(part) in seen:
            part = private.copy_without_record(part)
        seen.add(id(part))
        made.append(part)
    return made


def backward_of(pullback: Pullback, outputs: list[Any], *upstreams: Any) -> list[Any]:
    """The backward function that a tape calls."""
    if outputs and not private.no_tapes():
        tf_held.refuse_stale(pullback.rule, outputs)
    return symbolic_safe(pullback, list(upstreams))


def symbolic_safe(pullback: Pullback, upstreams: list[Any]) -> list[Any]:
    """Pull back; where an eager rule meets symbolic upstreams (a vectorised Jacobian), numpy in it runs as python."""
    if private.executing_eagerly():
        gradients = pullback(upstreams)
        if not private.no_tapes():
            tf_orders.refuse_numbers(pullback.rule, pullback.grad, gradients)
        return gradients
    from gradwright.frameworks import tf_python

    return tf_python.pull(pullback, upstreams)
