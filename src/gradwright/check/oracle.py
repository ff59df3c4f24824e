"""Who knows the right gradient: the ladder of oracles, best first, and why a better one could not serve."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradwright.check import complex_step
from gradwright.check.bench import Arrays, Bench
from gradwright.check.numeric import Difference, inner, signs, spread, typical
from gradwright.check.slope import along

Gradients = list[np.ndarray | None]


@dataclass(frozen=True)
class Oracle:
    """`expected` gives the right gradient of every element; None when only differences along directions are known."""

    kind: str
    text: str
    expected: Callable[[Arrays, Arrays], Gradients] | None
    confirmed: bool = True
    slope: Callable[[Arrays, Arrays, Arrays], Difference] | None = None


def choose(
    bench: Bench, point: Arrays, upstreams: Arrays, outputs: Arrays, surrogate: object, rng: np.random.Generator
) -> Oracle:
    """The best oracle that this subject allows at this point."""
    if surrogate is True:
        return Oracle("none", "none: the gradient is declared a surrogate, so only its contract is judged", None, False)
    if bench.other is not None:
        what = "the named surrogate" if callable(surrogate) else "the reference `like`"
        return Oracle("reference", f"autodiff of {what}{_precision(bench)}", bench.reference, False)
    reason = untrusted(bench, point, upstreams, outputs, rng)
    if reason is not None and bench.lifted is None and bench.lift(point, bench.forward(point)):
        reason = untrusted(bench, point, upstreams, outputs, rng)
    if reason is None:
        return Oracle(
            "autodiff", f"autodiff of the forward{_precision(bench)}, itself checked by a difference", bench.reference
        )
    if _analytic(bench, point, upstreams, outputs, rng):
        step = functools.partial(complex_step.slope, bench)
        return Oracle("complex step", f"complex step of the forward ({reason})", None, True, step)
    return Oracle("differences", f"differences with error bounds{_precision(bench)} ({reason})", None)


def _analytic(bench: Bench, point: Arrays, upstreams: Arrays, outputs: Arrays, rng: np.random.Generator) -> bool:
    """Whether the forward takes complex input and its complex step agrees with a difference."""
    direction = [typical(x) * signs(rng, x) for x in point]
    witness = along(bench, point, upstreams, direction, 0.0, rng, None, outputs)
    return complex_step.serves(bench, point, upstreams, direction, witness)


def _precision(bench: Bench) -> str:
    return " in float64" if bench.forward_eps < 1e-12 else " in the inputs' own precision"


def untrusted(bench: Bench, point: Arrays, upstreams: Arrays, outputs: Arrays, rng: np.random.Generator) -> str | None:
    """Why the forward's own autodiff cannot be believed; None when one difference agreed with it."""
    try:
        gradients = bench.reference(point, upstreams)
    except Exception as error:
        return f"autodiff of the forward fails: {type(error).__name__}"
    if any(g is not None and not np.isfinite(g).all() for g in gradients):
        return "autodiff of the forward is not finite here"
    # A second look with shorter steps: the first may have stepped over kinks.
    for start in (None, 1e-5 if bench.forward_eps < 1e-12 else None):
        direction = [typical(x) * signs(rng, x) for x in point]
        terms = spread(gradients, direction)
        found = along(bench, point, upstreams, direction, 1e-6 * terms, rng, start, outputs)
        off = abs(found.value - inner(gradients, direction))
        if off <= min(found.bound, 1e-2 * terms) + 1e-7 * terms:
            return None
    if not np.isfinite(found.value):
        return "the forward is not finite around this point"
    if off <= found.bound:
        return "autodiff of the forward could not be confirmed: the forward is too noisy"
    return (
        "autodiff of the forward disagrees with a difference: a stop_gradient, an op without gradient or a nested rule"
    )
