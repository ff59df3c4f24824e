"""Second derivatives that would be lost without a word, refused by name.

A rule called inside the gradient of another is differentiated by its arguments only; what it captured gets nothing.
A gradient computed from `.numpy()` is a constant to every tape. Both are right for a first derivative, and both give
None for a second one where the true value is not zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from gradwright.errors import ModeError, compose
from gradwright.frameworks import tf_private as private


def closed_over(function: Any) -> list[Any]:
    """The tensors in a function's closure."""
    found = []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            content = cell.cell_contents
        except ValueError:
            continue
        if isinstance(content, tf.Tensor):
            found.append(content)
    return found


def watched(tensors: list[Any], apart_from: list[Any]) -> bool:
    """Whether a tape would differentiate by one of these tensors."""
    others = [t for t in tensors if all(t is not other for other in apart_from)]
    return bool(others) and bool(private.possible_orders(others))


def refuse_lost_capture(rule: Any, arguments: list[Any]) -> None:
    """Refuse a rule inside another's gradient that captures a tensor which is being differentiated."""
    if watched(closed_over(rule.pair), arguments):
        raise lost_capture(rule)


def lost_capture(rule: Any) -> ModeError:
    """The refusal of a nested rule that leaves out what it captured."""
    fact = (
        "is called inside the gradient of another rule and reads, from outside its arguments, a tensor that is being "
        "differentiated: its own gradient answers for its arguments only, so the second derivative by that tensor "
        "would be lost"
    )
    repair = f"make the tensor an argument: def {rule.__name__}(x, upstream), and return a gradient for both"
    return ModeError(compose(rule.name, rule.where, fact, repair))


def captures_unknown(rule: Any, arguments: list[Any]) -> bool:
    """Whether, in a graph, a rule captures a tensor that is no constant and may be differentiated from outside."""
    others = [t for t in closed_over(rule.pair) if all(t is not a for a in arguments)]
    return any(
        not isinstance(t, private.EagerTensor) and t.dtype.is_floating and tf.get_static_value(t) is None
        for t in others
    )


def refuse_numbers(rule: Any, grad: Callable[..., Any], gradients: list[Any]) -> None:
    """Refuse a gradient that went through `.numpy()` while a tape asks for its derivative."""
    code = getattr(grad, "__code__", None)
    if code is None or "numpy" not in code.co_names or not watched(closed_over(grad), []):
        return
    if not any(g is not None and private.possible_orders([g]) for g in gradients):
        raise ModeError(
            compose(
                rule.name,
                rule.where,
                "computes its gradient from `.numpy()`, and a tape asks for a second derivative: numbers are constants "
                "to a tape, so it would be lost",
                "compute the gradient with TensorFlow ops, or call tape.gradient outside of the outer tape",
            )
        )
