"""A gradient against the expected one, element by element, with a bound made of measured noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradwright.check.report import Slice

WINDOW = 6


@dataclass(frozen=True)
class Comparison:
    """The outcome for one leaf: which elements are off, by how much, and what could have been seen."""

    bad: np.ndarray
    got: np.ndarray
    expected: np.ndarray
    error: float
    bound: float
    detectable: float | None
    index: tuple[int, ...] | None
    bound_of: np.ndarray

    @property
    def right(self) -> bool:
        """Whether no element is off."""
        return not bool(self.bad.any())

    def slice(self) -> Slice | None:
        """The corner around the worst element."""
        return corner(self.got, self.expected, self.index)


def compare(
    got: np.ndarray | None, expected: np.ndarray | None, like: np.ndarray, noise: np.ndarray, eps: float, scale: float
) -> Comparison:
    """Compare one leaf; None stands for zero. `noise` is the spread under moves of one unit in the last place."""
    g = np.zeros_like(like) if got is None else got
    e = np.zeros_like(like) if expected is None else expected
    bound = bounds(e, noise, eps, scale)
    with np.errstate(invalid="ignore"):
        off = np.where(g == e, 0.0, np.abs(g - e))
    off = np.where(np.isnan(g) & np.isnan(e), 0.0, np.where(np.isfinite(off), off, np.inf))
    bad = off > bound
    index = _worst(off, bound)
    at = index if index is not None else ()
    size = float(np.sqrt(np.sum(np.abs(e[np.isfinite(e)]) ** 2)))
    seen = float(np.sqrt(np.sum(bound[np.isfinite(bound)] ** 2)))
    error, limit = (float(off[at]), float(bound[at])) if off.size else (0.0, 0.0)
    # A gradient a million times below rounding is zero: no relative error can be told of it.
    detectable = seen / size if size * 1e6 > seen else None
    return Comparison(bad, g, e, error, limit, detectable, index, bound)


def bounds(expected: np.ndarray, noise: np.ndarray, eps: float, scale: float) -> np.ndarray:
    """How far rounding alone may carry each element.

    The middle of the non-zero noise stands in where an element was not moved by chance; it is a middle and not a mean,
    so that a few huge elements do not hide the small ones.
    """
    factor = 1000.0 if eps < 1e-12 else 16.0
    live = noise[(noise > 0) & np.isfinite(noise)]
    usual = float(np.median(live)) if live.size else 0.0
    finite = np.abs(expected[np.isfinite(expected)])
    floor = min(scale, float(finite.max()) if finite.size else 0.0)
    size = np.where(np.isfinite(expected), np.abs(expected), 0.0)
    quiet = np.where(np.isfinite(noise), noise, 0.0)
    return factor * (quiet + usual + eps * size) + (4.0 * eps * floor if factor == 1000.0 else factor * eps * floor)


def _worst(off: np.ndarray, bound: np.ndarray) -> tuple[int, ...] | None:
    if not off.size:
        return None
    with np.errstate(over="ignore"):  # an element off by anything where no error is allowed is infinitely off
        ratio = off / np.where(bound > 0, bound, np.finfo(float).tiny)
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(ratio)), off.shape))


def corner(got: np.ndarray, expected: np.ndarray, index: tuple[int, ...] | None) -> Slice | None:
    """At most a WINDOW of rows and columns around `index`; other axes are fixed there."""
    if index is None:
        return None
    fixed = max(len(index) - 2, 0)
    start = tuple(i if axis < fixed else max(0, i - WINDOW // 2) for axis, i in enumerate(index))
    window = tuple(slice(s, s + (1 if axis < fixed else WINDOW)) for axis, s in enumerate(start))
    with np.errstate(invalid="ignore"):
        return Slice(start, got[window], expected[window], got[window] - expected[window])


def widest(
    noises: list[list[np.ndarray | None]], base: list[np.ndarray | None], like: list[np.ndarray]
) -> list[np.ndarray]:
    """Per leaf and element, the largest change from `base` over the draws."""
    out = []
    for i, x in enumerate(like):
        here = np.zeros(x.shape)
        for draw in noises:
            a, b = draw[i], base[i]
            if a is not None and b is not None:
                with np.errstate(invalid="ignore"):
                    here = np.fmax(here, np.abs(a - b))
        out.append(here)
    return out
