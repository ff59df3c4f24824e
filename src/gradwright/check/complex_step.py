"""The complex step: an analytic forward's imaginary part at x + ihv is h times the derivative, without rounding."""

from __future__ import annotations

import numpy as np

from gradwright.check.bench import Arrays, Bench
from gradwright.check.numeric import Difference, inner, spread

STEP = 1e-100


def slope(bench: Bench, point: Arrays, upstreams: Arrays, direction: Arrays) -> Difference:
    """The derivative of <upstreams, forward> along a direction; raises where the forward takes no complex input."""
    outputs = bench.forward_complex([x + 1j * STEP * v for x, v in zip(point, direction, strict=True)])
    if not all(np.iscomplexobj(y) for y in outputs):
        raise TypeError("the forward leaves the complex numbers")
    tangents = [np.imag(y) / STEP for y in outputs]
    rounding = 1e3 * np.finfo(float).eps * spread(upstreams, tangents)
    return Difference(inner(upstreams, tangents), rounding, 1)


def serves(bench: Bench, point: Arrays, upstreams: Arrays, direction: Arrays, witness: Difference) -> bool:
    """Whether the complex step can be had and agrees with a difference: else the forward is not analytic."""
    subject = bench.subject
    if subject.variables or bench.forward_eps > 1e-12 or any(np.iscomplexobj(a) for a in (*point, *upstreams)):
        return False
    try:
        found = slope(bench, point, upstreams, direction)
    except Exception:
        return False
    return bool(np.isfinite(found.value) and abs(found.value - witness.value) <= witness.bound + found.bound)
