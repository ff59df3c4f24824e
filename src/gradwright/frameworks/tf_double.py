"""A TensorFlow function as a graph in double precision, with the variables it reads as inputs.

The function is traced once in its own precision; every float type in the graph is then made double, constants and
captured values included, and reads of variables become inputs. The result is the same mathematics as the user's
float32 program, without its rounding, movable along any variable, and with no custom gradient left in it.
Graphs that cannot be rewritten (an op without a double kernel, hash tables, assignments) raise `NoDouble`.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

WIDER = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}
READS = {"ReadVariableOp": "Identity", "ResourceGather": "Gather"}
_numbers = itertools.count()


class NoDouble(Exception):
    """The graph has no double precision twin."""


def widened(dtype: Any) -> int:
    """The dtype's enum in double precision; others stay as they are."""
    import tensorflow as tf

    name = tf.as_dtype(dtype).name
    return tf.as_dtype(WIDER.get(name, name)).as_datatype_enum


class DoubleGraph:
    """`fn(*tensors)` -> list of float tensors, in double precision; `leaves` are example tensors, then variables."""

    def __init__(self, fn: Callable[..., Any], tensors: list[Any], variables: list[Any]):
        import tensorflow as tf

        specs = [tf.TensorSpec(t.shape, t.dtype) for t in tensors]
        concrete = tf.function(fn, autograph=False).get_concrete_function(*specs)
        self.outputs = [t.name for t in concrete.outputs if t.dtype.is_floating or t.dtype.is_complex]
        self.definition = _inlined(concrete)
        self.inputs, self.fixed = _split(concrete, len(tensors), variables)
        _widen(self.definition, {name for name, _ in self.fixed} | set(self.inputs))
        weakref.finalize(self, _forget, _register(self.definition))
        self.specs = [tf.TensorSpec(t.shape, widened(t.dtype)) for t in [*tensors, *variables]]
        self._forward: Any = None
        self._gradients: Any = None

    def forward(self, values: list[np.ndarray]) -> list[np.ndarray]:
        """The outputs at these values."""
        import tensorflow as tf

        if self._forward is None:
            self._forward = self._compiled(lambda *xs: self._import(self.definition, list(xs), self.outputs))
        return [t.numpy() for t in self._forward(*[tf.constant(v) for v in values])]

    def gradients(self, values: list[np.ndarray], upstreams: list[np.ndarray]) -> list[np.ndarray | None]:
        """TensorFlow's own gradient of the forward for these upstreams."""
        import tensorflow as tf

        if self._gradients is None:
            self._gradients = self._pullback([self.definition], None, upstreams)
        found = self._gradients(*[tf.constant(v) for v in (*values, *upstreams)])
        return [g.numpy() for g in found[0]]

    def intermediates(self, values: list[np.ndarray]) -> list[tuple[str, np.ndarray]]:
        """The float tensors that the forward computes on its way."""
        import tensorflow as tf

        nodes = [n for n in self.definition.node if n.op not in ("Placeholder", "Const", "NoOp", "Identity")][:60]
        names = [f"{n.name}:0" for n in nodes]
        live: list[Any] = []

        def run(*xs: Any) -> list[Any]:
            tensors = self._import(self.definition, list(xs), names)
            live[:] = [i for i, t in enumerate(tensors) if t.dtype.is_floating or t.dtype.is_complex]
            return [tensors[i] for i in live]

        found = self._compiled(run)(*[tf.constant(v) for v in values])
        return [(nodes[i].name, t.numpy()) for i, t in zip(live, found, strict=True)]

    def cuts(self, values: list[np.ndarray], upstreams: list[np.ndarray], leaf: int) -> list[tuple[str, bool, Any]]:
        """One input's gradient with one way of its influence cut: (op, whether the cut is at the input, gradient)."""
        import tensorflow as tf

        source = self.inputs[leaf]
        edges = list(_forks(self.definition, source))[:24]
        if not edges or len(self.definition.node) > 400:
            return []
        found = self._pullback([_cut(self.definition, node, slot) for node, slot, _ in edges], leaf, upstreams)(
            *[tf.constant(v) for v in (*values, *upstreams)]
        )
        told = [(self.definition.node[node].name, first) for node, _, first in edges]
        return [(name, first, g[0].numpy()) for (name, first), g in zip(told, found, strict=True)]

    def _compiled(self, fn: Callable[..., Any], extra: list[Any] | None = None) -> Any:
        import tensorflow as tf

        # A concrete function: TensorFlow warns of functions that are made again and again.
        return tf.function(fn, autograph=False).get_concrete_function(*self.specs, *(extra or []))

    def _import(self, definition: Any, tensors: list[Any], names: list[str]) -> list[Any]:
        import tensorflow as tf

        given = dict(zip(self.inputs, tensors, strict=True)) | {n: tf.constant(v) for n, v in self.fixed}
        present = {node.name for node in definition.node}
        given = {f"{name}:0": t for name, t in given.items() if name in present}
        outputs = [name if name.split(":")[0] not in self.inputs else None for name in names]
        found = iter(tf.graph_util.import_graph_def(definition, given, [n for n in outputs if n], name="twin"))
        whole = dict(zip(self.inputs, tensors, strict=True))
        return [next(found) if kept else whole[name.split(":")[0]] for kept, name in zip(outputs, names, strict=True)]

    def _pullback(self, definitions: list[Any], leaf: int | None, upstreams: list[np.ndarray]) -> Any:
        import tensorflow as tf

        count = len(self.specs)

        def run(*given: Any) -> list[list[Any]]:
            xs, ups = [tf.identity(x) for x in given[:count]], list(given[count:])
            wanted = xs if leaf is None else [xs[leaf]]
            found = []
            for definition in definitions:
                ys = self._import(definition, xs, self.outputs)
                zeros = tf.UnconnectedGradients.ZERO
                gradients = tf.gradients(ys, wanted, grad_ys=ups, unconnected_gradients=zeros)
                found.append([tf.convert_to_tensor(g) for g in gradients])
            return found

        return self._compiled(run, [tf.TensorSpec(u.shape, u.dtype) for u in upstreams])


