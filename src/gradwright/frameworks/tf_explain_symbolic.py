"""Explaining while a function is being traced: there are no values, but the graph tells which ways are closed.

Each op's gradient function is tried once, on a symbol, in a graph that is thrown away: it answers None, or zeros that
are known to be zeros, or something. Conditionals count with all their branches, loops with a few rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.framework.func_graph import FuncGraph

from gradwright.explain import lines
from gradwright.explain.causes import Reason
from gradwright.explain.record import Key, Log, Node
from gradwright.explain.walk import NONE, OK, ZERO
from gradwright.frameworks import tf_explain as recorder
from gradwright.frameworks import tf_explain_numbers as numbers
from gradwright.frameworks import tf_explain_pull as pull
from gradwright.frameworks import tf_explain_run as run
from gradwright.frameworks import tf_explain_unfold as unfold
from gradwright.frameworks.tf_values import component

ROUNDS = 3  # of a loop: enough for what one variable of the loop hands to the next
_number = count()


def explain(graph: Any, targets: list, named: list, history: Any, asked: str) -> list[Reason]:
    """One reason per source, for a tape that records a graph."""
    log = Log(keep_values=False)
    view = View(log, {inner._id: outer._id for outer, inner in getattr(graph, "captures", ())})
    log.nodes = list(view.nodes(graph))
    for tensor in [*targets, *(component(s.value) for s in named)]:
        if isinstance(tensor, tf.Tensor):
            log.kinds.setdefault(tensor._id, pull.kind(tensor))
    sources = []
    for source in named:
        cause, since = history.unwatched(component(source.value), run.key_of(source.value), log)
        sources.append(run.source_of(log, source, cause, since))
    return run.judge(log, targets, sources, history, asked, lambda *_: None)


@dataclass
class View:
    """How the tensors of one graph, at one place where it is used, are called in the record."""

    log: Log
    names: dict[int, Key]
    place: int | None = None

    def key(self, tensor: Any) -> Key:
        """The key of a tensor; its kind is noted on the way."""
        own = tensor._id if self.place is None else (self.place, tensor._id)
        key = self.names.get(tensor._id, own)
        if key not in self.log.kinds:
            self.log.kinds[key] = pull.kind(tensor)
        return key

    def nodes(self, graph: Any) -> Iterator[Node]:
        """A node for each operation, in the order in which they were made."""
        for index, operation in enumerate(graph.get_operations()):
            yield self.node(operation, index)

    def node(self, operation: Any, index: int) -> Node:
        """The node of one operation."""
        inputs = tuple(self.key(t) for t in operation.inputs)
        outputs = tuple(self.key(t) for t in operation.outputs)
        node = Node(operation.type, lines.of_trace(operation.traceback), inputs, outputs, index=index)
        node.direct = unfold.directly(operation)
        node.pull = partial(_local, node, operation)
        if operation.type in (*unfold.CALLS, *unfold.BRANCHES, *unfold.LOOPS):
            node.kind, node.unfold = "call", partial(self._inside, operation, node)
        elif unfold.gradient_name(operation) is not None:
            unfold.as_rule(node, operation)
            node.pull = partial(_local, node, operation)
        elif operation.type in ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"):
            recorder._note_assignment(self.log, node)
        elif operation.type == "ReadVariableOp":
            recorder._note_read(self.log, node)
        return node

    def _inside(self, operation: Any, node: Node) -> list[Node] | None:
        try:
            if operation.type in unfold.CALLS:
                nodes, results = self._use(unfold.called_graph(operation), node.inputs)
                return nodes + [join([a], b) for a, b in zip(results, node.outputs, strict=False)]
            if operation.type in unfold.BRANCHES:
                used = [self._use(graph, node.inputs[1:]) for graph in unfold.branch_graphs(operation)]
                ends = zip(*(results for _, results in used), strict=True)
                return [n for nodes, _ in used for n in nodes] + [
                    join(list(parts), out) for parts, out in zip(ends, node.outputs, strict=False)
                ]
            return self._rounds(unfold.loop_graphs(operation)[1], node)
        except (unfold.NotUnfoldable, KeyError, AttributeError, ValueError):
            return None

    def _rounds(self, body: Any, node: Node) -> list[Node]:
        nodes: list[Node] = []
        carried = [[key] for key in node.inputs]
        for _ in range(ROUNDS):
            inside, results = self._use(body, tuple(keys[-1] for keys in carried))
            nodes += inside
            for keys, result in zip(carried, results, strict=True):
                keys.append(result)
        return nodes + [join(keys, out) for keys, out in zip(carried, node.outputs, strict=True)]

    def _use(self, graph: Any, inputs: tuple) -> tuple[list[Node], list[Key]]:
        names = {inner._id: key for inner, key in zip(graph.inputs, inputs, strict=True)}
        view = View(self.log, names, next(_number))
        return list(view.nodes(graph)), [view.key(t) for t in graph.outputs]


def join(parts: list[Key], whole: Key) -> Node:
    """A node that says: this tensor is one of those."""
    return Node("", "", tuple(parts), (whole,), pull=lambda upstreams: list(upstreams) * len(parts), kind="link")


def _local(node: Node, operation: Any, upstreams: list) -> list:
    """The states that an operation's gradient function sends back; it is tried once, and the answer kept."""
    node.pull = pull.by_state(_tried(node, operation))
    return node.pull(upstreams)


def _tried(node: Node, operation: Any) -> list[str]:
    nothing = [NONE] * len(node.inputs)
    try:
        function = ops.get_gradient_function(operation)
        if function is None:
            return nothing
        with FuncGraph("tried").as_default(), recorder.at_rest():
            node_call = partial(_call, function, operation)
            if node.kind == "rule":
                found, node.rule = numbers.with_line_of_return(node_call)
            else:
                found = node_call()
            return ([_state(g) for g in pull._listed(found, 0)] + nothing)[: len(nothing)]
    except (LookupError, NotImplementedError, AttributeError, ValueError, TypeError) as error:
        node.lost = str(error).splitlines()[0] if str(error) else type(error).__name__
        return nothing


def _call(function: Any, operation: Any) -> Any:
    symbols = [
        tf.compat.v1.placeholder(t.dtype, t.shape) if pull.differentiable(t) else None for t in operation.outputs
    ]
    return function(operation, *symbols)


def _state(gradient: Any) -> str:
    if gradient is None:
        return NONE
    if isinstance(gradient, tf.IndexedSlices):
        return OK
    known = tf.get_static_value(gradient)
    zero = gradient.op.type == "ZerosLike" or (known is not None and known.size and not known.any())
    return ZERO if zero else OK
