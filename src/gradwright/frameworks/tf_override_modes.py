"""The modes in which an override is made right by extra means, or refused by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from gradwright.errors import ModeError, compose
from gradwright.frameworks import tf_override_tags as tags
from gradwright.frameworks import tf_private as private
from gradwright.frameworks.tf_override_ops import carries, op_def
from gradwright.override.entries import Entry

_FORWARD = (
    "is a backward rule, and a forward accumulator asks for the forward mode of {}; "
    "TensorFlow would use its own derivative there, or transpose the rule as if it were linear"
)


def refuse_tangents(entry: Entry, inputs: list[Any]) -> None:
    """Refuse forward mode through an overridden op: an accumulator has a tangent for one of its inputs."""
    if private.possible_orders(inputs) and private.jvps_of(inputs):
        raise _no_forward_mode(entry)


def refuse_transposition(entry: Entry) -> None:
    """Refuse to answer where TensorFlow builds a forward derivative by transposing a backward function."""
    frame: Any = None if private.executing_eagerly() else sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_name
        if name == "_build_functions_for_outputs" and frame.f_locals.get("input_tangents"):
            raise _no_forward_mode(entry)
        frame = frame.f_back


def guarded(entry: Entry, upstreams: list[Any]) -> list[Any]:
    """Upstreams that refuse to be differentiated for forward mode, also where the backward was built before.

    TensorFlow makes the forward derivative of a function by differentiating its backward function.
    """

    def passed(op: Any, given: Any, saving: bool) -> list[Any]:
        refuse_transposition(entry)
        return list(given)

    def guard(upstream: Any) -> Any:
        kept = tf.identity(upstream)
        tags.put(kept.op, passed)
        return kept

    if private.executing_eagerly():
        return upstreams
    return [guard(u) if tf.is_tensor(u) and carries(u.dtype) else u for u in upstreams]


def _no_forward_mode(entry: Entry) -> ModeError:
    repair = "tf.GradientTape for this gradient, or gw.rule with f.defjvp in place of the override"
    return ModeError(compose(entry.name, entry.where, _FORWARD.format(entry.op_type), repair))


def refuse_unsavable(entry: Entry, op: Any, upstreams: list[Any]) -> None:
    """Refuse to be saved where a SavedModel could not keep the rule: it hands inputs on in place of upstreams."""
    if len(upstreams) != len(op.outputs) and len(upstreams) == len(op.inputs):
        fact = f"cannot be kept in a SavedModel: {op.type} has {len(op.inputs)} inputs and {len(op.outputs)} outputs"
        repair = "save the model outside the override, and gw.override(rules, tf.saved_model.load(path).f) again"
        raise ModeError(compose(entry.name, entry.where, fact, repair))


def vectorize(entry: Entry, tag: Callable[[Any, Entry], None], pfor_input: Any) -> Any:
    """Turn an overridden op into its vectorised form, overridden as well (`tf.vectorized_map`, `jacobian`)."""
    from tensorflow.python.ops.parallel_for import pfor

    op = pfor_input.op
    convert = pfor._pfor_converter_registry.get(op.type)
    if convert is None:
        # TensorFlow then runs the op in a loop, as it stands, tag and all.
        raise pfor.ConversionNotImplementedError(f"no vectorised form of {op.type}")
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    converted = convert(pfor_input)
    made = [one for one in graph.get_operations()[before:] if one.type == op.type]
    for one in made:
        tag(one, entry)
    if not made:
        fact = f"cannot be vectorised: TensorFlow turns {op.type} into other ops there"
        repair = "tf.map_fn in place of tf.vectorized_map, or jacobian(..., experimental_use_pfor=False)"
        raise ModeError(compose(entry.name, entry.where, fact, repair))
    return converted


def by_running_again(op: Any, *upstreams: Any) -> Any:
    """The native gradient of an op without TensorFlow's registry: the op is run again under a tape."""
    definition = op.op_def if hasattr(op, "op_def") else op_def(op.type)
    inferred = {a.type_attr or a.number_attr or a.type_list_attr for a in definition.input_arg}
    attrs = {a.name: op.get_attr(a.name) for a in definition.attr if a.name not in inferred and a.name[0] != "_"}
    inputs = [tf.identity(t) for t in op.inputs]
    named = dict(zip([a.name for a in definition.input_arg], inputs, strict=True))
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = getattr(tf.raw_ops, op.type)(**named, **attrs)
    return tape.gradient(tf.nest.flatten(outputs), inputs, output_gradients=list(upstreams))


def rules_in(graph: Any) -> bool:
    """Whether a graph holds tagged ops."""
    return getattr(graph, "_gradwright_names", None) is not None or bool(getattr(graph, "_gradwright_kept", ()))
