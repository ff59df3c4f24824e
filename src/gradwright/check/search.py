"""Localisation where only directions can be judged: argument by argument, then halving down to the element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradwright.check.case import Felt, Known
from gradwright.check.compare import compare
from gradwright.check.localise import faults_of
from gradwright.check.numeric import Difference, inner, signs, spread, typical
from gradwright.check.report import Fault
from gradwright.check.slope import along, sided

if TYPE_CHECKING:
    from gradwright.check.examine import Examination
    from gradwright.check.sample import Sample

SMALL = 64
DROWNED = 1e-4


@dataclass(frozen=True)
class Probe:
    """One direction tried: what the rule claims along it, what a difference found, and the size of the terms."""

    direction: list[np.ndarray]
    claimed: float
    found: Difference
    terms: float
    noise: float

    @property
    def slack(self) -> float:
        """How far rounding alone may carry them apart."""
        return self.found.bound + self.noise

    @property
    def off(self) -> bool:
        """Whether rule and difference disagree."""
        return np.isfinite(self.found.value) and not abs(self.found.value - self.claimed) <= self.slack


def search(examination: Examination, sample: Sample) -> list[Fault]:
    """The faults at a sample of which only directional differences are known."""
    rng, point = examination.rng, sample.point
    probes = [probe(examination, sample, joint(sample, rng)) for _ in range(2)]
    silent = [i for i, g in enumerate(sample.answer.gradients) if g is None or not np.any(g)]
    probes += [probe(examination, sample, single(point, i, rng)) for i in silent if point[i].size]
    drowned = quiet(sample, rng)
    probes += [probe(examination, sample, drowned)] if drowned else []
    examination.strengths += [p.slack / p.terms for p in probes[:2] if p.terms]
    if not any(p.off for p in probes):
        if any(not np.isfinite(p.found.value) for p in probes):
            examination.report.reason = "the forward is not finite around this point: no difference can be taken"
        return []
    if sample is examination.samples[0] and len(examination.samples) > 1 and _kinked(examination, sample, probes):
        return []
    return [fault for i in range(len(point)) if point[i].size for fault in _leaf(examination, sample, i)]


def joint(sample: Sample, rng: np.random.Generator) -> list[np.ndarray]:
    """A direction in which every argument weighs the same by the rule's own account, and none moves far."""
    direction = [typical(x) * signs(rng, x) for x in sample.point]
    weights = [spread([g], [v]) for g, v in zip(sample.answer.gradients, direction, strict=True)]
    least = min([w for w in weights if w > 0], default=0.0)
    return [v * (least / w) if w > 0 else v for v, w in zip(direction, weights, strict=True)]


def quiet(sample: Sample, rng: np.random.Generator) -> list[np.ndarray] | None:
    """A direction in the elements alone that huge ones beside them would drown; None where there are none."""
    direction = [typical(x) * signs(rng, x) for x in sample.point]
    pairs = zip(sample.answer.gradients, direction, strict=True)
    parts = [np.zeros(v.shape) if g is None else np.abs(g * v) for g, v in pairs]
    masks = [part < DROWNED * np.max(part, initial=0.0) for part in parts]
    return [v * m for v, m in zip(direction, masks, strict=True)] if any(m.any() for m in masks) else None


def single(point: list[np.ndarray], leaf: int, rng: np.random.Generator) -> list[np.ndarray]:
    """A direction in one argument alone."""
    return [typical(x) * signs(rng, x) if i == leaf else np.zeros_like(x) for i, x in enumerate(point)]


def probe(examination: Examination, sample: Sample, direction: list[np.ndarray]) -> Probe:
    """Try one direction."""
    gradients = sample.answer.gradients
    terms = spread(gradients, direction)
    bench, outputs, step = examination.bench, sample.opened.outputs, examination.oracle.slope
    grain = 1e-9 if step is None else 1e-13
    if step is not None:
        found = step(sample.point, sample.upstreams, direction)
    else:
        found = along(bench, sample.point, sample.upstreams, direction, 1e-7 * terms, examination.rng, None, outputs)
    claimed, eps = inner(gradients, direction), examination.bench.rule_eps
    drawn = [abs(inner(draw, direction) - claimed) for draw in sample.draws]
    noise = 16 * max(drawn, default=0.0) + 64 * eps * (terms + abs(claimed)) + grain * terms
    return Probe(direction, claimed, found, terms, noise)


def _kinked(examination: Examination, sample: Sample, probes: list[Probe]) -> bool:
    worst = next(p for p in probes if p.off)
    left, right, kink = sided(examination.bench, sample.point, sample.upstreams, worst.direction)
    if kink:
        said = f"the forward has a kink or jump here: slope {left:.3g} on one side, {right:.3g} on the other"
        examination.report.notes.append(Fault("kink", None, f"{said}; judged beside it instead"))
    return kink


def _leaf(examination: Examination, sample: Sample, leaf: int) -> list[Fault]:
    """The faults of one argument, if it is off on its own."""
    directions = [single(sample.point, leaf, examination.rng) for _ in range(3)]
    drowned = quiet(sample, examination.rng)
    if drowned is not None:
        directions[2] = [v if i == leaf else np.zeros_like(v) for i, v in enumerate(drowned)]
    probes = [probe(examination, sample, direction) for direction in directions]
    if not any(p.off for p in probes):
        return []
    if sample.point[leaf].size <= SMALL:
        return faults_of(examination, sample, leaf, _element_wise(examination, sample, leaf))
    index = halve(examination, sample, leaf)
    felt = Felt(sample.point[leaf].shape, [(p.direction[leaf], p.found.value, p.slack) for p in probes])
    worst = max(probes, key=lambda p: abs(p.found.value - p.claimed))
    found = faults_of(examination, sample, leaf, felt)
    numbers = abs(worst.found.value - worst.claimed), worst.found.bound
    return [Fault(f.label, f.argument, f.message, f.repair, f.where, *numbers, index) for f in found]


def _element_wise(examination: Examination, sample: Sample, leaf: int) -> Known:
    """The whole gradient of a small argument, one difference an element (two where complex)."""
    x = sample.point[leaf]
    value, bound = np.zeros_like(x), np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        for unit in (1, 1j) if np.iscomplexobj(x) else (1,):
            direction = [np.zeros_like(p) for p in sample.point]
            direction[leaf][at] = typical(x)[at] * unit
            here, step = probe(examination, sample, direction), typical(x)[at]
            value[at] += unit * here.found.value / step
            bound[at] += here.slack / step
    got = sample.answer.gradients[leaf]
    comparison = compare(got, value, x, bound, examination.bench.rule_eps, 0.0)
    blank = [compare(None, None, p, np.zeros(p.shape), 1e-16, 0.0) for p in sample.point]
    sample.comparisons = sample.comparisons or blank
    sample.comparisons[leaf] = comparison
    return Known(value, bound)


def halve(examination: Examination, sample: Sample, leaf: int) -> tuple[int, ...] | None:
    """The element that is off, by trying ever smaller halves of the argument."""
    x = sample.point[leaf]
    low, high = 0, x.size
    whole = single(sample.point, leaf, examination.rng)[leaf].ravel()
    while high - low > 1:
        middle = (low + high) // 2
        part = np.zeros(x.size, dtype=x.dtype)
        part[low:middle] = whole[low:middle]
        direction = [part.reshape(x.shape) if i == leaf else np.zeros_like(p) for i, p in enumerate(sample.point)]
        low, high = (low, middle) if probe(examination, sample, direction).off else (middle, high)
    return tuple(int(i) for i in np.unravel_index(low, x.shape))
