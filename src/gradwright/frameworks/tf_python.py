"""Eager rules that meet symbolic upstreams: a vectorised Jacobian traces the backward pass of an eager call.

A rule of TensorFlow ops is traced like everything else. A rule that leaves TensorFlow (`.numpy()`, numpy
functions) cannot be; it is called as python, once per row.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from gradwright.pullback import Pullback


def pull(pullback: Pullback, upstreams: list[Any]) -> list[Any]:
    """Trace the rule, or call it as python where it cannot be traced."""
    try:
        return pullback(upstreams)
    except (AttributeError, NotImplementedError, TypeError) as error:
        if not leaves_tensorflow(error):
            raise
    return as_python(pullback, upstreams)


def leaves_tensorflow(error: Exception) -> bool:
    """Whether an error says that a symbolic tensor was asked for its numbers."""
    text = str(error)
    return "numpy" in text or "symbolic" in text.lower()


def as_python(pullback: Pullback, upstreams: list[Any]) -> list[Any]:
    """Call the rule through `tf.py_function`, for the inputs that can have a gradient."""
    spaces = pullback.spaces + pullback.variable_spaces
    takes = [i for i, space in enumerate(spaces) if space.kind != "none"]

    def run(*values: Any) -> list[Any]:
        gradients = pullback(list(values))
        return [
            tf.zeros(spaces[i].shape, spaces[i].dtype) if gradients[i] is None else tf.convert_to_tensor(gradients[i])
            for i in takes
        ]

    computed = tf.py_function(run, upstreams, [spaces[i].dtype for i in takes])
    gradients: list[Any] = [None] * len(spaces)
    for i, gradient in zip(takes, computed, strict=True):
        gradients[i] = tf.ensure_shape(gradient, spaces[i].shape)
    return gradients
