"""Off by a number: the sign, a factor, an average in place of a sum."""

from __future__ import annotations

import numpy as np

from gradwright.check.case import Case
from gradwright.check.fitted import surplus
from gradwright.check.hypotheses.base import Finding


def scaled(case: Case, c: complex | float) -> list[Finding]:
    """The finding for 'the right gradient is c times what came'; nothing for c = 1, two where two fit equally."""
    name = case.leaf.name
    if c == 1:
        return []
    if c == -1:
        return [Finding("sign", f"the gradient of `{name}` has the wrong sign", repair="return -g")]
    if not isinstance(c, complex) and c > 1 and c in averages(case):
        message = f"the gradient of `{name}` was averaged over the {int(c)} elements it must be summed over"
        return [Finding("averaged", message, repair=_summed(case, int(c)))]
    if not isinstance(c, complex) and c < 0:
        (factor,) = scaled(case, -c)
        return [Finding("sign", f"the gradient of `{name}` has the wrong sign", "return -g", (factor,))]
    message = (
        f"the gradient of `{name}` is off by a constant factor: it must be {told(c)} times as large{_known(case, c)}"
    )
    return [Finding("factor", message, repair=f"return g * {told(c)}")]


def told(c: complex | float) -> str:
    """A factor as a person writes it: `2`, `1/3`, `0.75`."""
    if isinstance(c, complex):
        return f"({c:.6g})"
    if c and abs(c) < 1 and abs(1 / c - round(1 / c)) < 1e-9 * abs(1 / c):
        return f"1/{round(1 / c)}"
    return f"{c:.6g}"


def averages(case: Case) -> set[float]:
    """The numbers of elements that broadcasting spread one input element over."""
    shape = case.leaf.shape
    counts = set()
    for y in case.outputs:
        axes = surplus(shape, y.shape)
        if axes:
            counts.add(float(np.prod([y.shape[a] for a in axes])))
            counts |= {float(y.shape[a]) for a in axes}
            counts.add(float(y.size))
    own = float(np.prod(shape))
    # Without a broadcast (x @ w + b, a sum over rows) the batch is an axis of the output that the input lacks.
    sizes = {float(n) for y in case.outputs for n in y.shape if n not in shape}
    return (counts | sizes) - {1.0, own} if counts else sizes - {1.0}


def _summed(case: Case, count: int) -> str:
    axes = [surplus(case.leaf.shape, y.shape) for y in case.outputs]
    axis = next((a for a in axes if a), None)
    return case.code.sum("g", axis, 10) if axis else f"return g * {count}"


def _known(case: Case, c: complex | float) -> str:
    """Whose number the factor is: the size of the input, of an axis, of an output."""
    if isinstance(c, complex):
        return ""
    names = [(float(np.prod(case.leaf.shape)), "the number of elements of the input")]
    names += [(float(n), f"the size of axis {a} of the input") for a, n in enumerate(case.leaf.shape)]
    names += [(float(y.size), "the number of elements of the output") for y in case.outputs]
    names += [(float(n), f"the size of axis {a} of the output") for y in case.outputs for a, n in enumerate(y.shape)]
    for number, name in names:
        if number > 2 and abs(c) in (number, 1 / number):
            return f" ({told(abs(c))} is {'one over ' if abs(c) < 1 else ''}{name})"
    return ""
