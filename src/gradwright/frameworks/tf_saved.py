"""Rules in saved models: the lifted pullback travels with the graph, and is found again when it is loaded.

A rule's op names its pullback function in an attribute, so the function is saved with the model. After loading,
the gradient of every such op is made from its own attributes; where gradwright is not imported, TensorFlow's own
saving of gradients still serves rules outside of loops and branches.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from gradwright.frameworks import tf_graph
from gradwright.frameworks import tf_private_doors as doors
from gradwright.frameworks import tf_private_graphs as graphs
from gradwright.frameworks.tf_lift import Lifted, close
from gradwright.space import Space

PULLBACK, PUSHFORWARD, LAYOUT = "_gradwright_pullback", "_gradwright_pushforward", "_gradwright_layout"


def write(emission: Any, graph: Any, op: Any) -> None:
    """Write into the op what its gradient needs."""
    if emission.lifted.error is not None:
        return
    named = [(PULLBACK, emission.lifted)]
    if emission.pushed is not None and emission.pushed.error is None:
        named.append((PUSHFORWARD, emission.pushed))
    for attribute, lifted in named:
        lifted.function.add_to_graph(graph)
        name = as_text(lifted.function.name)
        if attribute == PULLBACK:
            value = attr_value_pb2.AttrValue(func=attr_value_pb2.NameAttrList(name=name))
        else:
            # As text: TensorFlow loads what an attribute calls first only for ops without a gradient of their own.
            value = attr_value_pb2.AttrValue(s=name.encode())
        graphs.set_attribute(op, attribute, value)
    facts = json.dumps(layout(emission), separators=(",", ":"))
    graphs.set_attribute(op, LAYOUT, attr_value_pb2.AttrValue(s=facts.encode()))


def layout(emission: Any) -> dict[str, Any]:
    """The facts of an emission that are no tensors."""
    return {
        "counts": emission.counts,
        "places": emission.places,
        "push_places": emission.push_places,
        "template": [None if g is None else shape_of_gradient(g) for g in emission.lifted.template],
        "rule": emission.pullback.rule.name,
        "where": emission.pullback.rule.where,
        "outputs": [[s.shape, s.dtype] for s in emission.pullback.output_spaces],
    }


def shape_of_gradient(gradient: Any) -> str:
    """Whether a gradient is dense, or slices with or without their whole shape."""
    if isinstance(gradient, tf.IndexedSlices):
        return "slices" if gradient.dense_shape is None else "shaped slices"
    return "dense"


def loaded(load: Callable[..., Any]) -> Callable[..., Any]:
    """The loader of functions, after which rules have their gradients again."""

    def load_and_restore(*args: Any, **kwargs: Any) -> Any:
        functions = load(*args, **kwargs)
        by_name = {as_text(name): function for name, function in functions.items()}  # by the names when saved
        by_name |= {as_text(function.name): function for function in functions.values()}
        loaded_graphs = [function.graph for function in functions.values()]
        for graph in loaded_graphs:
            for op in graph.get_operations():
                if op.type == "IdentityN":
                    restore(op, by_name, loaded_graphs)
        return functions

    load_and_restore.__wrapped__ = load  # type: ignore[attr-defined]
    return load_and_restore


def as_text(name: Any) -> str:
    """A function's name, which TensorFlow gives as bytes."""
    return name.decode() if isinstance(name, bytes) else name


def restore(op: Any, by_name: dict[str, Any], owners: list[Any]) -> None:
    """Make the gradient of one loaded op."""
    facts = graphs.attribute(op, LAYOUT)
    name = graphs.gradient_name(op)
    if facts is None or not name or tf_graph.live(op) is not None:
        return
    facts = json.loads(facts)
    function = by_name.get(graphs.attribute(op, PULLBACK).name)
    if function is None:
        return
    pushed = graphs.attribute(op, PUSHFORWARD)
    pushed = None if pushed is None else by_name.get(as_text(pushed))
    emission = tf_graph.Emission(
        remembered(facts),  # type: ignore[arg-type]
        Lifted(callable_again(function), [], [template_of(kind) for kind in facts["template"]]),
        None if pushed is None else Lifted(callable_again(pushed), [], ["dense"] * facts["counts"][0]),
    )
    emission.name = name
    emission.counts = tuple(facts["counts"])
    emission.places, emission.push_places = facts["places"], facts["push_places"]
    for graph in owners:
        tf_graph.register(emission, graph, replace=True)


def remembered(facts: dict[str, Any]) -> Any:
    """What stands for the pullback of a loaded rule: its name, its place, its outputs."""
    rule = SimpleNamespace(name=facts["rule"], where=facts["where"], __name__="loaded")
    spaces = [Space(None if shape is None else tuple(shape), dtype) for shape, dtype in facts["outputs"]]
    return SimpleNamespace(rule=rule, output_spaces=spaces, grad=None)


def callable_again(function: Any) -> Any:
    """A loaded function with its outputs known; the loader knows them only for what the user saved by name."""
    return close(function.graph, list(function.graph.inputs), list(function.graph.outputs))


def template_of(kind: str | None) -> Any:
    """A gradient of the right form, for packing."""
    if kind is None or kind == "dense":
        return kind
    zero = tf.zeros([1], tf.int64)
    return tf.IndexedSlices(tf.zeros([1]), zero, zero if kind == "shaped slices" else None)


def saved_by_tensorflow(op: Any) -> bool:
    """Whether TensorFlow's own saving of gradients may have this op.

    It fails on rules inside loops and branches, and its loader hands float zeros to the upstream of a variable.
    """
    if tf_graph.live(op) is None and graphs.attribute(op, LAYOUT) is None:
        return True
    if any(tensor.dtype == tf.resource for tensor in op.inputs):
        return False
    return not any(graphs.is_control_flow(graph) for graph in graphs.enclosing_graphs(op.graph))


doors.stand_before_function_loader(loaded)
doors.choose_gradients_to_save(saved_by_tensorflow)
