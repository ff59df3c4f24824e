"""Is a lifted pullback linear in its upstreams? Read off its graph, op by op.

Forward mode transposes a pullback, which is right only for linear ones. In a graph there are no numbers to try, so
the ops tell: those that are linear in the upstream pass, those that are not refuse, and what cannot be seen into
(python, loops) is tried with numbers when the graph runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

# Linear in every input that depends on the upstream; the others are indices, shapes, permutations.
LINEAR = frozenset(
    """Identity IdentityN Snapshot PreventGradient StopGradient CheckNumerics EnsureShape Neg Reshape Transpose
    ConjugateTranspose Conj Real Imag Cast Bitcast Sum Mean ExpandDims Squeeze Slice StridedSlice StridedSliceGrad
    Gather GatherV2 GatherNd ScatterNd ResourceGather Tile BroadcastTo ReverseV2 Reverse ReverseSequence Cumsum Roll
    MatrixBandPart MatrixDiag MatrixDiagV2 MatrixDiagV3 MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 Diag DiagPart
    MatrixTranspose FFT FFT2D FFT3D IFFT IFFT2D IFFT3D RFFT RFFT2D IRFFT IRFFT2D UnsortedSegmentSum SegmentSum
    SegmentMean SpaceToDepth DepthToSpace SpaceToBatchND BatchToSpaceND ResizeBilinear ResizeBilinearGrad
    ResizeNearestNeighbor ResizeNearestNeighborGrad ResizeBicubic AvgPool AvgPoolGrad AvgPool3D AvgPool3DGrad
    BiasAddGrad Unpack Split SplitV Pad PadV2 MirrorPad MirrorPadGrad Complex ExtractImagePatches
    InvertPermutation Optimization_Barrier""".split()
)
# Sums: every input must depend on the upstream, or be zero.
ADDITIVE = frozenset("Add AddV2 Sub AddN Concat ConcatV2 Pack ParallelConcat BiasAdd".split())
# Products: exactly one input may depend on the upstream.
PRODUCT = frozenset(
    """Mul MulNoNan MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum Conv2D Conv2DBackpropInput
    Conv2DBackpropFilter Conv3D Conv3DBackpropInputV2 Conv3DBackpropFilterV2 DepthwiseConv2dNative
    DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter Cross SparseTensorDenseMatMul""".split()
)
# Only this input may depend on the upstream.
ONLY = {
    "RealDiv": 0, "Div": 0, "DivNoNan": 0, "Xdivy": 0, "MatrixSolve": 1, "MatrixTriangularSolve": 1, "BiasAddV1": 0,
    "ReluGrad": 0, "Relu6Grad": 0, "LeakyReluGrad": 0, "EluGrad": 0, "SeluGrad": 0, "MaxPoolGrad": 2,
    "TanhGrad": 1, "SigmoidGrad": 1, "RsqrtGrad": 1, "SqrtGrad": 1, "ReciprocalGrad": 1, "SoftplusGrad": 0,
    "SoftsignGrad": 0, "FusedBatchNormGradV3": 0, "UnsortedSegmentProd": -1,
}  # fmt: skip
# What they give depends on shapes only.
FREE = frozenset("Shape ShapeN Size Rank ZerosLike OnesLike BroadcastGradientArgs BroadcastArgs".split())
CHOICE = frozenset("Select SelectV2".split())
CALLS = frozenset("PartitionedCall StatefulPartitionedCall".split())
OPAQUE = frozenset(
    """PyFunc PyFuncStateless EagerPyFunc If StatelessIf While StatelessWhile Case StatelessCase SymbolicGradient
    TensorListSetItem TensorListStack TensorListFromTensor TensorListGetItem TensorListPushBack TensorListPopBack
    XlaCallModule""".split()
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Linear, not linear (and why), or not to be seen."""

    linear: bool = False
    reason: str | None = None

    @property
    def unknown(self) -> bool:
        """Whether only numbers can tell."""
        return not self.linear and self.reason is None


class _Nonlinear(Exception):
    pass


class _Unseen(Exception):
    pass


def of_graph(graph: Any, upstreams: int) -> Verdict:
    """Read a traced pullback, whose first inputs are the upstreams."""
    try:
        depends = follow(graph, {id(t) for t in graph.inputs[:upstreams]})
        for output in graph.outputs:
            if id(output) not in depends and output.dtype.is_floating and not is_zero(output):
                return Verdict(reason="a gradient does not depend on the upstream")
    except _Nonlinear as found:
        return Verdict(reason=str(found))
    except _Unseen:
        return Verdict()
    return Verdict(linear=True)


def follow(graph: Any, depends: set[int]) -> set[int]:
    """Follow the upstreams through the ops of a graph; the tensors that depend on them linearly."""
    needed = ancestors(graph.outputs)
    for op in graph.get_operations():
        if op not in needed:
            continue
        which = [i for i, t in enumerate(op.inputs) if id(t) in depends]
        if which and op.outputs:
            depends.update(id(op.outputs[i]) for i in through(op, which))
    return depends


def ancestors(outputs: list[Any]) -> set[Any]:
    """The ops that the outputs depend on; a graph may hold others, as where a tape looked on while it was built."""
    found: set[Any] = set()
    waiting = [tensor.op for tensor in outputs]
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting.extend(tensor.op for tensor in op.inputs)
    return found


def through(op: Any, which: list[int]) -> list[int]:
    """The outputs that depend on the upstream where these inputs do; refuses what is not linear."""
    kind, every = op.type, list(range(len(op.outputs)))
    if kind in FREE:
        return []
    if kind in CALLS:
        return through_call(op, which)
    if kind == "IdentityN":
        return which
    if kind in OPAQUE:
        raise _Unseen
    if kind in LINEAR:
        return every
    if kind in PRODUCT and len(which) == 1:
        return every
    if kind in ONLY and which == [ONLY[kind]]:
        return every
    if kind in ADDITIVE | CHOICE:
        data = op.inputs[1:] if kind in CHOICE else op.inputs[:-1] if kind == "ConcatV2" else op.inputs
        if (kind in CHOICE and 0 in which) or not adds_up(op, which, list(data)):
            raise _Nonlinear(described(op, "adds something to, or chooses by, the upstream"))
        return every
    raise _Nonlinear(described(op, "is not linear in the upstream"))


def adds_up(op: Any, which: list[int], data: list[Any]) -> bool:
    """Whether the inputs of a sum that do not depend on the upstream are zero."""
    marked = {id(op.inputs[i]) for i in which}
    return all(id(t) in marked or is_zero(t) for t in data)


def through_call(op: Any, which: list[int]) -> list[int]:
    """Follow the upstream into a function."""
    function = op.graph._get_function(op.get_attr("f").name)
    inner = getattr(function, "graph", None)
    if inner is None:
        raise _Unseen
    depends = follow(inner, {id(inner.inputs[i]) for i in which})
    return [i for i, t in enumerate(inner.outputs) if id(t) in depends]


def described(op: Any, why: str) -> str:
    """Name an op in a refusal."""
    return f"its op {op.type} {why}"


def is_zero(tensor: Any) -> bool:
    """Whether a tensor is known to be zero."""
    if tensor.op.type in ("ZerosLike",):
        return True
    if tensor.op.type in ("Fill", "BroadcastTo", "Reshape", "Identity", "Cast"):
        return is_zero(tensor.op.inputs[1 if tensor.op.type == "Fill" else 0])
    value = tf.get_static_value(tensor)
    return value is not None and not np.any(value)
