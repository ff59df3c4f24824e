"""What every pullback owes, whoever knows its values: linear, zero in zero out, the same each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gradwright.check.hypotheses.precision import coarse_format
from gradwright.check.hypotheses.upstream import forgotten_finding, nonlinear_finding
from gradwright.check.numeric import normal
from gradwright.check.report import Fault
from gradwright.check.subject import Refused

if TYPE_CHECKING:
    from gradwright.check.examine import Examination
    from gradwright.check.sample import Sample


def untouched(examination: Examination, sample: Sample) -> list[Fault]:
    """Neither the forward nor the pullback writes into its inputs."""
    subject = examination.subject
    faults = []
    for leaf, tensor, value in zip(subject.arguments, sample.opened.inputs, sample.point, strict=False):
        if not np.array_equal(subject.backend.numpy(tensor), value, equal_nan=True):
            said = f"the rule writes into its input `{leaf.name}`: the values are others after the call"
            faults.append(Fault("value", leaf.name, said, f"work on a copy of {leaf.name}", subject.where))
    return faults


def same_value(examination: Examination, sample: Sample) -> list[Fault]:
    """A `fwd` that is written apart from its function gives the function's own value."""
    subject, bench = examination.subject, examination.bench
    if getattr(subject.rule, "fwd", None) is None or bench.seed is not None:
        return []
    try:
        plain = bench.forward(sample.point)
    except Exception:
        return []  # written for what the function itself cannot do
    made = sample.opened.outputs
    said = "fwd gives another {} than the function itself, so the rule changes what the function computes"
    repair = "return the function's own output from fwd"
    if [y.shape for y in made] != [y.shape for y in plain]:
        raise Refused(Fault("value", None, said.format("output shape"), repair, subject.where))
    apart = max(_apart(y, due, bench.native_eps) for y, due in zip(made, plain, strict=True))
    return [Fault("value", None, said.format("value"), repair, subject.where, apart, 0.0)] if apart else []


def _apart(made: np.ndarray, due: np.ndarray, eps: float) -> float:
    """How far two outputs are apart; 0 for what a stabler way to write the same function explains."""
    both = np.isfinite(made) & np.isfinite(due)
    off = float(np.max(np.abs(made - due)[both], initial=0.0))
    return off if off > max(1e-3, 64 * eps) * float(np.max(np.abs(due)[both], initial=0.0)) else 0.0


Gradients = list[np.ndarray | None]
REPEATS = 2
LARGE, SMALL = 1024.0, 2.0**-20


def deterministic(examination: Examination, sample: Sample) -> list[Fault]:
    """The same upstream gives the same gradient, every time."""
    first = sample.answer.gradients
    again = [sample.opened.pull(sample.upstreams).gradients for _ in range(REPEATS)]
    faults = []
    for i, leaf in enumerate(examination.subject.leaves):
        gap, size = _gap(first, again, i)
        # Threads may add in another order: a spread of rounding size is no randomness.
        if gap > 1e3 * examination.bench.rule_eps * size:
            said = f"the gradient of `{leaf.name}` is random: calls with the same upstream differ by {gap:.3g}"
            repair = "draw the random numbers in the forward and use the same ones in grad"
            faults.append(Fault("random", leaf.name, said, repair, examination.subject.where, gap, 0.0))
    return faults


def _gap(first: Gradients, again: list[Gradients], i: int) -> tuple[float, float]:
    base = first[i]
    others = [g[i] for g in again]
    if base is None or any(o is None for o in others) or not base.size:
        return 0.0, 0.0
    with np.errstate(invalid="ignore"):
        gaps = [np.nan_to_num(np.abs(o - base)) for o in others if o is not None]
    return float(np.max(gaps)), float(np.max(np.abs(np.nan_to_num(base))))


