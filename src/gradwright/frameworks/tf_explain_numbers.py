"""What the numbers of a backward pass tell: where a mask lies, what the values were, which line of a rule began it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

from gradwright.explain import lines
from gradwright.explain.record import Key, Log, Node
from gradwright.explain.walk import NONE, OK, Edge, Walk
from gradwright.frameworks import tf_explain as recorder
from gradwright.frameworks import tf_explain_pull as pull

MASKS = frozenset({"Select", "SelectV2", "Mul", "MulNoNan", "Relu", "Relu6", "Maximum", "Minimum", "ClipByValue"})
MOVERS = frozenset(
    (
        *("ConcatV2", "Concat", "Pack", "Unpack", "Split", "SplitV", "Slice", "StridedSlice", "Tile", "Pad", "PadV2"),
        *("Gather", "GatherV2", "GatherNd", "Reshape", "Transpose", "ExpandDims", "Squeeze", "Identity", "Roll"),
        *("TensorListGetItem", "TensorListSetItem", "TensorListStack", "TensorListFromTensor", "TensorListConcatV2"),
        *("TensorListPushBack", "TensorListPopBack", "Reverse", "ReverseV2", "DynamicPartition"),
    )
)


def array(value: Any) -> np.ndarray | None:
    """The numbers of an upstream, or None where it has none (a bare state, a list of tensors)."""
    if isinstance(value, str) or value is None:
        return None
    value = pull.dense(value)
    if not isinstance(value, ops.EagerTensor) or value.dtype in (tf.variant, tf.resource):
        return None
    found = np.asarray(value.numpy())
    return found if found.dtype.kind in "fc" else found.astype(np.float32)


class Numbers:
    """Answers to a judge, from the values that a record has kept; modest ones where it has kept none."""

    def __init__(self, log: Log, outside_line: Callable[[list[Key], list[Key], Any], str | None]):
        self.log = log
        self.outside_line = outside_line

    def masked(self, walk: Walk, edge: Edge) -> Node | None:
        """The node that threw away the value whose derivative is not finite, if one did."""
        upstream, gradient = self._seen(walk, edge.node), array(edge.gradient)
        if gradient is None or upstream is None:
            return self._masked_by_kind(walk, edge)
        bad = ~np.isfinite(gradient)
        at = upstream[bad] if upstream.shape == bad.shape else upstream
        return self._mask_below(walk, edge.node) if at.size and (at == 0).any() else None

    def _mask_below(self, walk: Walk, node: Node) -> Node | None:
        """Downstream, the first node that turns an upstream with something in it into zeros."""
        pending, seen = [node], set()
        while pending:
            node = pending.pop(0)
            for key in node.outputs:
                for edge in walk.consumers(key):
                    if edge.state == NONE or id(edge.node) in seen:
                        continue
                    seen.add(id(edge.node))
                    if self._zeros(array(edge.gradient)) > self._zeros(self._seen(walk, edge.node)):
                        if edge.node.op in MASKS:
                            return edge.node
                    else:
                        pending.append(edge.node)
        return None

    def _masked_by_kind(self, walk: Walk, edge: Edge) -> Node | None:
        pending, seen = [edge.node], set()
        while pending:
            node = pending.pop(0)
            for nearer in (e for key in node.outputs for e in walk.consumers(key) if id(e.node) not in seen):
                seen.add(id(nearer.node))
                if nearer.node.op in ("Select", "SelectV2"):
                    return nearer.node
                pending.append(nearer.node)
        return None

    @staticmethod
    def _zeros(numbers: np.ndarray | None) -> float:
        return float((numbers == 0).mean()) if numbers is not None and numbers.size else 0.0

    @staticmethod
    def _seen(walk: Walk, node: Node) -> np.ndarray | None:
        found = [array(walk.gradients.get(key)) for key in node.outputs]
        return next((a for a in found if a is not None), None)

    def tainted(self, edge: Edge) -> bool:
        """Whether what went into a node was not finite already: then the trouble began before it."""
        given = (array(self.log.values.get(key)) for key in edge.node.inputs)
        return any(a is not None and not np.isfinite(a).all() for a in given)

    def mover(self, walk: Walk, edge: Edge) -> Node | None:
        """For a node that only moves numbers about: the one downstream that made them zero."""
        if edge.node.op not in MOVERS:
            return None
        pending, seen = [edge.node], set()
        while pending:
            node = pending.pop(0)
            for nearer in (e for key in node.outputs for e in walk.consumers(key) if id(e.node) not in seen):
                seen.add(id(nearer.node))
                more = self._zeros(array(nearer.gradient)) > self._zeros(self._seen(walk, nearer.node))
                if more and nearer.node.op not in MOVERS:
                    return nearer.node
                pending.append(nearer.node)
        return None

    def there(self, edge: Edge) -> str:
        """The values at the worst place: what went in, what came out, what was sent back."""
        gradient, node = array(edge.gradient), edge.node
        if gradient is None or not gradient.size:
            return ""
        flat = gradient.reshape(-1)
        place = int(np.argmax(~np.isfinite(flat))) if not np.isfinite(flat).all() else 0
        index = tuple(int(i) for i in np.unravel_index(place, gradient.shape))
        given, made = array(self.log.values.get(edge.key)), array(self.log.values.get(node.outputs[0]))
        said = [f"input {_at(given, index)}"] if given is not None and given.shape == gradient.shape else []
        said += [f"output {_at(made, index if made.shape == gradient.shape else ())}"] if made is not None else []
        said += [f"gradient {flat[place]:g}"] if flat.dtype.kind == "f" else []
        spot = f" at index {list(index)}" if index else ""
        return f" ({', '.join(said)}{spot})" if said else ""

    def rule_line(self, node: Node, edge: Edge | None = None) -> str:
        """The line inside a custom rule where the bad gradient begins, or that returns None; else its first line."""
        if isinstance(node.rule, str) or node.seen is None:
            return node.rule if isinstance(node.rule, str) else lines.of_return(node.rule)
        inside = Log()
        with recorder.stopped(), recorder.into(inside):
            _, returned = with_line_of_return(partial(node.pull, list(node.seen)))
        if edge is not None and node.outputs:
            began = next((n.where for n in inside.nodes if n.where and _begins(inside, n, edge.state)), "")
            if began:
                return began
        return returned or lines.of_return(node.rule)


def _at(numbers: np.ndarray, index: tuple) -> str:
    value = numbers[index] if len(index) == numbers.ndim else (numbers.reshape(-1)[0] if numbers.size == 1 else "...")
    return value if isinstance(value, str) else f"{value:g}" if numbers.dtype.kind == "f" else str(value)


def _begins(log: Log, node: Node, bad: str) -> bool:
    """Whether a node of a rule's pullback made something bad of something fine."""
    states = [pull.state(log.values[key], NONE) for key in node.outputs if pull.differentiable(log.values[key])]
    given = [log.values[k] for k in node.inputs if k in log.values and pull.differentiable(log.values[k])]
    return bad in states and all(pull.state(t, OK) != bad for t in given)


def with_line_of_return(pullback: Callable[[], Any]) -> tuple[Any, str]:
    """Run a pullback, and see on which line the outermost of the user's own functions in it returned."""
    last = ""

    def see(frame: Any, event: str, argument: Any) -> None:
        nonlocal last
        name = frame.f_code.co_filename
        if event == "return" and lines.rank(name) == lines.USER and not (name == "<string>" and last):
            last = lines.spell(name, frame.f_lineno)

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        found = pullback()
    finally:
        sys.setprofile(before)
    return found, "" if last.startswith("<string>") else last
