"""What the numbers of an op may be: refused at the call, where they are known, and not in the backward pass."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from gradwright import tree
from gradwright.errors import ArgumentError, GradientShapeError
from gradwright.forms.calls import is_leaf, is_tensor
from gradwright.ops.maths import maths_of
from gradwright.space import Shape, show_shape, stretches


def number(op: str, argument: str, value: Any) -> None:
    """Refuse what is no number, nor a tensor, variable, array or list of numbers.

    >>> number("reverse", "scale", None)
    Traceback (most recent call last):
    gradwright.errors.ArgumentError: gw.ops.reverse: scale=None is no number; give a number, tensor or variable
    """
    if is_tensor(value):
        dtype = value.dtype
        good = not (getattr(dtype, "name", None) or str(dtype)).startswith(("str", "object", "bytes"))
    else:
        good = isinstance(value, numbers.Number) or _known(value) is not None or _holds_tensor(value)
    if not good:
        raise ArgumentError(f"gw.ops.{op}: {argument}={value!r} is no number; give a number, tensor or variable")


def at_least_zero(op: str, argument: str, value: Any, zero: bool = True) -> None:
    """Refuse a number below zero, or zero itself, or nan; one that only a tensor knows is taken as it is."""
    number(op, argument, value)
    known = _known(value)
    if known is None or np.all(known >= 0 if zero else known > 0):
        return
    wanted = "zero or more" if zero else "more than zero"
    raise ArgumentError(f"gw.ops.{op}: {argument}={value!r}, which must be {wanted}; write {argument}=1.")


def in_order(op: str, low: Any, high: Any) -> None:
    """Refuse a lower limit above the upper one."""
    number(op, "low", low)
    number(op, "high", high)
    lower, upper = _known(low), _known(high)
    if lower is None or upper is None or np.all(lower <= upper):
        return
    raise ArgumentError(
        f"gw.ops.{op}: low={low!r} must not be above high={high!r}; write gw.ops.{op}(x, low=-.1, high=.1)"
    )


def of_the_loss(given: Any) -> Any:
    """Give the factor on the loss; Keras's optimizer keeps it in `dynamic_scale` once it is built."""
    if not hasattr(given, "scale_loss"):
        at_least_zero("clip", "loss_scale", given, zero=False)
        return given
    if hasattr(given, "dynamic_scale"):
        return given.dynamic_scale
    if hasattr(given, "initial_scale"):
        return given.initial_scale
    raise ArgumentError(
        f"gw.ops.clip: loss_scale is a {type(given).__name__}, which scales no loss; give "
        "keras.optimizers.LossScaleOptimizer(...), or a number"
    )


def within(op: str, argument: str, value: Any, x: Any) -> None:
    """Refuse a factor or mask that would broadcast beyond x: the gradient would be summed over what it adds."""
    given = _shape(value)
    if given == ():
        return
    for leaf in tree.flatten(x, is_leaf)[0]:
        wanted = _shape(leaf) if is_tensor(leaf) else None
        if stretches(given, wanted):
            fact = f"{argument} has shape {show_shape(given)} and x has shape {show_shape(wanted)}"
            raise GradientShapeError(
                f"gw.ops.{op}: {fact}; {argument} must broadcast to x, not beyond it\n"
                f"  repair: gw.ops.{op}(x, tf.reshape({argument}, ...)), or tf.broadcast_to(x, ...) first"
            )


def _shape(value: Any) -> Shape | None:
    """The shape as far as it is known."""
    if is_tensor(value) and not isinstance(value, np.ndarray | np.generic):
        m = maths_of(value)
        return m.sizes(m.tensor(value))
    return None if _holds_tensor(value) else tuple(np.shape(value))


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(is_tensor(v) or _holds_tensor(v) for v in value)


def _known(value: Any) -> Any:
    """The value of real numbers and arrays of them; None for tensors and for what is no number."""
    if isinstance(value, list | tuple):
        if _holds_tensor(value):
            return None
    elif not isinstance(value, numbers.Number | np.ndarray | np.generic):
        return None
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    return array if array.dtype.kind in "biuf" else None
