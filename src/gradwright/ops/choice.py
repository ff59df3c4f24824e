"""`where` whose branches may each be undefined where they are not taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwright.errors import ArgumentError
from gradwright.ops.maths import maths_of


def where(condition: Any, taken: Any, otherwise: Any, *inputs: Any) -> Any:
    """Choose between two branches, each computed only on inputs where it is chosen.

    >>> x = tf.Variable([-1., 0., 4.])
    >>> with tf.GradientTape() as tape:
    ...     y = gw.ops.where(x > 0, lambda x: tf.sqrt(x), 0., x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.0, 0.0, 2.0], [0.0, 0.0, 0.25])

    A plain `where` computes both branches everywhere, and the NaN or infinity of the branch not taken comes back
    through the gradient. Here a branch that is a function sees, in the places where it is not taken, an input from
    a place where it is (or 1 where there is none); so value and every order of gradient are finite where the
    chosen branch is.

    Args:
        condition: a tensor of truth values; it broadcasts with the inputs.
        taken: a function of the inputs that works element by element, or a value, for the places where it holds.
        otherwise: the same for the other places.
        inputs: what the functions are called with.

    Raises:
        ArgumentError: a branch is a function and there are no inputs.
    """
    m = maths_of(condition, *inputs)
    if (callable(taken) or callable(otherwise)) and not inputs:
        raise ArgumentError(
            "gw.ops.where: a branch that is a function needs the inputs it is called with, after the branches: "
            "gw.ops.where(x > 0, lambda x: tf.sqrt(x), 0., x)"
        )
    condition = m.tensor(condition)
    if not m.is_bool(condition):
        raise ArgumentError(f"gw.ops.where: the condition must be a tensor of truth values, not {condition.dtype}")
    first = _branch(m, taken, condition, inputs)
    second = _branch(m, otherwise, ~condition, inputs)
    like = first if hasattr(first, "dtype") else second
    return m.where(condition, m.tensor(first, like), m.tensor(second, like))


def _branch(m: Any, branch: Any, holds: Any, inputs: tuple[Any, ...]) -> Any:
    if not isinstance(branch, Callable) or hasattr(branch, "dtype"):  # type: ignore[arg-type]
        return branch
    return branch(*(_guarded(m, holds, x) for x in inputs))


def _guarded(m: Any, holds: Any, x: Any) -> Any:
    """Replace x, where the branch is not taken, by an element that it is taken at."""
    holds, x = m.broadcast_together(holds, m.tensor(x))
    return m.where(holds, x, m.stop_gradient(m.chosen(holds, x)))
