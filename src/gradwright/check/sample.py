"""One point at which a rule is examined: what it answered there, how noisy that is, and what was expected."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gradwright.check.bench import Arrays, Bench
from gradwright.check.compare import Comparison, compare, widest
from gradwright.check.numeric import epsilon, normal, nudged, typical
from gradwright.check.oracle import Gradients, Oracle
from gradwright.check.subject import Answer, Opened

DRAWS = {True: 1, False: 3}  # double precision leaves so much room that one draw is enough


@dataclass
class Sample:
    """A point, an upstream and the rule's answer there."""

    point: Arrays
    opened: Opened
    upstreams: Arrays
    answer: Answer
    noise: list[np.ndarray] = field(default_factory=list)
    draws: list[Gradients] = field(default_factory=list)
    expected: Gradients | None = None
    comparisons: list[Comparison] = field(default_factory=list)

    @property
    def bad(self) -> list[int]:
        """The leaves whose gradient is off."""
        return [i for i, c in enumerate(self.comparisons) if not c.right]


def rounded(values: Arrays, dtypes: list[str], precise: bool) -> Arrays:
    """Values that the dtypes hold exactly, so that the rule and its judge see the same numbers."""
    if precise:
        return values
    return [_to(value, dtype) for value, dtype in zip(values, dtypes, strict=True)]


def _to(value: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        bits = value.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        return bits.view(np.float32).astype(np.float64)
    wide = np.complex128 if dtype.startswith("complex") else np.float64
    return value.astype(dtype).astype(wide)


def take(bench: Bench, point: Arrays, rng: np.random.Generator, upstreams: Arrays | None = None) -> Sample:
    """Run the subject at a point and pull one upstream back, a random one unless given."""
    opened = bench.open(point)
    if upstreams is None:
        upstreams = rounded([normal(rng, y) for y in opened.outputs], opened.dtypes, bench.precise_rule)
    return Sample(point, opened, upstreams, opened.pull(upstreams))


def judge(bench: Bench, sample: Sample, oracle: Oracle, rng: np.random.Generator, quick: bool = False) -> None:
    """Compare the rule's answer with the oracle's, element by element; measure its noise unless in haste."""
    if oracle.expected is not None:
        sample.expected = oracle.expected(sample.point, sample.upstreams)
    if quick:
        due = sample.expected or [None] * len(sample.point)
        sample.noise = [np.full(x.shape, bench.rule_eps * _usual(e)) for x, e in zip(sample.point, due, strict=True)]
    elif not sample.noise:
        sample.noise = _noise(bench, sample, oracle, rng)
    if oracle.expected is None:
        return
    eps = bench.rule_eps if bench.other is None else max(bench.rule_eps, bench.forward_eps)
    sample.comparisons = _compare(bench, sample, eps)


def _usual(gradient: np.ndarray | None) -> float:
    """The root mean square of a gradient: the size at which its sums round."""
    return 0.0 if gradient is None or not gradient.size else float(np.sqrt(np.mean(np.abs(gradient) ** 2)))


def _compare(bench: Bench, sample: Sample, eps: float) -> list[Comparison]:
    scale = max((float(np.max(np.abs(u))) for u in sample.upstreams if u.size), default=0.0)
    rows = zip(sample.answer.gradients, sample.expected or [], sample.point, sample.noise, strict=True)
    return [compare(g, e, x, noise + bench.floor(i), eps, scale) for i, (g, e, x, noise) in enumerate(rows)]


def _noise(bench: Bench, sample: Sample, oracle: Oracle, rng: np.random.Generator) -> list[np.ndarray]:
    """The spread of the rule's and of the oracle's answer when all that goes in moves by units in the last place."""
    eps = bench.rule_eps
    draws: list[Gradients] = []
    references: list[Gradients] = []
    for _ in range(DRAWS[eps < 1e-12]):
        near = [nudged(rng, x, eps) for x in sample.point]
        ups = [nudged(rng, u, eps) for u in sample.upstreams]
        draws.append(bench.open(near).pull(ups).gradients)
    if oracle.expected is not None:
        fine = epsilon("float64")
        near = [nudged(rng, x, fine) for x in sample.point]
        references.append(oracle.expected(near, [nudged(rng, u, fine) for u in sample.upstreams]))
    sample.draws = draws
    own = widest(draws, sample.answer.gradients, sample.point)
    other = widest(references, sample.expected or [None] * len(sample.point), sample.point)
    if eps < 1e-12 and oracle.confirmed:
        # A jump of the rule itself is no noise; what is mistaken for one is asked of a difference before it is blamed.
        sizes = [
            np.zeros(n.shape) if g is None else np.abs(g) for g, n in zip(sample.answer.gradients, own, strict=True)
        ]
        own = [np.fmin(n, 1e-7 * np.nan_to_num(size)) for n, size in zip(own, sizes, strict=True)]
    return [np.fmax(a, b) for a, b in zip(own, other, strict=True)]


def beside(point: Arrays, bench: Bench, rng: np.random.Generator) -> list[Arrays]:
    """Points close by, off the kinks and special values that people choose: zeros, ones, whole numbers.

    More than one, as the first may lie outside the function's domain.
    """
    size = 1e-3 if bench.native_eps < 1e-4 else 3e-2
    near = []
    for side in (None, 1.0, -1.0):
        sides = [rng.choice([-1.0, 1.0], x.shape) if side is None else side for x in point]
        steps = [size * rng.uniform(0.5, 1.0, x.shape) * typical(x) for x in point]
        moved = [x + s * step for x, s, step in zip(point, sides, steps, strict=True)]
        arguments = len(bench.subject.slots)
        moved = [x if i < arguments or bench.lifted else point[i] for i, x in enumerate(moved)]
        near.append(rounded(moved, [leaf.dtype for leaf in bench.subject.leaves], bench.precise_rule))
    return near
