"""Naming the mistake: every hypothesis is tried on the mismatch, the ones that fit are told with their repair."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from gradwright.check.case import Case, Known
from gradwright.check.hypotheses.base import Candidate, Finding
from gradwright.check.hypotheses.conjugate import conjugated
from gradwright.check.hypotheses.order import exchanged, rearranged, shuffled
from gradwright.check.hypotheses.point import misplaced
from gradwright.check.hypotheses.precision import coarse
from gradwright.check.hypotheses.scale import scaled
from gradwright.check.hypotheses.terms import missing
from gradwright.check.hypotheses.upstream import forgotten, ignores, nonlinear, output_ignored, with_upstream


def name_mistake(case: Case) -> list[Finding]:
    """The findings that explain a case, most telling first; never empty."""
    if case.raw[case.index] is None:
        return _none(case)
    if ignores(case):
        return _through(case, with_upstream(case)) or [forgotten(case)]
    for family in (coarse, nonlinear, _nearly, output_ignored, misplaced, shuffled, missing):
        found = family(case)
        if found:
            return found
    return [unexplained(case)]


def _none(case: Case) -> list[Finding]:
    name = case.leaf.name
    swapped = _through(case, exchanged(case))
    if swapped:
        return swapped
    said = f"the rule returned None for `{name}` although the output depends on it"
    return [Finding("none", said, f"return a gradient for `{name}`")]


def _nearly(case: Case) -> list[Finding]:
    """What came is right but for a number, an order, a conjugate, or the place it stands in; or for two of them."""
    plain = [Candidate(case.got)] if case.got is not None else []
    return _through(case, itertools.chain(plain, conjugated(case), rearranged(case), exchanged(case)))


def _through(case: Case, candidates: Iterator[Candidate] | itertools.chain[Candidate]) -> list[Finding]:
    """The best candidate that a number turns into the right gradient; equally good ones are all told."""
    best: list[list[Finding]] = []
    for candidate in candidates:
        c = case.due.factor(candidate.value)
        if c is None:
            continue
        findings = ([candidate.finding] if candidate.finding else []) + scaled(case, c)
        findings = [part for finding in findings for part in finding.all()]
        if findings and (not best or len(findings) < len(best[0])):
            best = [findings]
        elif findings and len(findings) == len(best[0]) and _label(findings) not in map(_label, best):
            best.append(findings)
    return [finding for findings in best for finding in findings]


def _label(findings: list[Finding]) -> tuple[str, ...]:
    return tuple(finding.label for finding in findings)


def unexplained(case: Case) -> Finding:
    """The plain fact, where no hypothesis fits."""
    got, due, name = case.got, case.expected, case.leaf.name
    if got is None:
        return Finding("shape", f"the gradient of `{name}` has a shape that cannot be compared")
    if not np.isfinite(got).all():
        return Finding("value", f"the gradient of `{name}` is not finite where the right one is")
    if not np.any(got):
        return Finding("value", f"the gradient of `{name}` is zero where the right one is not")
    if due is not None and not np.any(due):
        said = (
            f"the forward does not change with `{name}` here, so its gradient is zero; the rule passes one on purpose?"
        )
        return Finding("value", said, "declare it: @gw.custom_gradient(surrogate=True)")
    return Finding("value", f"the gradient of `{name}` is wrong{_where(case)}")


def _where(case: Case) -> str:
    due, got = case.expected, case.got
    if due is None or got is None or got.size < 2:
        return ""
    bad = np.abs(got - due) > (case.due.bound if isinstance(case.due, Known) else 0.0)
    count = int(np.count_nonzero(bad))
    return f" in {count} of {bad.size} elements" if 0 < count < bad.size else ""
