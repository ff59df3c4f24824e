"""From "something is off" to the argument and the element; nothing is called wrong on one witness alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradwright.check.diagnose import diagnose
from gradwright.check.numeric import inner, spread, typical
from gradwright.check.report import Fault
from gradwright.check.slope import along, sided

if TYPE_CHECKING:
    from gradwright.check.examine import Examination
    from gradwright.check.sample import Sample


def confirmed(examination: Examination, sample: Sample) -> list[Fault]:
    """The faults at a sample that was compared element by element, where a difference contradicts the rule too."""
    faults: list[Fault] = []
    for leaf in sample.bad:
        if not examination.oracle.confirmed or contradicted(examination, sample, leaf):
            faults += diagnose(examination, sample, leaf)
    return faults


def contradicted(examination: Examination, sample: Sample, leaf: int) -> bool:
    """Whether a difference along the mismatching elements disagrees with the rule; kinks are noted, not blamed."""
    bench, comparison = examination.bench, sample.comparisons[leaf]
    direction = [np.zeros_like(x) for x in sample.point]
    off = np.where(comparison.bad, comparison.got - comparison.expected, 0)
    known = np.where(np.isfinite(off), off, 0)
    phase = np.where(np.abs(known) > 0, known / np.where(np.abs(known) > 0, np.abs(known), 1), comparison.bad)
    direction[leaf] = typical(sample.point[leaf]) * phase
    terms = spread([comparison.expected], [direction[leaf]])
    found = along(bench, sample.point, sample.upstreams, direction, 1e-6 * terms, examination.rng)
    claimed = inner([comparison.got], [direction[leaf]])
    if np.isfinite(found.value) and abs(found.value - claimed) <= found.bound:
        return False
    left, right, kink = sided(bench, sample.point, sample.upstreams, direction)
    name = examination.subject.leaves[leaf].name
    if kink and sample is examination.samples[0] and len(examination.samples) > 1:
        where = f"{np.count_nonzero(comparison.bad)} element(s) of `{name}` lie on a kink or jump of the forward"
        message = f"{where}: slope {left:.3g} on one side, {right:.3g} on the other; judged beside it instead"
        examination.report.notes.append(Fault("kink", name, message, index=comparison.index))
        return False
    return True


def search(examination: Examination, sample: Sample) -> list[Fault]:
    """The faults at a sample of which only directional differences are known."""
    return []
