"""What ran inside a traced function: its graph is run again, op by op and eagerly, and each op becomes a node.

The line of a node is the line that made the graph's op. Variables are read as they were when the call began, and
what the function assigns is kept aside: running again changes nothing. Conditionals take the branch that their
values choose, loops go round as often as they went. Ops without outputs (prints, asserts, summaries) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import ops, tensor_util
from tensorflow.python.framework.func_graph import FuncGraph

from gradwright.explain import lines
from gradwright.explain.record import Log, Node
from gradwright.frameworks import tf_explain as recorder
from gradwright.frameworks import tf_explain_places as places
from gradwright.frameworks import tf_explain_pull as pull
from gradwright.frameworks import tf_graph

CALLS = ("PartitionedCall", "StatefulPartitionedCall")
BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
LOOPS = ("While", "StatelessWhile")
_ONCE = ("IteratorGetNext", "QueueDequeue", "StackPop", "Placeholder", "Switch", "Merge", "Enter", "NextIteration")
_WRITES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


class NotUnfoldable(Exception):
    """The function holds an op that cannot be run a second time by itself."""


@dataclass
class Scope:
    """One run of one graph: what each of its tensors was, and the variables' values as this run sees them."""

    graph: Any
    log: Log
    states: dict[int, Any]
    outer: Scope | None = None
    values: dict[int, Any] = field(default_factory=dict)

    def __getitem__(self, tensor: Any) -> Any:
        scope: Scope | None = self
        while scope is not None:
            if tensor._id in scope.values:
                return scope.values[tensor._id]
            scope = scope.outer
        if isinstance(tensor, ops.EagerTensor):
            return tensor
        if tensor.graph is self.graph:  # pruned before, wanted now by a custom gradient
            _step(tensor.op, self)
            return self.values[tensor._id]
        raise NotUnfoldable(f"{tensor.name} is of another graph")


def variables_before(log: Log, graph: Any, inputs: list) -> dict[int, Any]:
    """The values, at this moment, of the variables that a function is about to read (sharing their memory)."""
    read = tf.raw_ops.ReadVariableOp
    mine = {v.handle._id: v for v in graph.variables if isinstance(getattr(v, "handle", None), ops.EagerTensor)}
    given = {t._id for t in inputs if isinstance(t, ops.EagerTensor) and t.dtype == tf.resource}
    with recorder.at_rest():
        return {key: read(resource=v.handle, dtype=v.dtype) for key, v in mine.items() if key in given}


def unfold(parent: Log, graph: Any, inputs: list, outputs: list, states: dict[int, Any]) -> list[Node] | None:
    """The nodes that ran inside a call, ending in links to the call's outputs; None if it cannot be run again."""
    log = Log(parent.keep_values)
    scope = Scope(graph, log, dict(states))
    try:
        with recorder.into(log), recorder.stopped(), recorder.again(_plain.__code__):
            results = _run(scope, inputs)
    except (NotUnfoldable, tf.errors.OpError, LookupError, AttributeError, TypeError, ValueError):
        return None
    parent.exits += log.exits
    parent.values.update(log.values)
    parent.kinds.update(log.kinds)
    for node in log.nodes:
        node.stopped = False
    return log.nodes + [recorder.link(a, b) for a, b in zip(results, outputs, strict=False)]


def _run(scope: Scope, inputs: list) -> list:
    scope.values.update((inner._id, outer) for inner, outer in zip(scope.graph.inputs, inputs, strict=True))
    for operation in _needed(scope.graph):
        _step(operation, scope)
    return [scope[t] for t in scope.graph.outputs]


def _needed(graph: Any) -> list:
    """The operations that the outputs depend on, and the assignments, in the order in which they were made."""
    pending = [t.op for t in graph.outputs] + [op for op in graph.get_operations() if op.type in _WRITES]
    found = {t.op for t in graph.inputs}
    needed = set()
    while pending:
        op = pending.pop()
        if op not in needed and op not in found:
            needed.add(op)
            pending.extend(t.op for t in op.inputs if t.graph is graph)
    return [op for op in graph.get_operations() if op in needed]


def _step(operation: Any, scope: Scope) -> None:
    """Run one operation and note its outputs."""
    kind = operation.type
    if kind in _ONCE:
        raise NotUnfoldable(kind)
    inputs = [scope[t] for t in operation.inputs]
    outputs = _control(operation, inputs, scope) if kind in (*CALLS, *BRANCHES, *LOOPS) else None
    if outputs is None:
        outputs = _variable(operation, inputs, scope)
    if outputs is None:
        outputs = _plain(operation, inputs, scope)
    scope.values.update((t._id, value) for t, value in zip(operation.outputs, outputs, strict=True))


