"""The private corners of TensorFlow's graphs: gradients by name, attributes of ops, function graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import func_graph, ops

FuncGraph = func_graph.FuncGraph


def in_xla(graph: Any) -> bool:
    """Whether what is put into this graph will be compiled by XLA, where asserts and strings have no place."""
    from tensorflow.python.ops import control_flow_util

    return control_flow_util.GraphOrParentsInXlaContext(graph)


def register_gradient(name: str, function: Callable[..., Any]) -> None:
    """Make a gradient function known under a name."""
    ops.RegisterGradient(name)(function)


def forget_gradient(name: str) -> None:
    """Take a gradient function out of the registry, which has no public way to do so."""
    registry = getattr(ops, "gradient_registry", None) or getattr(ops, "_gradient_registry", None)
    getattr(registry, "_registry", {}).pop(name, None)


def enclosing_graphs(graph: Any) -> list[Any]:
    """A graph and the function graphs around it, to which its ops may be copied."""
    graphs = [graph]
    while isinstance(graph, FuncGraph):
        graph = graph.outer_graph
        if isinstance(graph, FuncGraph):
            graphs.append(graph)
    return graphs


def gradient_name(op: Any) -> str:
    """The name of the gradient that an op was given, or an empty one."""
    try:
        return op.get_attr("_gradient_op_type").decode()
    except ValueError:
        return ""


@contextlib.contextmanager
def outside_graphs() -> Iterator[None]:
    """Within it ops run at once, whatever graph is being built, and no tape sees them."""
    with ops.init_scope(), context.eager_mode():
        yield


def variable_handle(name: str, dtype: Any, shape: Any) -> Any:
    """The handle of a variable that is found by name, with what derivatives want to know of a handle."""
    handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=name)
    try:
        from tensorflow.python.ops import handle_data_util

        handle_data_util.set_handle_data(handle, handle_data_util.create_handle_data(tf.TensorShape(shape), dtype))
    except (ImportError, AttributeError):
        pass  # Only a second derivative of a watched function under XLA, taken from outside, needs it.
    return handle


def attribute(op: Any, name: str) -> Any:
    """An attribute of an op, or None."""
    try:
        return op.get_attr(name)
    except ValueError:
        return None


def set_attribute(op: Any, name: str, value: Any) -> None:
    """Write an attribute into an op; without the private way, saved rules are TensorFlow's own affair."""
    setter = getattr(op, "_set_attr", None)
    if setter is not None:
        setter(name, value)


def is_control_flow(graph: Any) -> bool:
    """Whether a graph is the body of a loop or branch."""
    from tensorflow.python.ops import control_flow_v2_func_graphs as bodies

    kinds = tuple(getattr(bodies, n) for n in ("CondBranchFuncGraph", "WhileCondFuncGraph", "WhileBodyFuncGraph"))
    return isinstance(graph, kinds)


class SideEffects:
    """The ops of a graph that must run though no result needs them, in the order in which they were written.

    TensorFlow's own bookkeeping looks at every op; a graph without a stateful one is spared it.
    """

    def __init__(self, graph: Any):
        from tensorflow.python.framework import auto_control_deps

        self._graph = graph
        self._control = auto_control_deps.AutomaticControlDependencies()
        with graph.as_default():
            self._control.__enter__()

    def settle(self) -> set[Any]:
        """Order the ops that have effects; they are to be the control outputs of the function."""
        if any(op._is_stateful for op in self._graph.get_operations()):
            self._control.__exit__(None, None, None)
            return self._control.ops_which_must_run
        self._graph._add_control_dependencies = False
        return set()


def placeholder(dtype: Any, shape: Any) -> Any:
    """A place for a value in the function graph that is being built."""
    from tensorflow.python.eager import graph_only_ops

    return graph_only_ops.graph_placeholder(dtype, shape)


def outside_of(graph: Any, tensor: Any) -> Any:
    """The tensor that a place of a function graph was captured from; tapes know variables by that handle."""
    for external, internal in getattr(graph, "captures", ()):
        if internal is tensor:
            return external
    return tensor


def is_branch_gradient(graph: Any) -> bool:
    """Whether a graph is the gradient of a branch of tf.cond."""
    return type(graph).__name__ == "_CondGradFuncGraph"
