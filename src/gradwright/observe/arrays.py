"""Statistics of an array that lies in the memory of this process."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwright.observe.records import Stats


def statistics(array: Any, everything: bool = True, value: bool = False) -> Stats:
    """The statistics of an array.

    >>> statistics(np.array([3.0, 0.0, -4.0])).norm
    5.0
    """
    array = np.asarray(array)
    kept = array.copy() if value else None
    shape, dtype = array.shape, array.dtype.name
    reals = magnitudes(array)
    norm, nonfinite = norm_of(reals)
    if not everything:
        return Stats(shape, dtype, norm, nonfinite=nonfinite, value=kept)
    if not reals.size:
        nan = float("nan")
        return Stats(shape, dtype, 0.0, nan, nan, nan, 0, 0, kept)
    with np.errstate(all="ignore"):
        mean, low, high = float(reals.mean()), float(reals.min()), float(reals.max())
    zeros = int(reals.size - np.count_nonzero(reals))
    return Stats(shape, dtype, norm, mean, low, high, zeros, nonfinite, kept)


def magnitudes(array: np.ndarray) -> np.ndarray:
    """A flat array of reals of at least single precision; absolute values where the numbers are complex."""
    flat = array.ravel()
    if flat.dtype.kind == "c":
        return np.abs(flat)
    if flat.dtype.name in ("float32", "float64"):
        return flat
    return flat.astype(np.float32 if flat.dtype.name in ("float16", "bfloat16") else np.float64)


def norm_of(reals: np.ndarray) -> tuple[float, int]:
    """The norm, and how many elements are not finite; squares that overflow or vanish are scaled first."""
    with np.errstate(all="ignore"):
        square = float(np.dot(reals, reals))
        if np.isfinite(square) and square > 1e-20:
            return float(np.sqrt(square)), 0
        reals = reals.astype(np.float64)
        nonfinite = int(reals.size - np.count_nonzero(np.isfinite(reals)))
        largest = float(np.max(np.abs(reals), initial=0.0))
        if nonfinite or not largest:
            return (float(np.sqrt(np.dot(reals, reals))), nonfinite) if nonfinite else (0.0, 0)
        scaled = reals / largest
        return largest * float(np.sqrt(np.dot(scaled, scaled))), 0