def _control(operation: Any, inputs: list, scope: Scope) -> list:
    if operation.type in CALLS:
        return _inside(called_graph(operation), inputs, scope)
    if operation.type in BRANCHES:
        chosen, graphs = inputs[0], branch_graphs(operation)
        index = int(chosen._numpy()) if "Case" in operation.type else int(not bool(chosen._numpy()))
        index = index if 0 <= index < len(graphs) else len(graphs) - 1
        return _inside(graphs[index], inputs[1:], scope)
    test, body = loop_graphs(operation)
    while bool(_inside(test, inputs, scope)[0]._numpy()):
        inputs = _inside(body, inputs, scope)
    return inputs


def _inside(graph: Any, inputs: list, scope: Scope) -> list:
    return _run(Scope(graph, scope.log, scope.states, scope), inputs)


def called_graph(operation: Any) -> Any:
    """The graph of the function that a call in a graph runs."""
    function = _function(operation, operation.get_attr("f").name)
    return function.graph


def _function(operation: Any, name: str) -> Any:
    graph = operation.graph
    while graph is not None:
        function = graph._get_function(name)
        if function is not None:
            return function
        graph = getattr(graph, "outer_graph", None)
    raise NotUnfoldable(f"the function {name} is gone")


def branch_graphs(operation: Any) -> list:
    """The graphs of a conditional, then before else; as traced if TensorFlow still has them, with their lines."""
    from tensorflow.python.ops import cond_v2

    if operation.type in ("If", "StatelessIf"):
        kept = [getattr(operation, name, None) for name in ("_true_graph", "_false_graph")]
    else:
        count = len(operation.get_attr("branches"))
        kept = [getattr(operation, f"_branch_graph_{i}", None) for i in range(count)]
    return kept if all(g is not None for g in kept) else list(cond_v2.get_func_graphs(operation))


def loop_graphs(operation: Any) -> tuple[Any, Any]:
    """The graphs of a loop's test and body."""
    from tensorflow.python.ops import while_v2

    test = getattr(operation, "_cond_graph", None) or while_v2._get_graph(operation, "cond", "_cond_graph")
    body = getattr(operation, "_body_graph", None) or while_v2._get_graph(operation, "body", "_body_graph")
    return test, body


def _variable(operation: Any, inputs: list, scope: Scope) -> list | None:
    """Reads and writes of variables, done beside the real ones; None for every other op."""
    if operation.type not in (*_WRITES, "ReadVariableOp", "ResourceGather"):
        return None
    handle = inputs[0]
    if operation.type not in _WRITES and handle._id not in scope.states:
        return None
    stored = scope.states.get(handle._id)
    where = lines.of_trace(operation.traceback)
    if operation.type in _WRITES:
        if stored is None and operation.type != "AssignVariableOp":
            raise NotUnfoldable(operation.type)
        sign = {"AssignVariableOp": 0, "AssignAddVariableOp": 1, "AssignSubVariableOp": -1}[operation.type]
        with recorder.at_rest():
            scope.states[handle._id] = inputs[1] if sign == 0 else stored + sign * inputs[1]
        recorder.note(scope.log, operation.type, (), inputs, [], where)
        return []
    with recorder.at_rest():
        fresh = tf.identity(stored)
    if operation.type == "ReadVariableOp":
        recorder.note(scope.log, "ReadVariableOp", (), [handle], [fresh], where)
        return [fresh]
    recorder.note(scope.log, "ReadVariableOp", (), [handle], [fresh], where)
    with recorder.at_rest():
        found = tf.gather(fresh, inputs[1], batch_dims=operation.get_attr("batch_dims"))
    axis = operation.get_attr("batch_dims")
    attrs = ("batch_dims", axis)
    zero = tf.constant(axis)
    recorder.note(scope.log, "GatherV2", attrs, [fresh, inputs[1], zero], [found], where)
    return [found]


def _plain(operation: Any, inputs: list, scope: Scope) -> list:
    """Any other op: run by itself, with the pullback that its graph op has."""
    if not operation.outputs:
        return []
    if operation.type == "Const":
        return [tf.constant(tensor_util.MakeNdarray(operation.get_attr("value")), operation.outputs[0].dtype)]
    attrs, where = attributes(operation), lines.of_trace(operation.traceback)
    recorder.running(where)
    found = execute.quick_execute(operation.type, len(operation.outputs), inputs, attrs, context.context())
    outputs = list(found) if isinstance(found, (list, tuple)) else [found]
    node = recorder.note(scope.log, operation.type, attrs, inputs, outputs, where)
    node.direct = directly(operation)
    if gradient_name(operation) is not None:
        function = as_rule(node, operation)
        node.pull = partial(_pull_rule, function, operation, outputs, scope, len(node.inputs))
        if not scope.log.keep_values:
            recorder.forget(node, outputs)
    return outputs


