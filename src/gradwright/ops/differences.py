"""Central differences of a numpy function, in double precision: the gradient where nobody wrote one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

STEP = float(np.finfo(np.float64).eps) ** (1 / 3)  # balances truncation and rounding of a central difference


def _step(x: np.ndarray, step: float | None) -> np.ndarray:
    return (STEP if step is None else step) * np.maximum(1.0, np.abs(x))


def vjp(
    f: Callable[..., Sequence[np.ndarray]],
    upstreams: Sequence[np.ndarray],
    xs: Sequence[np.ndarray],
    step: float | None = None,
) -> list[np.ndarray]:
    """Pull upstreams back through f: two calls of it for every element of the inputs.

    >>> vjp(lambda x: [x**2], [np.ones(2)], [np.array([1.0, 3.0])])[0].round(6).tolist()
    [2.0, 6.0]
    """
    wide = [np.array(x, np.float64) for x in xs]
    gradients = [np.zeros(x.shape) for x in wide]
    for x, gradient in zip(wide, gradients, strict=True):
        steps = _step(x, step)
        for place in np.ndindex(x.shape):
            before, h = x[place], steps[place]
            x[place] = before + h
            above = _outputs(f, wide)
            x[place] = before - h
            below = _outputs(f, wide)
            x[place] = before
            gradient[place] = _paired(upstreams, above, below) / (2 * h)
    return gradients


def _outputs(f: Callable[..., Any], xs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of f, which stay as they are: f may return its arguments, or one buffer at every call."""
    return [np.array(out) for out in f(*(x.copy() for x in xs))]


def _paired(upstreams: Sequence[np.ndarray], above: Any, below: Any) -> float:
    terms = zip(upstreams, above, below, strict=True)
    return float(sum(np.sum(np.asarray(u, np.float64) * (a - b)) for u, a, b in terms))


def jvp(
    f: Callable[..., Sequence[np.ndarray]],
    xs: Sequence[np.ndarray],
    tangents: Sequence[np.ndarray],
    step: float | None = None,
) -> list[np.ndarray]:
    """Push tangents forward through f: two calls of it.

    >>> jvp(lambda x: [x**2], [np.array([1.0, 3.0])], [np.array([1.0, 10.0])])[0].round(6).tolist()
    [2.0, 60.0]
    """
    wide = [np.array(x, np.float64) for x in xs]
    length = max((float(np.max(np.abs(t), initial=0.0)) for t in tangents), default=0.0)
    if not length:
        return [np.zeros(np.shape(out)) for out in f(*wide)]
    size = max((float(np.max(np.abs(x), initial=0.0)) for x in wide), default=0.0)
    h = (STEP if step is None else step) * max(1.0, size) / length
    above = _outputs(f, [x + h * np.asarray(t, np.float64) for x, t in zip(wide, tangents, strict=True)])
    below = _outputs(f, [x - h * np.asarray(t, np.float64) for x, t in zip(wide, tangents, strict=True)])
    return [(a - b) / (2 * h) for a, b in zip(above, below, strict=True)]
