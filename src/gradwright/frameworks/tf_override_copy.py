"""Copies of traced functions with other gradients, for functions whose Python source is gone.

The graph of the function and all that it calls (branches, loops, other functions) is loaded again under new
names; ops that a rule answers for are tagged on the way. Captured tensors and variables are those of the
original, which is not touched.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tensorflow.core.framework import function_pb2
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.saved_model import function_deserialization

from gradwright.errors import OverrideError
from gradwright.frameworks import tf_override_ops as known
from gradwright.frameworks import tf_override_relocate as relocate
from gradwright.frameworks import tf_override_state as state
from gradwright.frameworks import tf_override_tags as tags
from gradwright.override import messages
from gradwright.override.conditions import Site, ambiguous
from gradwright.override.entries import Entry, narrowest


def copy_for(function: Any, activation: state.Activation) -> Any:
    """The copy of a traced function for one activation, or None where no rule finds an op in it."""
    if function not in activation.copies:
        activation.copies[function] = _new_copy(function, activation)
    return activation.copies[function]


def _new_copy(function: Any, activation: state.Activation) -> Any:
    library = _library(function)
    types = {node.op for one in library.function for node in one.node_def}
    state.met(activation, types)
    if not types & set(activation.table):
        return None
    _refuse_ambiguous(library, activation)
    from gradwright.frameworks.tf_override_record import tag

    served: list[Entry] = []

    def with_rules(one: Any) -> Any:
        return _tagged(one, activation, lambda op, entry: (tag(op, entry), served.append(entry)))

    with _quiet():
        loaded = function_deserialization.load_function_def_library(library, wrapper_function=with_rules)
    if not served:
        return None
    return _finished(loaded, function)


def _refuse_ambiguous(library: Any, activation: state.Activation) -> None:
    """Refuse to guess which ops are of a layer: a graph keeps only names."""
    for op_type, candidates in activation.table.items():
        names = [node.name for one in library.function for node in one.node_def if node.op == op_type]
        for entry in candidates:
            found = ambiguous(entry.conditions.layers, names)
            if found is not None:
                raise OverrideError(messages.ambiguous_layer(*found))


def _library(function: Any) -> Any:
    """The definition of a function and of everything it calls; not of what was made for its gradient."""
    known_by_name = {one.signature.name: one for one in function.graph.as_graph_def().library.function}
    library, pending, seen = function_pb2.FunctionDefLibrary(), [function.function_def], set()
    while pending:
        one = pending.pop()
        if one.signature.name in seen:
            continue
        seen.add(one.signature.name)
        copied = library.function.add()
        copied.CopyFrom(one)
        # These name functions for the gradient of the original, which the copy must not share.
        for name in ("forward_function_name", "backward_function_name"):
            copied.attr.pop(name, None)
        pending += [known_by_name[name] for name in _called(one) if name in known_by_name]
    return library


def _called(definition: Any) -> Iterator[str]:
    """The names of the functions that a function calls."""
    for node in definition.node_def:
        yield node.op
        for value in node.attr.values():
            if value.HasField("func"):
                yield value.func.name
            yield from (one.name for one in value.list.func)


def _tagged(loaded: Any, activation: state.Activation, tag: Callable[[Any, Entry], Any]) -> Any:
    """A loaded function with the rules on its ops; defined once more, because the tags belong to its definition."""
    pairs = [(op, entry) for op, entry in _answers(loaded.graph, activation) if entry is not None]
    for op, entry in pairs:
        entry.hit(op.name)
        tag(op, entry)
    if not relocate.custom_gradients(loaded.graph) and not pairs:
        return loaded
    return concrete_function.ConcreteFunction.from_func_graph(
        loaded.graph, loaded.function_type, attrs=loaded.function_def.attr
    )


def _answers(graph: Any, activation: state.Activation) -> Iterator[tuple[Any, Entry | None]]:
    """Each op of a wanted type, with the rule that answers for it, if one can."""
    passed = None
    for op in graph.get_operations():
        candidates = activation.table.get(op.type)
        if not candidates or tags.tag_of(op) is not None or (op.type == "Identity" and _is_plumbing(op, graph)):
            continue
        entry = narrowest(candidates, lambda op=op: op, lambda op=op: Site(op.name))
        if entry is None:
            continue
        passed = passed if passed is not None else _passed_by_gradients(graph)
        reason = known.blocked(op.inputs, op.outputs)
        if reason is None and op.name not in passed:
            reason = "inside a custom gradient, which answers for its inputs itself (or its output is unused)"
        if reason is None and ("gradient_tape/" in op.name or op.name.startswith("gradients/")):
            reason = "in a backward pass that the function computed when it was traced; override the tf.function"
        if reason is not None:
            entry.hits.miss(entry.op_type, reason)
        yield op, None if reason else entry


def _passed_by_gradients(graph: Any) -> set[str]:
    """The names of the ops that a gradient of the outputs comes through.

    At a custom gradient, an IdentityN whose first inputs are the results, it goes on to the other inputs only.
    """
    pending, seen = [t.op for t in graph.outputs], set()
    while pending:
        op = pending.pop()
        if op.name in seen:
            continue
        seen.add(op.name)
        pending += [t.op for t in _followed(op)]
    return seen


def _followed(op: Any) -> list[Any]:
    inputs = list(op.inputs)
    if op.type != "IdentityN" or tags.tag_of(op) is None:
        return inputs
    used = [bool(output.consumers()) for output in op.outputs]
    results = max((i + 1 for i, one in enumerate(used) if one), default=0)
    return inputs[results:]


_AROUND = known.CALLS | {"ReadVariableOp"}


def _is_plumbing(op: Any, graph: Any) -> bool:
    """Whether an identity was put there by TensorFlow: around a result, a branch, a loop, a variable read."""
    returned = any(op.outputs[0] is t for t in graph.outputs)
    return returned or op.inputs[0].op.type in _AROUND


def _finished(loaded: dict[str, Any], function: Any) -> Any:
    """The copy, with the original's signature and variables."""
    graph = loaded[function.function_def.signature.name].graph
    for one in loaded.values():
        if one.graph is not graph:
            tags.hand_over(one.graph, graph)
    tags.hand_over(function.graph, graph)
    attrs = loaded[function.function_def.signature.name].function_def.attr
    made = concrete_function.ConcreteFunction.from_func_graph(graph, function.function_type, attrs=attrs)
    made.set_variables(function.graph.variables)
    return made


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the loader's warning on custom gradients: they are registered in this process, and found."""
    thread = threading.get_ident()

    def wanted(record: logging.LogRecord) -> bool:
        return record.thread != thread or "unsaved custom gradients" not in str(record.msg)

    logger = logging.getLogger("absl")
    logger.addFilter(wanted)
    try:
        yield
    finally:
        logger.removeFilter(wanted)
