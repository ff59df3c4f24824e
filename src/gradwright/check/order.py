"""The second derivative: a rule's gradient, differentiated by the framework, against differences of that gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright.check.modes import upstream_tensors
from gradwright.check.numeric import Difference, derivative, inner, moved, normal, signs, spread, typical
from gradwright.check.report import Fault
from gradwright.check.sample import rounded
from gradwright.check.subject import double, wide
from gradwright.errors import GradwrightError

if TYPE_CHECKING:
    from gradwright.check.examine import Examination
    from gradwright.check.sample import Sample

Arrays = list[np.ndarray]


def second_order(examination: Examination, sample: Sample) -> list[Fault]:
    """The faults of the derivative of the gradient, by the inputs and by the upstreams."""
    report, subject = examination.report, examination.subject
    dtypes = [leaf.dtype for leaf in subject.arguments]
    tangents = [normal(examination.rng, x) for x in sample.point[: len(dtypes)]]
    tangents = rounded(tangents, dtypes, examination.bench.precise_rule)
    try:
        by_inputs, by_upstreams = _claimed(examination, sample, tangents)
    except GradwrightError as refusal:
        report.notes.append(Fault("second-order", None, f"refused: {str(refusal).splitlines()[0]}"))
        return []
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0][:200]
        said = f"the gradient cannot be differentiated: {type(error).__name__}: {first}"
        return [Fault("second-order", None, said, None, subject.where)]
    faults = [f for i in range(len(dtypes)) for f in _by_input(examination, sample, tangents, by_inputs, i)]
    if any(note.label == "nonlinear" for note in report.notes):
        return faults  # declared so: there is no linear map to compare with
    return faults + _by_upstream(examination, sample, tangents, by_upstreams)


def _claimed(examination: Examination, sample: Sample, tangents: Arrays) -> tuple[list[Any], list[Any]]:
    subject, bench = examination.subject, examination.bench
    backend, precise = subject.backend, bench.precise_rule
    bench.counts["rule"] += 1
    bench.reseed()
    with backend.context(precise):
        xs = subject.tensors(sample.point, precise)
        kinds = [double(d) if precise else d for d in sample.opened.dtypes]
        ups = upstream_tensors(subject, sample, kinds)
        given = [
            backend.tensor(t, leaf.like, double(leaf.dtype) if precise else leaf.dtype)
            for t, leaf in zip(tangents, subject.arguments, strict=True)
        ]
        found = backend.second(subject.over(subject.apply), xs, ups, given)
    return tuple([None if g is None else wide(backend.numpy(g)) for g in part] for part in found)  # type: ignore


def _by_input(examination: Examination, sample: Sample, tangents: Arrays, claimed: list[Any], leaf: int) -> list[Fault]:
    subject = examination.subject
    if not sample.point[leaf].size:
        return []
    direction = [np.zeros_like(x) for x in sample.point]
    direction[leaf] = typical(sample.point[leaf]) * signs(examination.rng, sample.point[leaf])
    found, size = _felt(examination, sample, tangents, direction)
    told, name = inner([claimed[leaf]], [direction[leaf]]), subject.leaves[leaf].name
    slack = found.bound + 1e4 * examination.bench.rule_eps * (size + spread([claimed[leaf]], [direction[leaf]]))
    if abs(found.value - told) <= slack or not np.isfinite(found.value):
        return []
    if told == 0:
        said = f"the gradient has lost its dependence on `{name}`: its derivative is zero or None"
        repair = "compute grad from the arguments with the framework's own ops (no .numpy(), no stop_gradient)"
    else:
        said, repair = f"the second derivative by `{name}` is {told / found.value:.6g} times the right one", None
    return [Fault("second-order", name, said, repair, subject.where, abs(found.value - told), slack)]


def _felt(examination: Examination, sample: Sample, tangents: Arrays, direction: Arrays) -> tuple[Difference, float]:
    """The derivative of <tangents, the rule's gradient> along a direction, by differences."""
    bench, count = examination.bench, len(tangents)

    def gradient(step: float) -> list[Any]:
        opened = bench.open(moved(sample.point, direction, step))
        return opened.pull(sample.upstreams).gradients[:count]

    def slope(h: float) -> float:
        return (inner(tangents, gradient(h)) - inner(tangents, gradient(-h))) / (2 * h)

    size = spread(tangents, sample.answer.gradients[:count])
    fine = bench.rule_eps < 1e-12
    with np.errstate(all="ignore"):
        found = derivative(slope, bench.rule_eps * size, 1e-7 * size, 1e-2 if fine else 0.1, 9)
    return found, size


def _by_upstream(examination: Examination, sample: Sample, tangents: Arrays, claimed: list[Any]) -> list[Fault]:
    """The gradient is linear in the upstream, so its derivative by it is known without differences."""
    other = [normal(examination.rng, u) for u in sample.upstreams]
    kinds = sample.opened.dtypes
    other = rounded(other, kinds, examination.bench.precise_rule)
    pulled = sample.opened.pull(other).gradients[: len(tangents)]
    due, told = inner(tangents, pulled), inner(claimed, other)
    slack = 1e4 * examination.bench.rule_eps * (spread(tangents, pulled) + spread(claimed, other))
    if abs(due - told) <= slack:
        return []
    lost = " (it is zero or None)" if told == 0 else ""
    said = f"the derivative of the gradient by the upstream is wrong{lost}: {told:.6g} for {due:.6g}"
    return [Fault("second-order", None, said, None, examination.subject.where, abs(due - told), slack)]
