"""What a `tf.custom_gradient` function hides: the user's own function inside, and TensorFlow's pass-through."""

from __future__ import annotations

from typing import Any


def passes_through(bound: Any) -> bool:
    """Whether this is what `tf.grad_pass_through` made: a gradient that differs from the forward's on purpose."""
    inner = getattr(bound, "_f", None)
    return "grad_pass_through" in getattr(inner, "__qualname__", "")


def inner_function(bound: Any) -> Any:
    """The function of (output, grad) that is really called; the public `__wrapped__` where it is not shown."""
    return getattr(bound, "_f", None) or bound.__wrapped__
