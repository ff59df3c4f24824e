"""Tagging ops of graphs: the attribute that names an op's gradient, the registry behind it, and its life.

TensorFlow finds the gradient of an op by name. Each tagged op gets a name of its own, so that a SavedModel can
keep its rule; the name is given back when the last graph that can need it is gone.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import ops

from gradwright.frameworks import tf_private as private
from gradwright.override.entries import Entry

ATTRIBUTE = "_gradient_op_type"
_PREFIX = f"Gradwright>Override>{uuid.uuid4().hex[:8]}>"
_registered: dict[str, Entry] = {}


class _Names:
    """The names that the ops of one graph use; they end when it ends."""

    def __init__(self) -> None:
        self.names: list[str] = []
        weakref.finalize(self, _forget, self.names)


def _forget(names: list[str]) -> None:
    for name in names:
        _registered.pop(name, None)
        unregister(name)


def unregister(name: str) -> Any:
    """Take a name out of TensorFlow's registry and give what stood there; where it is closed, it stays."""
    registry = getattr(getattr(ops, "gradient_registry", None), "_registry", None)
    return registry.pop(name, None) if isinstance(registry, dict) else None


def reregister(name: str, entry: Any) -> None:
    """Put back what `unregister` gave."""
    ops.gradient_registry._registry[name] = entry


def tag_of(op: Any) -> str | None:
    """The name of the gradient that an op carries, if it carries one: ours, or that of a custom gradient."""
    try:
        return op.get_attr(ATTRIBUTE).decode()
    except ValueError:
        return None


def entry_of(op: Any) -> Entry | None:
    """The rule that an op was tagged with."""
    tag = tag_of(op)
    return _registered.get(tag) if tag else None


def put(op: Any, gradient: Callable[..., Any], entry: Entry | None = None) -> None:
    """Give an op a gradient of its own, `gradient(op, upstreams, saving)`: the rule of an entry, or any other."""
    name = f"{_PREFIX}{op.type}>{ops.uid()}"
    found = weakref.ref(op)

    # A SavedModel traces the gradient without telling the op.
    @tf.autograph.experimental.do_not_convert
    def registered(given: Any, *upstreams: Any) -> Any:
        return gradient(found() if given is None else given, upstreams, given is None)

    tf.RegisterGradient(name)(registered)
    if entry is not None:
        _registered[name] = entry
    op._set_attr(ATTRIBUTE, attr_value_pb2.AttrValue(s=name.encode()))
    _names(op.graph).names.append(name)


def _names(graph: Any) -> _Names:
    """The names of a graph, kept also by the functions around it, into which it is copied."""
    names = getattr(graph, "_gradwright_names", None)
    if names is None:
        names = graph._gradwright_names = _Names()
        _keep(graph, names)
    return names


def _keep(graph: Any, names: _Names) -> None:
    outer = getattr(graph, "outer_graph", None)
    while isinstance(outer, private.FuncGraph) or (outer is not None and not ops.executing_eagerly_outside_functions()):
        _kept(outer).append(names)
        outer = getattr(outer, "outer_graph", None)


def hand_over(source: Any, target: Any) -> None:
    """Let the names that one graph needs live as long as another, a copy of it."""
    own = getattr(source, "_gradwright_names", None)
    _kept(target).extend([*_kept(source), *([own] if own is not None else [])])


def _kept(graph: Any) -> list[_Names]:
    """The names of other graphs that a graph keeps alive."""
    if not hasattr(graph, "_gradwright_kept"):
        graph._gradwright_kept = []
    return graph._gradwright_kept