def _inlined(concrete: Any) -> Any:
    """The graph with calls replaced by their bodies: TensorFlow cannot differentiate a call that was imported."""
    definition = concrete.graph.as_graph_def()
    if not any(node.op.endswith("PartitionedCall") for node in definition.node):
        return definition
    from tensorflow.python.framework import convert_to_constants

    return convert_to_constants._run_inline_graph_optimization(concrete, False, True)


def _split(concrete: Any, count: int, variables: list[Any]) -> tuple[list[str], list[tuple[str, np.ndarray]]]:
    """The names of the moving inputs (arguments, then variables), and the captured values that stay."""
    arguments = [t.op.name for t in concrete.inputs[:count]]
    handles = {id(_handle(v)): i for i, v in enumerate(variables)}
    owners = {id(v.handle): v for v in concrete.graph.variables}
    moving, fixed = {}, []
    for outer, inner in concrete.graph.captures:
        if id(outer) in handles:
            moving[handles[id(outer)]] = inner.op.name
        elif id(outer) in owners:
            fixed.append((inner.op.name, _double(owners[id(outer)].numpy())))
        elif outer.dtype.name in ("resource", "variant"):
            raise NoDouble(f"it captures {outer.dtype.name}")
        else:
            fixed.append((inner.op.name, _double(outer.numpy())))
    if len(moving) != len(variables):
        raise NoDouble("it does not read all its variables when traced")
    return arguments + [moving[i] for i in range(len(variables))], fixed


def _handle(variable: Any) -> Any:
    return (
        getattr(variable, "value", None).handle
        if hasattr(getattr(variable, "value", None), "handle")
        else variable.handle
    )


def _double(value: Any) -> np.ndarray:
    import tensorflow as tf

    array = np.asarray(value)
    return array.astype(tf.as_dtype(widened(array.dtype)).as_numpy_dtype)


def _widen(definition: Any, inputs: set[str]) -> None:
    """Make every float of a graph definition double, in its nodes and in its functions."""
    suffix = f"_double{next(_numbers)}"
    _drop_writes(definition)
    names = {f.signature.name for f in definition.library.function}
    for node in list(definition.node):
        if "Random" in node.op and "dtype" in node.attr and _type(node.attr["dtype"].type) != node.attr["dtype"].type:
            _cast_draws(definition, node)
            continue
        _widen_node(node, suffix, names)
        if node.op == "Placeholder" and node.name not in inputs:
            raise NoDouble(f"an input `{node.name}` is unknown")
    for function in definition.library.function:
        function.signature.name += suffix
        for attributes in function.arg_attr.values():
            # The shape noted there is that of the handle, a scalar, not that of the value that now comes in its place.
            attributes.attr.pop("_output_shapes", None)
        for arg in (*function.signature.input_arg, *function.signature.output_arg):
            arg.type = _type(arg.type)
        reads = {f"{node.name}:value:" for node in function.node_def if node.op == "ReadVariableOp"}
        for node in function.node_def:
            _widen_node(node, suffix, names)
            node.input[:] = [_renamed(name, reads) for name in node.input]
        for key in function.ret:
            function.ret[key] = _renamed(function.ret[key], reads)
    del definition.library.gradient[:]


def _renamed(name: str, reads: set[str]) -> str:
    """Inside functions an edge names its source's output: `value` of a read has become `output` of an identity."""
    return name.replace(":value:", ":output:") if any(name.startswith(read) for read in reads) else name


