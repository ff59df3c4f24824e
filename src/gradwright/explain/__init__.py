"""Why a gradient is missing, zero or not finite: the op, the cause, the user's file and line, and the repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradwright.explain.tape import GradientTape

if TYPE_CHECKING:
    from gradwright.explain.causes import Reason

__all__ = ["GradientTape", "explain"]


def explain(fn: Any, *inputs: Any, wrt: Any = None, keep_values: bool = True) -> list[Reason]:
    """Say, for each input of a function, why its gradient is None, zero or not finite, and on which line.

    >>> import gradwright as gw, tensorflow as tf
    >>> reason = gw.explain(lambda x: tf.reduce_sum(tf.stop_gradient(x) * 2.0), tf.constant([1.0, 2.0]))[0]
    >>> reason.status, reason.cause, reason.op
    ('none', 'stop-gradient', 'StopGradient')

    The function runs once, eagerly, as it would under a tape that watches its inputs; traced functions inside it are
    looked into. Floats and NumPy arrays among the inputs become tensors.

    Args:
        fn: a function of tensors that returns a tensor, or a structure of tensors.
        *inputs: what to call it with.
        wrt: the sources, if not all inputs: tensors, variables, argument names or numbers, or a list of these.
        keep_values: False keeps no tensor of the run: memory stays small in long programs. Each op's derivative is
            then tried by itself while the function runs, and zeros and NaN are judged from these trials.

    Returns:
        One `Reason` per source, in order: `.status` (`ok`, `none`, `zero`, `nonfinite`), `.cause`, `.op`, `.where`
        ("file.py:12"), `.message`, `.repair`, and `.also` for what was found on other paths.

    Raises:
        GradwrightError: nothing to differentiate, or the function returned no tensor.
    """
    from gradwright.explain.front import engine

    return engine(fn, inputs).explain(fn, inputs, wrt, keep_values)
