"""The framework that an explanation is asked of."""

from __future__ import annotations

from typing import Any

from gradwright import frameworks
from gradwright.errors import GradwrightError, ModeError


def engine(fn: Any, inputs: tuple[Any, ...]) -> Any:
    """The module that explains for the framework of these inputs; TensorFlow is the one that can."""
    if not callable(fn):
        raise GradwrightError(
            f"explain: the first argument is {type(fn).__name__}, not a function\n"
            "  repair: gw.explain(fn, x)  # or, with a tape: tape.explain(target, sources)"
        )
    for value in frameworks._flat(inputs):
        owner = frameworks.owner(value)
        if owner in ("jax", "torch"):
            raise ModeError(
                f"explain: the inputs are of {owner}; gradients are explained for TensorFlow and Keras on TensorFlow\n"
                "  repair: prove the function instead: gw.check(fn, *inputs)"
            )
    from gradwright.frameworks import tf_explain_run

    return tf_explain_run
