"""A mismatch as the hypotheses see it: what came, what was due, and the means to ask the rule and the oracle again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from gradwright.check.bench import Arrays
from gradwright.check.code import Code
from gradwright.check.fitted import Leaf
from gradwright.check.numeric import inner, spread

Gradients = list[np.ndarray | None]


class Due(Protocol):
    """What is known of the right gradient of one leaf."""

    def factor(self, candidate: np.ndarray) -> complex | None:
        """The number c for which c * candidate is the right gradient; None if there is none."""
        ...


@dataclass(frozen=True)
class Known:
    """The right gradient, element by element, and how far rounding may carry each."""

    value: np.ndarray
    bound: np.ndarray

    def factor(self, candidate: np.ndarray) -> complex | None:
        """The number c for which c * candidate is the right gradient; None if there is none."""
        if candidate.shape != self.value.shape or not np.isfinite(candidate).all():
            return None
        size = float(np.sum(np.abs(candidate) ** 2))
        if size == 0 or not self.value.any():
            return None
        c = simple(np.vdot(candidate, self.value) / size)
        # The bound was made for a candidate as precise as the right gradient; a factor scales its rounding too.
        slack = self.bound * max(1.0, abs(c)) + 1e-9 * np.abs(self.value)
        return c if bool(np.all(np.abs(c * candidate - self.value) <= slack)) else None


@dataclass(frozen=True)
class Felt:
    """The right gradient known only along some directions: (direction, derivative, bound)."""

    shape: tuple[int, ...]
    probes: list[tuple[np.ndarray, float, float]]

    def factor(self, candidate: np.ndarray) -> complex | None:
        """The number c for which c * candidate agrees with every probe; None if there is none."""
        if candidate.shape != self.shape or not np.isfinite(candidate).all():
            return None
        felt = [inner([candidate], [direction]) for direction, _, _ in self.probes]
        size = sum(f * f for f in felt)
        if size == 0 or all(abs(d) <= b for _, d, b in self.probes):
            return None
        raw = sum(f * d for f, (_, d, _) in zip(felt, self.probes, strict=True)) / size
        loose = sum(abs(f) * b for f, (_, _, b) in zip(felt, self.probes, strict=True)) / size
        c = simple(raw, max(1e-6, 2 * loose / max(abs(raw), 1e-300)))
        agree = [
            abs(c * f - d) <= b + 1e-6 * abs(c) * spread([candidate], [v])
            for f, (v, d, b) in zip(felt, self.probes, strict=True)
        ]
        return c if all(agree) else None


def simple(c: complex, tolerance: float = 1e-6) -> complex | float:
    """A factor freed of rounding: real where it is real, whole or one over a whole number where it is so.

    >>> simple(2.0000000001), simple(-1 + 1e-12j), simple(1 / 3 + 1e-12)
    (2.0, -1.0, 0.3333333333333333)
    """
    value: complex | float = c
    if isinstance(value, (complex, np.complexfloating)):
        if abs(value.imag) > tolerance * abs(value):
            return complex(value)
        value = value.real
    value = float(value)
    for round_one in (value, 1 / value if value else np.inf):
        if np.isfinite(round_one) and round(round_one) != 0:
            whole = float(round(round_one))
            if abs(round_one - whole) <= tolerance * abs(whole) and abs(whole) < 1e9:
                return whole if round_one is value else 1.0 / whole
    return value


@dataclass
class Case:
    """One leaf whose gradient is off.

    `pull(upstreams)` asks the rule at the same point, `pull_at(point, upstreams)` at another; `due_at` asks the oracle.
    """

    index: int
    leaves: list[Leaf]
    point: Arrays
    upstreams: Arrays
    outputs: Arrays
    gradients: Gradients
    raw: Gradients
    due: Due
    code: Code
    pull: Callable[[Arrays], Gradients]
    pull_at: Callable[[Arrays, Arrays], Gradients]
    due_at: Callable[[Arrays, Arrays], Gradients] | None
    eps: float
    intermediates: Callable[[], list[tuple[str, np.ndarray]]] = field(default=lambda: [])
    cuts: Callable[[], list[tuple[str, bool, np.ndarray]]] = field(default=lambda: [])

    @property
    def leaf(self) -> Leaf:
        """The leaf in question."""
        return self.leaves[self.index]

    @property
    def got(self) -> np.ndarray | None:
        """The rule's gradient in the leaf's shape, where it has or can be brought into that shape."""
        return self.gradients[self.index]

    @property
    def expected(self) -> np.ndarray | None:
        """The right gradient, if it is known element by element."""
        return self.due.value if isinstance(self.due, Known) else None

    def same(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Whether two gradients agree up to rounding, as a hypothesis needs it."""
        if a.shape != b.shape:
            return False
        tolerance = max(1e-7, 300 * self.eps)
        with np.errstate(invalid="ignore"):
            scale = float(np.max(np.abs(b))) if b.size else 0.0
            return bool(np.all(np.abs(a - b) <= tolerance * np.abs(b) + 1e-3 * tolerance * scale))
