"""From "something is off" to the argument and the element; nothing is called wrong on one witness alone."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from gradwright.check.case import Case, Due, Known
from gradwright.check.compare import Comparison
from gradwright.check.diagnose import name_mistake
from gradwright.check.hypotheses.base import Finding
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
        misfit = sample.answer.gradients[leaf] is None and sample.answer.raw[leaf] is not None
        if misfit or not examination.oracle.confirmed or contradicted(examination, sample, leaf):
            c = sample.comparisons[leaf]
            slack = np.where(np.isfinite(c.expected), c.bound_of, np.inf)
            faults += faults_of(examination, sample, leaf, Known(c.expected, slack))
        else:
            sample.comparisons[leaf] = cleared(sample.comparisons[leaf])
    return faults


def cleared(comparison: Comparison) -> Comparison:
    """A comparison whose mismatch a difference has explained: its bound was too narrow."""
    wider = max(comparison.bound, comparison.error) if np.isfinite(comparison.error) else comparison.bound
    return dataclasses.replace(comparison, bad=np.zeros_like(comparison.bad), bound=wider)


def faults_of(examination: Examination, sample: Sample, leaf: int, due: Due) -> list[Fault]:
    """The named mistakes of one leaf, as faults with their numbers."""
    comparison = sample.comparisons[leaf] if sample.comparisons else None
    subject, found = examination.subject, name_mistake(case_of(examination, sample, leaf, due))
    error, bound, index = (comparison.error, comparison.bound, comparison.index) if comparison else (None, None, None)
    return [
        Fault(f.label, subject.leaves[leaf].name, f.message, f.repair, subject.where, error, bound, index)
        for f in distinct(found)
    ]


def distinct(found: list[Finding]) -> list[Finding]:
    """Each label once."""
    return list({finding.label: finding for finding in reversed(found)}.values())[::-1]


def case_of(examination: Examination, sample: Sample, leaf: int, due: Due) -> Case:
    """The mismatch of one leaf, with the means to ask again."""
    bench, oracle = examination.bench, examination.oracle
    return Case(
        leaf,
        examination.subject.leaves,
        sample.point,
        sample.upstreams,
        sample.opened.outputs,
        sample.answer.gradients,
        sample.answer.raw,
        due,
        examination.subject.code,
        pull=lambda upstreams: sample.opened.pull(upstreams).gradients,
        pull_at=lambda point, upstreams: bench.open(point).pull(upstreams).gradients,
        due_at=oracle.expected,
        eps=max(bench.rule_eps, bench.forward_eps),
        intermediates=lambda: bench.intermediates(sample.point),
        cuts=lambda: bench.cuts(sample.point, sample.upstreams, leaf),
    )


def contradicted(examination: Examination, sample: Sample, leaf: int) -> bool:
    """Whether a difference along the mismatching elements disagrees with the rule; kinks are noted, not blamed."""
    bench, comparison = examination.bench, sample.comparisons[leaf]
    if leaf >= len(examination.subject.slots) and bench.forward_eps > 1e-12:
        return True
    direction = [np.zeros_like(x) for x in sample.point]
    direction[leaf] = typical(sample.point[leaf]) * _towards(comparison.bad, comparison.got - comparison.expected)
    terms = spread([comparison.expected], [direction[leaf]])
    found = along(
        bench, sample.point, sample.upstreams, direction, 1e-6 * terms, examination.rng, None, sample.opened.outputs
    )
    claimed = inner([comparison.got], [direction[leaf]])
    if np.isfinite(found.value) and abs(found.value - claimed) <= found.bound:
        # Where not even a double precision difference can tell the two apart, they differ by rounding alone.
        blurred = found.bound > abs(claimed - inner([comparison.expected], [direction[leaf]]))
        return blurred and bench.forward_eps > 1e-12
    left, right, kink = sided(bench, sample.point, sample.upstreams, direction)
    if kink and sample is examination.samples[0] and len(examination.samples) > 1:
        examination.report.notes.append(_kink(examination, sample, leaf, left, right))
        return False
    return True


def _towards(bad: np.ndarray, off: np.ndarray) -> np.ndarray:
    """A direction along which all mismatches add up."""
    size = np.abs(np.where(np.isfinite(off), off, 0))
    return np.where(size > 0, np.where(np.isfinite(off), off, 0) / np.where(size > 0, size, 1), 1.0) * bad


def _kink(examination: Examination, sample: Sample, leaf: int, left: float, right: float) -> Fault:
    name, comparison = examination.subject.leaves[leaf].name, sample.comparisons[leaf]
    where = f"{np.count_nonzero(comparison.bad)} element(s) of `{name}` lie on a kink or jump of the forward"
    message = f"{where}: slope {left:.3g} on one side, {right:.3g} on the other; judged beside it instead"
    return Fault("kink", name, message, index=comparison.index)