def directly(operation: Any) -> bool:
    """Whether the user's own code made a graph op that closes a way."""
    if operation.type not in places.CLOSED:
        return True
    names = []
    for entry in reversed(list(operation.traceback or ())):
        if lines.rank(entry.filename) != lines.INSIDE:
            break
        names.append(entry.name)
    return places.direct(operation.type, names)


def gradient_name(operation: Any) -> str | None:
    """The name under which a graph op has a gradient of its own (a custom gradient, an override); else None."""
    given = operation.node_def.attr
    return given["_gradient_op_type"].s.decode() if "_gradient_op_type" in given else None


def as_rule(node: Node, operation: Any) -> Any:
    """Make a node one of a custom gradient, if its graph op has one of the user's; gives the gradient function.

    An IdentityN that carries a custom gradient takes the rule's results first, then its arguments: only the
    arguments are inputs of the rule.
    """
    function = ops.get_gradient_function(operation)
    emission = tf_graph.live(operation)
    if emission is not None:
        node.rule, node.op = emission.pullback.grad, emission.pullback.rule.__name__
    elif function is not None:
        node.rule = pull.users_function(function)
        node.op = getattr(node.rule, "__qualname__", node.op).split(".<locals>")[0].split(".")[-1]
    node.kind = "op" if node.rule is None else "rule"
    if operation.type == "IdentityN":
        first, last = _arguments(operation, function, emission)
        node.inputs = tuple(key if first <= i < last else None for i, key in enumerate(node.inputs))
    return function


def _arguments(operation: Any, function: Any, emission: Any) -> tuple[int, int]:
    """Which inputs of a custom gradient's op are arguments of the rule: not its results, nor what it carries along."""
    if emission is not None:
        results, arguments, _ = emission.counts
        return results, results + arguments
    results = pull.closed_over(pull.closed_over(function, "tape_grad_fn"), "flat_result_len")
    if results is None:  # not TensorFlow's own decorator: results are what others use
        results = 1 + max((t.value_index for t in operation.outputs if t.consumers()), default=0)
    return results, len(operation.inputs)


def _pull_rule(function: Any, operation: Any, outputs: list, scope: Scope, count: int, upstreams: list) -> list:
    """Trace the gradient function beside its graph, as it was written for symbols, and run that trace with values."""
    filled = pull._filled(upstreams, outputs)
    places = [(i, up) for i, up in enumerate(filled) if up is not None]
    traced = FuncGraph("pullback")
    with traced.as_default():
        symbols: list = [None] * len(filled)
        for i, up in places:
            symbols[i] = tf.compat.v1.placeholder(up.dtype, up.shape)
        with recorder.at_rest():
            found = pull._listed(function(operation, *symbols), count)
        found = [None if g is None else traced.capture(tf.convert_to_tensor(g)) for g in found]
    traced.outputs = [g for g in found if g is not None]
    traced.inputs = [symbols[i] for i, _ in places] + list(traced.internal_captures)
    given = [up for _, up in places] + [scope[t] for t in traced.external_captures]
    log = recorder.current() or Log()
    results: Iterator = iter(_run(Scope(traced, log, scope.states, scope), given))
    return [None if g is None else next(results) for g in found]


def attributes(operation: Any) -> tuple:
    """The attributes of a graph op in the form in which eager ops take them."""
    given = operation.node_def.attr
    flat: list = []
    for attribute in operation.op_def.attr:
        if attribute.name in given:
            flat += [attribute.name, _plain_attribute(given[attribute.name], attribute.type)]
    return tuple(flat)


def _plain_attribute(value: Any, kind: str) -> Any:
    if kind.startswith("list("):
        part = kind[5:-1]
        name = {"int": "i", "float": "f", "bool": "b", "string": "s"}.get(part, part)
        values = list(getattr(value.list, name))
        return (
            [_dimensions(v) for v in values]
            if part == "shape"
            else [f.name for f in values]
            if part == "func"
            else values
        )
    if kind == "shape":
        return _dimensions(value.shape)
    if kind == "func":
        return value.func.name
    name = {"int": "i", "float": "f", "bool": "b", "string": "s"}.get(kind, kind)
    return getattr(value, name)


def _dimensions(shape: Any) -> list | None:
    return None if shape.unknown_rank else [d.size for d in shape.dim]