def linear(examination: Examination, sample: Sample) -> list[Fault]:
    """Sums and multiples of upstreams, far above and far below one, give the same of gradients."""
    rng, bench, pull = examination.rng, examination.bench, sample.opened.pull
    other = [normal(rng, u) for u in sample.upstreams]
    second = pull(other).gradients
    mixed = pull([0.37 * o - LARGE * u for u, o in zip(sample.upstreams, other, strict=True)]).gradients
    small = pull([SMALL * u for u in sample.upstreams]).gradients
    zero = pull([np.zeros_like(u) for u in sample.upstreams]).gradients
    faults = []
    for i in range(len(examination.subject.leaves)):
        g, h = sample.answer.gradients[i], second[i]
        if g is None or h is None or not np.isfinite(g).all():
            continue
        noise = (sample.noise[i] if sample.noise else np.zeros(g.shape)) + bench.floor(i)
        if np.linalg.norm(g.ravel()) <= 64 * np.linalg.norm(noise.ravel()):
            continue  # all that came is rounding of a gradient that is zero
        if short_format(g, sample.expected[i] if sample.expected else None, bench.rule_eps):
            # Rounding commutes with powers of two, and with nothing else.
            fourfold = pull([4.0 * u for u in sample.upstreams]).gradients
            laws = [(4.0, fourfold[i], 4.0 * g, 4.0 * np.abs(g))]
        else:
            laws = [
                (-LARGE, mixed[i], 0.37 * h - LARGE * g, np.abs(h) + LARGE * np.abs(g)),
                (SMALL, small[i], SMALL * g, SMALL * np.abs(g)),
                (0.0, zero[i], 0.0 * g, 0.0 * np.abs(g)),
            ]
        broken = [
            scale
            for scale, got, due, size in laws
            if _breaks(got, due, size, noise * abs(scale), bench.rule_eps, bench.floor(i))
        ]
        if broken:
            faults.append(_broken(examination, sample, i, broken[0]))
    return faults


def short_format(g: np.ndarray, due: np.ndarray | None, eps: float) -> bool:
    """Whether a gradient passes through half precision: its underflow and rounding are no missing linearity."""
    if coarse_format(g, due, eps) is not None:
        return True
    with np.errstate(all="ignore"):
        half = np.real(g).astype(np.float16).astype(np.float64)
    return eps < 1e-4 and bool(np.any(g) and np.array_equal(half, np.real(g)))


def _breaks(
    got: np.ndarray | None, due: np.ndarray, size: np.ndarray, noise: np.ndarray, eps: float, floor: float
) -> bool:
    if got is None:
        return bool(np.any(due))
    with np.errstate(invalid="ignore"):
        scale = float(np.max(size)) if size.size else 0.0
        off = np.abs(got - due)
        return not bool(np.all(off <= 64 * eps * (size + 0.01 * scale) + 64 * noise + floor))


def _broken(examination: Examination, sample: Sample, leaf: int, scale: float) -> Fault:
    name, where = examination.subject.leaves[leaf].name, examination.subject.where
    ignored = _ignored(sample, leaf)
    finding = forgotten_finding(name) if ignored else nonlinear_finding(name, scale)
    return Fault(finding.label, name, finding.message, finding.repair, where)


def _ignored(sample: Sample, leaf: int) -> bool:
    """Whether the gradient is one and the same for very different upstreams."""
    base = sample.answer.gradients[leaf]
    others = [
        sample.opened.pull([k * u + s for u in sample.upstreams]).gradients[leaf] for k, s in ((-0.7, 0.2), (5.0, 0.0))
    ]
    return base is not None and all(o is not None and np.allclose(o, base, rtol=1e-6, atol=0) for o in others)


def clauses(examination: Examination, sample: Sample) -> Iterator[tuple[str, list[Fault]]]:
    """Each clause of the contract with the faults it found."""
    yield "inputs untouched", untouched(examination, sample)
    random = deterministic(examination, sample)
    yield "deterministic", random
    if not random:
        yield "linear in the upstream", linear(examination, sample)
