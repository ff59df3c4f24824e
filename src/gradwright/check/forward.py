"""Forward mode and reverse mode are adjoint: <u, Jv> = <Jᵀu, v>."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright.check.numeric import inner, signs, spread
from gradwright.check.report import Fault
from gradwright.check.sample import rounded
from gradwright.check.subject import double, wide
from gradwright.errors import GradwrightError, ModeError

if TYPE_CHECKING:
    from gradwright.check.examine import Examination
    from gradwright.check.sample import Sample


def adjoint(examination: Examination, sample: Sample, asked: bool) -> list[Fault]:
    """The faults of forward mode; `asked` when the user wants the mode itself, else the rule's own jvp is tried."""
    subject, bench = examination.subject, examination.bench
    count = len(subject.slots)
    tangents = [signs(examination.rng, x) for x in sample.point[:count]]
    tangents = rounded(tangents, [leaf.dtype for leaf in subject.arguments], bench.precise_rule)
    try:
        pushed = _pushed(examination, sample, tangents, bench.precise_rule)
    except ModeError as refusal:
        examination.report.modes["forward"] = "refused"
        examination.report.notes.append(Fault("forward-mode", None, str(refusal).splitlines()[0]))
        return []
    except Exception as error:
        return _raised(examination, error, asked or _raises_in_its_own_precision(examination, sample, tangents))
    due = sample.expected if sample.expected is not None else sample.answer.gradients
    right, told = inner(due[:count], tangents), inner(sample.upstreams, pushed)
    slack = 1e4 * bench.rule_eps * (spread(due[:count], tangents) + spread(sample.upstreams, pushed))
    slack += 64 * sum(float(np.sum(n)) for n in sample.noise[:count])
    if abs(right - told) <= slack:
        examination.report.modes["forward"] = "right"
        return []
    examination.report.modes["forward"] = "wrong"
    times = f": {told / right:.6g} times the right tangent" if right else ""
    said = f"forward mode and reverse mode are not adjoint: <u, Jv> = {told:.6g}, <Jᵀu, v> = {right:.6g}{times}"
    return [Fault("forward-mode", None, said, "correct the rule's jvp", subject.where, abs(right - told), slack)]


def _raises_in_its_own_precision(examination: Examination, sample: Sample, tangents: list[np.ndarray]) -> bool:
    """Whether a jvp fails as its user calls it, and not for the prover's double precision alone."""
    try:
        _pushed(examination, sample, tangents, precise=False)
    except GradwrightError:
        return False  # refused by name
    except Exception:
        return True
    return False


def _pushed(examination: Examination, sample: Sample, tangents: list[np.ndarray], precise: bool) -> list[Any]:
    subject, bench = examination.subject, examination.bench
    backend = subject.backend
    bench.counts["rule"] += 1
    bench.reseed()
    with backend.context(precise):
        given = [
            backend.tensor(t, leaf.like, double(leaf.dtype) if precise else leaf.dtype)
            for t, leaf in zip(tangents, subject.arguments, strict=True)
        ]
        found = backend.forward(subject.over(subject.apply), subject.tensors(sample.point, precise), given)
    return [None if t is None else wide(backend.numpy(t)) for t in found]


def _raised(examination: Examination, error: Exception, asked: bool) -> list[Fault]:
    first = (str(error).strip().splitlines() or [""])[0][:200]
    said = f"forward mode raises {type(error).__name__}: {first}"
    if not asked or examination.subject.backend.name != "tensorflow":
        examination.report.modes["forward"] = "refused"
        examination.report.notes.append(Fault("forward-mode", None, said))
        return []
    examination.report.modes["forward"] = "wrong"
    return [Fault("forward-mode", None, said, None, examination.subject.where)]
