"""The rule in the user's own precision, beside the right gradient: what double precision cannot show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradwright.check.report import Fault

if TYPE_CHECKING:
    from gradwright.check.examine import Examination
    from gradwright.check.sample import Sample

LOSS = 0.01
LIMITS = {"float16": 65504.0, "float32": 3.4e38, "bfloat16": 3.3e38, "complex64": 3.4e38}


def in_own_precision(examination: Examination, native: Sample, precise: Sample) -> list[Fault]:
    """Faults and notes of a rule that is right as mathematics and fails in the precision it is used in."""
    faults: list[Fault] = []
    if precise.expected is None or not examination.bench.precise_rule or examination.bench.native_eps < 1e-12:
        return faults
    for i, leaf in enumerate(examination.subject.leaves):
        got, due = native.answer.gradients[i], precise.answer.gradients[i]
        if got is None or due is None or got.shape != due.shape or not precise.comparisons[i].right:
            continue
        lost = ~np.isfinite(got) & np.isfinite(due) & (np.abs(due) < LIMITS.get(leaf.dtype, np.inf))
        if lost.any() and np.isfinite(due).all():
            faults.append(_not_finite(examination, leaf.name, leaf.dtype, lost, due))
        elif not lost.any():
            examination.report.notes += _blurred(leaf.name, leaf.dtype, got, due, examination.bench.native_eps)
    return faults


def _blurred(name: str, dtype: str, got: np.ndarray, due: np.ndarray, eps: float) -> list[Fault]:
    size = float(np.linalg.norm(np.ravel(due)))
    off = float(np.linalg.norm(np.ravel(got) - np.ravel(due)))
    if not off > max(LOSS, 64 * eps) * size:
        return []
    share = off / max(size, 1e-300)
    said = f"the gradient of `{name}` loses its digits in {dtype}: right in float64, off by {share:.1%} here"
    return [Fault("precision", name, said)]


def singular(examination: Examination, native: Sample) -> list[Fault]:
    """Notes of gradients that are not finite at the user's own point."""
    notes = []
    for leaf, got in zip(examination.subject.leaves, native.answer.gradients, strict=True):
        if got is not None and not np.isfinite(got).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(got))[0])
            said = f"the gradient of `{leaf.name}` is {got[at]} at this point"
            notes.append(Fault("kink", leaf.name, said, "give it a finite value there (see gw.ops)", None, index=at))
    return notes


def _not_finite(examination: Examination, name: str, dtype: str, lost: np.ndarray, due: np.ndarray) -> Fault:
    at = tuple(int(i) for i in np.argwhere(lost)[0])
    said = f"the gradient of `{name}` overflows in {dtype}: NaN or Inf where the right one is {due[at]:.6g}"
    repair = "write the derivative in a form that does not overflow (tf.sigmoid for exp(x) / (1 + exp(x)))"
    return Fault("precision", name, said, repair, examination.subject.where, np.inf, 0.0, at)
