"""What forward mode says and arranges in the same way in every framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwright import tree
from gradwright.errors import ModeError, compose
from gradwright.pullback import Pullback
from gradwright.rule import Rule


def nonlinear(rule: Rule, reason: str) -> ModeError:
    """The refusal of forward mode for a pullback that has no transpose."""
    return ModeError(
        compose(
            rule.name,
            rule.where,
            f"forward mode needs a gradient that is linear in the upstream, and this one is not: {reason}",
            "give the rule a jvp (grad.jvp = ..., or gw.rule with f.defjvp), or use reverse mode",
        )
    )


def own_jvp(pullback: Pullback) -> Callable[..., Any] | None:
    """The rule's own jvp, if it has one that answers for everything the call depends on."""
    return None if pullback.variables else getattr(pullback.grad, "jvp", None)


def pushed_by(own: Callable[..., Any], pullback: Pullback, tangents: list[Any], seam: Any) -> list[Any]:
    """Hand the tangents to the rule's jvp, one per tensor argument in its structure; give one per output tensor."""
    given, at = [], 0
    for slot in pullback.slots:
        if slot.is_tensor:
            part = tangents[at : at + len(slot.tensors)]
            at += len(slot.tensors)
            leaves: list[Any] = [None] * len(slot.leaves)
            for i, tangent in zip(slot.tensors, part, strict=True):
                leaves[i] = tangent
            given.append(leaves[0] if slot.spec is None else tree.unflatten(slot.spec, leaves))
    made = own(*given)
    if len(pullback.outputs.statics) == 1 and made is None:
        return [None]
    flat = tree.flatten(made, seam.is_leaf)[0]
    return [flat[i] for i in pullback.outputs.tensors]
