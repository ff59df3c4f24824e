"""Custom gradients in the copy of a function: their closures speak of tensors of the original graph.

`tf.custom_gradient` keeps the tensors that its gradient uses in a Python closure. In a copy those are out of scope;
the tensors of the same places in the copy are put in their stead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradwright.frameworks import tf_lift
from gradwright.frameworks import tf_override_tags as tags
from gradwright.frameworks import tf_private as private


def custom_gradients(graph: Any) -> int:
    """Move all custom gradients of a copied graph to it; how many there are."""
    found = 0
    for op in graph.get_operations():
        tag = tags.tag_of(op) if op.type == "IdentityN" else None
        gradient = _registered(tag) if tag is not None else None
        if gradient is not None:
            tags.put(op, _moved(gradient))
            found += 1
    return found


def _registered(tag: str) -> Callable[..., Any] | None:
    from gradwright.frameworks.tf_override_record import lookup

    try:
        return lookup(tag) if lookup is not None else None
    except LookupError:
        return None


def _moved(gradient: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient with the tensors that it takes from the original graph replaced by those of the copy."""

    def moved(op: Any, upstreams: Sequence[Any], saving: bool) -> list[Any]:
        def of(given: list[Any]) -> list[Any]:
            rest = iter(given)
            gradients = gradient(op, *[None if u is None else next(rest) for u in upstreams])
            return list(gradients) if isinstance(gradients, list | tuple) else [gradients]

        given = [u for u in upstreams if u is not None]
        lifted = tf_lift.trace(of, given, "custom_gradient")
        return lifted(given, [_counterpart(tensor, op.graph) for tensor in lifted.captured])

    return moved


def _counterpart(tensor: Any, copy: Any) -> Any:
    """The tensor of the copy that stands where a tensor of the original stands; others stay themselves."""
    if (
        isinstance(tensor, private.EagerTensor)
        or tensor.graph is copy
        or not isinstance(tensor.graph, private.FuncGraph)
    ):
        return tensor
    for i, one in enumerate(tensor.graph.inputs):
        if one is tensor:
            return copy.inputs[i]
    try:
        return copy.get_tensor_by_name(tensor.name)
    except (KeyError, ValueError):
        return tensor
