"""Directional differences that know how wrong they may be.

Central differences over a ladder of steps are extrapolated to step zero (Richardson, in Ridders' way); the change
between neighbouring entries of the tableau, plus the function's own noise divided by the step, bounds the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

SAFETY = 50.0  # factor between the tableau's own estimate and what is called a bound; see benchmarks/trust.py
FINE, COARSE = 4.0, 8.0


@dataclass(frozen=True)
class Difference:
    """A derivative found by differences: the number, its bound, and the two one-sided slopes at the last step."""

    value: float
    bound: float
    evaluations: int
    left: float = np.nan
    right: float = np.nan


def inner(left: Sequence[np.ndarray | None], right: Sequence[np.ndarray | None]) -> float:
    """The real inner product of two lists of arrays; None counts as zero.

    >>> inner([np.array([1.0, 2.0]), None], [np.array([3.0, 4.0]), np.array([5.0])])
    11.0
    """
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    return float(sum(np.vdot(a, b).real for a, b in pairs))


def spread(left: Sequence[np.ndarray | None], right: Sequence[np.ndarray | None]) -> float:
    """The size of the inner product's terms, as rounding errors add up: the root of the sum of their squares."""
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    return float(np.sqrt(sum(np.sum(np.abs(a * b) ** 2) for a, b in pairs)))


def moved(point: Sequence[np.ndarray], direction: Sequence[np.ndarray], step: float) -> list[np.ndarray]:
    """The point moved by a step along a direction."""
    return [x + step * v for x, v in zip(point, direction, strict=True)]


def ladder(levels: int, start: float) -> list[float]:
    """Steps that shrink slowly at first, for smooth functions, then fast, for stiff and kinked ones."""
    steps = [start]
    while len(steps) < levels:
        steps.append(steps[-1] / (FINE if len(steps) < 4 else COARSE))
    return steps


def derivative(slope: Callable[[float], float], noise: float, target: float, start: float, levels: int) -> Difference:
    """Extrapolate `slope(h)`, a central difference quotient with an error even in h, to h = 0.

    `noise` is the absolute error of the quotient's numerator; the ladder ends once the bound is below `target`.
    """
    steps, table = ladder(levels, start), []
    best, error = np.nan, np.inf
    worse = 0
    for i, h in enumerate(steps):
        row = [slope(h)]
        for j in range(1, i + 1):
            far, near = steps[i - j] ** 2, h**2
            row.append((far * row[j - 1] - near * table[i - 1][j - 1]) / (far - near))
        table.append(row)
        value, here = _best_of(row, table[i - 1] if i else None, noise / h)
        worse = worse + 1 if here > 4 * error else 0
        if here < error:
            best, error = value, here
        if SAFETY * error <= target or worse >= 3:
            break
    return Difference(best, SAFETY * error, 2 * len(table))


def _best_of(row: list[float], above: list[float] | None, noise: float) -> tuple[float, float]:
    if above is None:
        return row[0], np.inf
    errors = [
        max(abs(row[j] - row[j - 1]), abs(row[j] - above[j - 1])) + noise if np.isfinite(row[j]) else np.inf
        for j in range(1, len(row))
    ]
    errors = [e if np.isfinite(e) else np.inf for e in errors]
    best = int(np.argmin(errors))
    return row[best + 1], errors[best]


def typical(x: np.ndarray) -> np.ndarray:
    """The scale on which each element may be moved: its own size, or the array's where it is zero."""
    size = np.abs(x)
    usual = float(np.sqrt(np.mean(size**2))) if size.size else 1.0
    return np.where(size > 0, size, usual if usual > 0 else 1.0)


def signs(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    """Random unit entries of a direction: signs with random lengths, random phases where complex."""
    length = rng.uniform(0.5, 1.0, like.shape)
    if np.iscomplexobj(like):
        return length * np.exp(2j * np.pi * rng.random(like.shape))
    return length * rng.choice([-1.0, 1.0], size=like.shape)


def normal(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    """A random upstream for an output."""
    real = rng.standard_normal(like.shape)
    return real + 1j * rng.standard_normal(like.shape) if np.iscomplexobj(like) else real


def nudged(rng: np.random.Generator, x: np.ndarray, eps: float) -> np.ndarray:
    """Each element moved by one unit in the last place, down, not at all, or up."""
    return x * (1.0 + eps * rng.choice([-1.0, 0.0, 1.0], size=x.shape))


def underflow(dtype: str) -> float:
    """The smallest number of a dtype: what vanishes below it is no mistake."""
    return {"float16": 6e-8, "bfloat16": 1e-40, "float32": 1.4e-45, "complex64": 1.4e-45}.get(dtype, 5e-324)


def epsilon(dtype: str) -> float:
    """The rounding unit of a dtype by its plain name.

    >>> epsilon("float32") == 2.0**-23, epsilon("bfloat16") == 2.0**-7
    (True, True)
    """
    bits = {"float64": 52, "complex128": 52, "float32": 23, "complex64": 23, "float16": 10, "bfloat16": 7}
    return 2.0 ** -bits.get(dtype, 23)
