"""Computed in a lower precision than its dtype promises."""

from __future__ import annotations

import numpy as np

from gradwright.check.case import Case
from gradwright.check.hypotheses.base import Finding
from gradwright.check.numeric import epsilon

FORMATS = ("float32", "float16", "bfloat16")


def coarse(case: Case) -> list[Finding]:
    """Errors in most elements, all small, of either sign, as rounding to a shorter format makes them."""
    form = coarse_format(case.got, case.expected, case.eps)
    if form is None or not _scales(case):
        return []
    said = f"the gradient of `{case.leaf.name}` is computed in {form}: its relative errors are those of {form} rounding"
    return [Finding("precision", said, f"do not cast to {form} on the way")]


def _scales(case: Case) -> bool:
    """Rounding commutes with powers of two; errors that come from elsewhere do not."""
    again = case.pull([4.0 * u for u in case.upstreams])[case.index]
    return again is not None and case.got is not None and bool(np.allclose(again, 4.0 * case.got, rtol=1e-6, atol=0))


def coarse_format(got: np.ndarray | None, due: np.ndarray | None, eps: float) -> str | None:
    """The shortest step down in precision that explains all errors; None when rounding does not."""
    if got is None or due is None or not np.isfinite(got).all():
        return None
    largest = float(np.max(np.abs(due), initial=0))
    # Far below the largest elements short formats lose digits to underflow as well.
    live = np.abs(due) > 1e-2 * largest
    if np.count_nonzero(live) < 2:
        return None
    relative = np.abs((got - due)[live] / due[live])
    signed = ((got - due)[live] / due[live]).real
    touched = np.mean(relative > eps)
    for form in FORMATS:
        unit = epsilon(form)
        if (
            unit > 4 * eps
            and np.max(relative) <= 6 * unit
            and touched > 0.4
            and np.ptp(signed) > 0.3 * np.max(relative)
        ):
            return form
    return None
