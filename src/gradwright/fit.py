"""Fitting a gradient to its input: a pure, cached plan, and then its application.

The plan is made from facts (shapes, dtypes); a framework carries it out. Unknown sizes leave a plan that decides
the same at run time.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gradwright.errors import Fault, GradientDtypeError, GradientShapeError
from gradwright.space import Shape, Space, kind_of, show_shape


@dataclass(frozen=True, slots=True)
class AtRunTime:
    """What a decision at run time needs: the input's shape, and the words that begin a refusal."""

    shape: Callable[[], Any]
    label: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do to a gradient: cast it, take its real part, sum over axes, reshape; or decide at run time."""

    real_part: bool = False
    cast: str | None = None
    axes: tuple[int, ...] = ()
    shape: tuple[int, ...] | None = None
    at_run_time: bool = False

    @property
    def repairs(self) -> tuple[str, ...]:
        """The repairs in words, as `observe` and `check` list them."""
        words = []
        if self.real_part:
            words.append("took the real part")
        if self.cast:
            words.append(f"cast to {self.cast}")
        if self.axes:
            words.append(f"summed over {axes_in_words(self.axes)}")
        return tuple(words)


def axes_in_words(axes: tuple[int, ...]) -> str:
    """Name axes in a sentence.

    >>> axes_in_words((0,)), axes_in_words((0, 2))
    ('axis 0', 'axes 0 and 2')
    """
    if len(axes) == 1:
        return f"axis {axes[0]}"
    return "axes " + ", ".join(map(str, axes[:-1])) + f" and {axes[-1]}"


@lru_cache(maxsize=4096)
def plan(given: Space, wanted: Space, complex: str = "refuse", strict: bool = False) -> Plan:
    """Plan how a gradient of one space comes into the space of its input, or refuse.

    >>> plan(Space((2, 3), "float32"), Space((3,), "float32")).axes
    (0,)
    """
    real_part, cast = plan_dtype(given.dtype, wanted.dtype, complex)
    axes, shape, at_run_time = plan_shape(given.shape, wanted.shape)
    made = Plan(real_part, cast, axes, shape, at_run_time)
    if strict and made.repairs:
        kind = GradientShapeError if axes else GradientDtypeError
        raise Fault(
            kind,
            f"has {given} where the input has {wanted}, and the rule is strict",
            f"return a gradient that is {' and '.join(r.replace('took', 'taken') for r in made.repairs)}",
        )
    return made


def plan_dtype(given: str, wanted: str, complex: str) -> tuple[bool, str | None]:
    """Decide on the dtype: (take the real part, cast to)."""
    if given == wanted:
        return False, None
    have, want = kind_of(given), kind_of(wanted)
    if have == "none":
        raise Fault(
            GradientDtypeError,
            f"has dtype {given}, which is no gradient of a {wanted} input",
            f"return a {wanted} tensor; a rule that returns counts or a mask is a mistake",
        )
    if have == "complex" and want == "real":
        if complex != "real":
            raise Fault(
                GradientDtypeError,
                f"is {given} but the input is {wanted}",
                'take its real part yourself, or gw.fit(g, x, complex="real")',
            )
        return True, wanted
    return False, wanted


def plan_shape(given: Shape | None, wanted: Shape | None) -> tuple[tuple[int, ...], tuple[int, ...] | None, bool]:
    """Decide on the shape: (axes to sum, shape to give, whether to decide at run time)."""
    if given is None or wanted is None:
        return (), None, True
    lost = len(given) - len(wanted)
    if lost < 0:
        raise unexplained(given, wanted)
    pairs = list(zip(given[lost:], wanted, strict=True))
    if any(not explained(g, w) for g, w in pairs):
        raise unexplained(given, wanted)
    if any((g is None or w is None) and w != 1 for g, w in pairs):
        return (), None, True
    axes = (*range(lost), *(i + lost for i, (g, w) in enumerate(pairs) if w == 1 and g != 1))
    return axes, wanted if axes else None, False  # type: ignore[return-value]


def explained(given: int | None, wanted: int | None) -> bool:
    """Whether broadcasting can have stretched a size of the input to this size of the gradient."""
    return given is None or wanted is None or wanted in (1, given)


def unexplained(given: Shape, wanted: Shape) -> Fault:
    """Say that a shape cannot come from broadcasting, which axis shows it, and the likely repair."""
    reason = blame(given, wanted)
    fact = f"has shape {show_shape(given)} but the input has shape {show_shape(wanted)}: {reason}"
    return Fault(GradientShapeError, fact, likely_repair(given, wanted))


def blame(given: Shape, wanted: Shape) -> str:
    """Name the axis that nobody can explain."""
    if len(given) < len(wanted):
        return f"it has {len(given)} {'axis' if len(given) == 1 else 'axes'} where the input has {len(wanted)}"
    lost = len(given) - len(wanted)
    axis = next(i for i, (g, w) in enumerate(zip(given[lost:], wanted, strict=True)) if not explained(g, w))
    return f"axis {axis} of the input has size {wanted[axis]}, the gradient has {given[axis + lost]} there"


def likely_repair(given: Shape, wanted: Shape) -> str:
    """Show the line that most likely repairs a shape."""
    known = None not in given and None not in wanted
    if known and sorted(given) == sorted(wanted) and len(given) > 1:  # type: ignore[type-var]
        order = [given.index(size) for size in wanted]
        how = f"tf.transpose(g, {order})" if len(set(order)) == len(order) else "tf.transpose(g)"
        return f"the axes seem to be in another order: {how}, or y, back = gw.shapes.transpose(x, ...)"
    if known and math.prod(given) == math.prod(wanted):  # type: ignore[arg-type]
        return f"y, back = gw.shapes.flatten(x), and back(g); nothing is reshaped by guess to {show_shape(wanted)}"
    if math.prod(s or 1 for s in given) < math.prod(s or 1 for s in wanted):
        missing = Counter(wanted) - Counter(given)
        return (
            "the gradient is smaller than its input (sizes "
            f"{sorted(s or 0 for s in missing.elements())} are missing): it was reduced once too often, "
            "or must be spread out, as in g * tf.ones_like(x)"
        )
    return f"return a gradient of shape {show_shape(wanted)}"


def fit(
    gradient: Any,
    input: Any,
    *,
    complex: str = "refuse",
    strict: bool = False,
    argument: str = "input",
) -> Any:
    """Make one gradient fit one input, as the decorators do.

    >>> import numpy as np, gradwright as gw
    >>> gw.fit(np.ones((2, 3)), np.zeros(3)).tolist()
    [2.0, 2.0, 2.0]

    Args:
        gradient: a tensor, array or number of any framework; None stays None.
        input: the input the gradient belongs to; only its shape and dtype are looked at.
        complex: "refuse" (the default), or "real" to take the real part of a complex gradient of a real input.
        strict: refuse every repair instead of making it.
        argument: the name of the input in messages.

    Returns:
        The gradient, summed over the axes that broadcasting added and cast to the input's dtype; None for an
        input that has no gradient (integers, bools, strings).

    Raises:
        GradientShapeError: the shape is not explained by broadcasting.
        GradientDtypeError: the dtype cannot be taken (integers for floats, complex for real).
    """
    from gradwright import frameworks

    framework = frameworks.of([input, gradient])
    at = AtRunTime(functools.partial(framework.shape_at_run_time, input), f"the gradient of `{argument}`")
    try:
        return framework.fit(gradient, framework.space(input), complex=complex, strict=strict, at=at).gradient
    except Fault as fault:
        raise fault.kind(
            f"the gradient of `{argument}` {fault.fact}" + (f"\n  repair: {fault.repair}" if fault.repair else "")
        ) from None
