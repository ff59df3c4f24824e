"""The upstream forgotten, wholly or in part, or used in a way that is not linear."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradwright.check.case import Case
from gradwright.check.fitted import surplus
from gradwright.check.hypotheses.base import Candidate, Finding


def ignores(case: Case) -> bool:
    """Whether the gradient is the same for any upstream, and not zero."""
    got = case.raw[case.index]
    if got is None or not got.size or not np.any(got):
        return False
    others = ([np.flip(u) * 1.7 + 0.3 for u in case.upstreams], [-0.6 * u for u in case.upstreams])
    return all(_same_raw(case, got, other) for other in others)


def _same_raw(case: Case, got: np.ndarray, upstreams: list[np.ndarray]) -> bool:
    again = case.pull(upstreams)[case.index]
    fitted = case.got if case.got is not None else got
    return again is not None and case.same(again, fitted)


def with_upstream(case: Case) -> Iterator[Candidate]:
    """What came, times the upstream, in the ways the shapes allow."""
    finding = forgotten(case)
    for raw in [g for g in (case.raw[case.index], case.got) if g is not None]:
        for upstream in case.upstreams:
            value = _times(raw, upstream, case.leaf.shape)
            if value is not None:
                yield Candidate(value, finding)


def forgotten(case: Case) -> Finding:
    """The finding of a forgotten upstream, for a case."""
    return forgotten_finding(case.leaf.name)


def forgotten_finding(name: str) -> Finding:
    """The finding of a forgotten upstream."""
    said = f"the gradient of `{name}` does not depend on the upstream: the chain rule's factor is missing"
    return Finding("upstream-ignored", said, repair="return upstream * g")


def _times(raw: np.ndarray, upstream: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    try:
        product = raw * upstream
    except ValueError:
        return None
    axes = surplus(shape, product.shape)
    return None if axes is None else product.sum(axis=axes).reshape(shape)


def output_ignored(case: Case) -> list[Finding]:
    """Of several outputs, one whose upstream changes nothing although it should."""
    if len(case.upstreams) < 2 or case.due_at is None or case.got is None:
        return []
    found = []
    for k in range(len(case.upstreams)):
        alone = [u if i == k else np.zeros_like(u) for i, u in enumerate(case.upstreams)]
        got, due = case.pull(alone)[case.index], case.due_at(case.point, alone)[case.index]
        if due is not None and np.any(np.abs(due) > 0) and (got is None or not np.any(got)):
            said = f"the gradient of `{case.leaf.name}` ignores the upstream of output {k}"
            part = Finding("missing-term", f"the gradient of `{case.leaf.name}` lacks the term of output {k}")
            found.append(Finding("upstream-ignored", said, f"add the term with upstream {k}", (part,)))
    return found


def nonlinear(case: Case) -> list[Finding]:
    """A gradient that does not scale with the upstream."""
    got = case.got
    if got is None or not np.isfinite(got).all():
        return []
    for scale in (1024.0, -1.0, 1e-6):
        again = case.pull([scale * u for u in case.upstreams])[case.index]
        if again is not None and np.isfinite(again).all() and not case.same(again, scale * got):
            return [nonlinear_finding(case.leaf.name, scale)]
    return []


def nonlinear_finding(name: str, scale: float) -> Finding:
    """The finding of a gradient that is not linear in the upstream."""
    said = f"the gradient of `{name}` is not linear in the upstream: {scale:g} times the upstream does not scale it so"
    return Finding("nonlinear", said, repair="use the upstream only as a factor: return upstream * derivative")