def _register(definition: Any) -> list[str]:
    """Make the functions of a graph known to the eager runtime, which an import alone does not do."""
    from tensorflow.python.eager import context

    for function in definition.library.function:
        context.context().add_function_def(function)
    return [function.signature.name for function in definition.library.function]


def _forget(names: list[str]) -> None:
    from tensorflow.python.eager import context

    for name in names:
        context.context().remove_function(name)


def _drop_writes(definition: Any) -> None:
    """Leave out what writes into variables: moving averages, seeds. The forward of one call does not depend on it."""
    written = {n.name for n in definition.node if n.op.startswith("Assign") and n.op.endswith("VariableOp")}
    kept = [node for node in definition.node if node.name not in written]
    for node in kept:
        node.input[:] = [name for name in node.input if name.lstrip("^").split(":")[0] not in written]
    del definition.node[:]
    definition.node.extend(kept)


def _cast_draws(definition: Any, node: Any) -> None:
    """Random numbers stay those of the original precision: cast, not drawn anew."""
    import tensorflow as tf

    cast = definition.node.add(name=node.name, op="Cast", input=[node.name + "_drawn"])
    cast.attr["SrcT"].type = node.attr["dtype"].type
    cast.attr["DstT"].type = tf.float64.as_datatype_enum
    node.name += "_drawn"


def _type(kind: int) -> int:
    import tensorflow as tf

    if kind == tf.resource.as_datatype_enum:
        return tf.float64.as_datatype_enum
    return widened(kind)


def _widen_node(node: Any, suffix: str, functions: set[str]) -> None:
    import tensorflow as tf

    if node.op in READS:
        _widen_read(node)
    if "T" in node.attr and "output_shapes" in node.attr:
        _forget_handle_shapes(node)
    for key in [k for k in node.attr if k in ("_gradient_op_type", "_output_shapes", "_class")]:
        del node.attr[key]
    if node.op in functions:
        node.op += suffix
    for value in node.attr.values():
        if value.WhichOneof("value") == "type":
            value.type = _type(value.type)
        elif value.WhichOneof("value") == "tensor" and tf.as_dtype(value.tensor.dtype).name in WIDER:
            value.tensor.CopyFrom(tf.make_tensor_proto(_double(tf.make_ndarray(value.tensor))))
        elif value.WhichOneof("value") == "func" and value.func.name in functions:
            value.func.name += suffix
        elif value.WhichOneof("value") == "list":
            value.list.type[:] = [_type(t) for t in value.list.type]
            for func in value.list.func:
                func.name += suffix if func.name in functions else ""


def _forget_handle_shapes(node: Any) -> None:
    """A loop carries a variable's value where it carried its handle: of a shape not told here."""
    import tensorflow as tf

    for kind, shape in zip(node.attr["T"].list.type, node.attr["output_shapes"].list.shape, strict=False):
        if kind == tf.resource.as_datatype_enum:
            shape.Clear()
            shape.unknown_rank = True


def _widen_read(node: Any) -> None:
    kind = node.attr["dtype"].type
    gather = node.op == "ResourceGather"
    indices = node.attr["Tindices"].type
    node.op = READS[node.op]
    node.attr.clear()
    node.attr["Tparams" if gather else "T"].type = kind
    if gather:
        node.attr["Tindices"].type = indices


def _forks(definition: Any, source: str) -> Iterator[tuple[int, int, bool]]:
    """The edges (node, input slot, whether it leaves the source) out of tensors that are used more than once."""
    uses: dict[str, list[tuple[int, int]]] = {}
    for i, node in enumerate(definition.node):
        for slot, name in enumerate(node.input):
            if not name.startswith("^"):
                uses.setdefault(name.removesuffix(":0"), []).append((i, slot))
    first = source
    while len(uses.get(first, [])) == 1 and definition.node[uses[first][0][0]].op == "Identity":
        first = definition.node[uses[first][0][0]].name
    constants = {n.name for n in definition.node if n.op in ("Const", "Placeholder") and n.name != first}
    for name, edges in sorted(uses.items(), key=lambda item: item[0] != first):
        if len(edges) > 1 and name.split(":")[0] not in constants:
            yield from ((node, slot, name == first) for node, slot in edges)


def _cut(definition: Any, index: int, slot: int) -> Any:
    """The graph with no gradient along one edge."""
    import tensorflow as tf

    copy = tf.compat.v1.GraphDef()
    copy.CopyFrom(definition)
    node = copy.node[index]
    stop = copy.node.add(name=f"cut_{index}_{slot}", op="StopGradient", input=[node.input[slot]])
    stop.attr["T"].type = tf.float64.as_datatype_enum
    node.input[slot] = stop.name
    return copy
