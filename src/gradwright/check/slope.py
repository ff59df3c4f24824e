"""Derivatives of a subject's forward along a direction."""

from __future__ import annotations

import numpy as np

from gradwright.check.bench import Arrays, Bench
from gradwright.check.numeric import Difference, derivative, inner, moved, nudged, spread

START = {True: 1e-2, False: 0.1}


def along(
    bench: Bench,
    point: Arrays,
    upstreams: Arrays,
    direction: Arrays,
    target: float,
    rng: np.random.Generator,
    start: float | None = None,
    outputs: Arrays | None = None,
) -> Difference:
    """The derivative of <upstreams, forward> along `direction`, with its bound; `outputs` are the point's, if known."""
    fine = bench.forward_eps < 1e-12
    noise = _noise(bench, point, upstreams, rng, outputs)

    def slope(h: float) -> float:
        ahead, behind = bench.forward(moved(point, direction, h)), bench.forward(moved(point, direction, -h))
        return inner(upstreams, [a - b for a, b in zip(ahead, behind, strict=True)]) / (2 * h)

    with np.errstate(all="ignore"):
        return derivative(slope, noise, target, start or START[fine], 11 if fine else 8)


def _noise(bench: Bench, point: Arrays, upstreams: Arrays, rng: np.random.Generator, outputs: Arrays | None) -> float:
    """The absolute error of <upstreams, forward>: rounding of the outputs, and of the inputs where they are coarse."""
    fine = bench.forward_eps < 1e-12
    base = outputs if fine and outputs is not None else bench.forward(point)
    floor = bench.forward_eps * spread(upstreams, base)
    if fine:
        return floor
    floor += spread(upstreams, [np.full(y.shape, bench.least) for y in base])
    draws = [bench.forward([nudged(rng, x, bench.native_eps) for x in point]) for _ in range(2)]
    changes = [abs(inner(upstreams, [a - b for a, b in zip(draw, base, strict=True)])) for draw in draws]
    return max([floor, *changes])


def sided(bench: Bench, point: Arrays, upstreams: Arrays, direction: Arrays) -> tuple[float, float, bool]:
    """The slopes to the left and to the right of the point, and whether they differ: a kink or a jump."""
    base = bench.forward(point)
    h = 1e-6 if bench.forward_eps < 1e-12 else 1e-2
    found = []
    for step in (h, h / 8):
        ahead = bench.forward(moved(point, direction, step))
        behind = bench.forward(moved(point, direction, -step))
        right = inner(upstreams, [a - b for a, b in zip(ahead, base, strict=True)]) / step
        left = inner(upstreams, [a - b for a, b in zip(base, behind, strict=True)]) / step
        found.append((left, right))
    (l1, r1), (l2, r2) = found
    gap, size = abs(r2 - l2), max(abs(r2), abs(l2))
    # Of a smooth function the gap shrinks with the step; at a kink it stays, at a jump it grows.
    return l2, r2, bool(not np.isfinite(gap) or (gap > 1e-3 * size and gap > 0.5 * abs(r1 - l1)))
