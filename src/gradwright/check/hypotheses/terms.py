"""One term of several is missing."""

from __future__ import annotations

import itertools

import numpy as np

from gradwright.check.case import Case, Known
from gradwright.check.hypotheses.base import Finding


def missing(case: Case) -> list[Finding]:
    """A gradient that lacks one of the ways in which the input reaches the output, or its effect on neighbours."""
    if case.got is None or not isinstance(case.due, Known) or not np.isfinite(case.got).all():
        return []
    return _branch(case, case.got) or _neighbours(case, case.got, case.due.value) or _constant(case, case.got)


def _branch(case: Case, got: np.ndarray) -> list[Finding]:
    """The forward uses the input, or something made of it, several times; the rule lacks some of the uses."""
    cuts, due = case.cuts(), case.expected
    for told, _, value in cuts:
        if np.any(value) and case.same(got, value):
            return [_lacking(case, f"`{told}`")]
    # The uses of the input itself add up to the whole, so any subset of them can be told from the single cuts.
    uses = [(told, due - value) for told, first, value in cuts if first and due is not None]
    for count in range(1, len(uses) - 1 if len(uses) <= 8 else 1):
        for kept in itertools.combinations(range(len(uses)), count):
            total = np.sum([uses[i][1] for i in kept], axis=0)
            if np.any(total) and case.same(got, total):
                return [_lacking(case, " and ".join(f"`{uses[i][0]}`" for i in range(len(uses)) if i not in kept))]
    return []


def _lacking(case: Case, lost: str) -> Finding:
    said = f"the gradient of `{case.leaf.name}` lacks a term: the one through {lost}"
    return Finding("missing-term", said, f"add the gradient that flows through {lost}")


def _neighbours(case: Case, got: np.ndarray, due: np.ndarray) -> list[Finding]:
    """Each element's own effect is there, its effect on the other outputs is not (a softmax without its sum)."""
    if case.due_at is None or got.size < 2:
        return []
    for u, y in zip(case.upstreams, case.outputs, strict=True):
        if y.shape != case.leaf.shape:
            return []
        del u
    mask = np.zeros(got.shape, dtype=bool)
    mask.flat[: max(1, got.size // 2)] = True
    if got.ndim > 1:
        mask[...] = np.arange(got.shape[-1]) < max(1, got.shape[-1] // 2)
    half = [np.where(mask, u, 0) for u in case.upstreams]
    here, there = case.pull(half)[case.index], case.due_at(case.point, half)[case.index]
    if here is None or there is None or np.any(here[~mask]) or not np.any(there[~mask]):
        return []
    said = f"the gradient of `{case.leaf.name}` lacks a term: each element acts on other elements of the output too"
    return [Finding("missing-term", said, "add the term that couples the elements (the sum over the axis)")]


def _constant(case: Case, got: np.ndarray) -> list[Finding]:
    """What is missing is, along some axis, a multiple of something at hand: output, input, upstream, one."""
    due = case.expected
    if due is None or due.size < 4:
        return []
    rest = due - got
    bases = [np.ones(got.shape), case.point[case.index], got]
    bases += [y for y in (*case.outputs, *case.upstreams) if y.shape == got.shape]
    for base in bases:
        for axis in [None, *[a for a in range(got.ndim) if got.ndim > 1 and got.shape[a] > 2]]:
            if _multiple(rest, base, axis) and not _multiple(rest, got, None):
                said = f"the gradient of `{case.leaf.name}` lacks a term"
                return [Finding("missing-term", said, "add the missing term; see the difference in the table")]
    return []


def _multiple(rest: np.ndarray, base: np.ndarray, axis: int | None) -> bool:
    """Whether `rest` is c * base with c constant (along an axis)."""
    size = np.sum(np.abs(base) ** 2, axis=axis, keepdims=True)
    if not np.all(size > 0) or not np.any(rest):
        return False
    c = np.sum(np.conj(base) * rest, axis=axis, keepdims=True) / size
    return bool(np.max(np.abs(rest - c * base)) <= 1e-6 * np.max(np.abs(rest)))
