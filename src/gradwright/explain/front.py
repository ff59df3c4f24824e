"""The framework that an explanation is asked of."""

from __future__ import annotations

from typing import Any

from gradwright import frameworks
from gradwright.errors import ModeError


def engine(fn: Any, inputs: tuple) -> Any:
    """The module that explains for the framework of these inputs; TensorFlow is the one that can."""
    for value in frameworks._flat(inputs):
        owner = frameworks.owner(value)
        if owner in ("jax", "torch"):
            raise ModeError(
                f"explain: the inputs are of {owner}; gradients are explained for TensorFlow and Keras on TensorFlow\n"
                "  repair: prove the function instead: gw.check(fn, *inputs)"
            )
    from gradwright.frameworks import tf_explain_run

    return tf_explain_run
