"""Computed in a lower precision than its dtype promises."""

from __future__ import annotations

import itertools

import numpy as np

from gradwright.check.case import Case
from gradwright.check.hypotheses.base import Finding
from gradwright.check.numeric import epsilon

# Each with what its underflow may lose of an element.
FORMATS = {"float32": 1e-37, "float16": 2.5e-7, "bfloat16": 1e-37}


def coarse(case: Case) -> list[Finding]:
    """Errors in most elements, all small, of either sign, as rounding to a shorter format makes them."""
    form = coarse_format(case.got, case.expected, case.eps)
    if form is None or not _scales(case) or not _everywhere(case):
        return []
    said = f"the gradient of `{case.leaf.name}` is computed in {form}: its relative errors are those of {form} rounding"
    return [Finding("precision", said, f"do not cast to {form} on the way")]


def _scales(case: Case) -> bool:
    """Rounding commutes with powers of two; errors that come from elsewhere do not."""
    again = case.pull([4.0 * u for u in case.upstreams])[case.index]
    return again is not None and case.got is not None and bool(np.allclose(again, 4.0 * case.got, rtol=1e-6, atol=0))


def _everywhere(case: Case) -> bool:
    """Rounding errors are as small elsewhere; a wrong formula that happens to be close here is not."""
    if case.due_at is None:
        return True
    point = [x * (1.0 + 0.1 * np.cos(np.arange(x.size).reshape(x.shape))) for x in case.point]
    try:
        got, due = case.pull_at(point, case.upstreams)[case.index], case.due_at(point, case.upstreams)[case.index]
    except Exception:
        return True
    if got is None or due is None or not np.isfinite(got).all() or not np.isfinite(due).all():
        return True
    return bool(np.linalg.norm(got - due) <= 6 * epsilon("bfloat16") * np.linalg.norm(due)) and (
        coarse_format(got, due, case.eps) is not None
    )


def coarse_format(got: np.ndarray | None, due: np.ndarray | None, eps: float) -> str | None:
    """The shortest step down in precision that explains all errors; None when rounding does not."""
    if got is None or due is None or not np.isfinite(got).all() or not np.isfinite(due).all():
        return None
    live = np.abs(due) > 1e-2 * float(np.max(np.abs(due), initial=0))
    if np.count_nonzero(live) < 2:
        return None
    relative = ((got - due)[live] / due[live]).real
    # What is rounded may be a factor or the input, so small elements carry the usual size's errors.
    usual = 0.2 * float(np.sqrt(np.mean(np.abs(due) ** 2)))
    for roundings, (form, floor) in itertools.product((2, 6), FORMATS.items()):
        unit = epsilon(form)
        within = np.all(np.abs(got - due) <= roundings * unit * (np.abs(due) + usual) + floor)
        scattered = np.mean(np.abs(relative) > unit / 100) > 0.3 and np.ptp(relative) > 0.3 * np.max(np.abs(relative))
        if unit > 4 * eps and within and scattered:
            return form
    return None
