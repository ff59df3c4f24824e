"""The derivative taken at the wrong point."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradwright.check.case import Case, Known
from gradwright.check.hypotheses.base import Finding


def misplaced(case: Case) -> list[Finding]:
    """The right derivative, taken at the output, at another argument or at an intermediate; and the other way round."""
    got = case.got
    if got is None or case.due_at is None or not np.isfinite(got).all():
        return []
    name = case.leaf.name
    for told, value in _places(case):
        sign = _taken_at(case, value, got)
        if sign is not None:
            said = f"the derivative by `{name}` is taken at {told} instead of at `{name}`"
            return [Finding("wrong-point", said, f"take the derivative at `{name}`", _signed(sign, name))]
        if _meant_for(case, value):
            said = f"the formula for the derivative by `{name}` is meant for {told} but is given `{name}`"
            return [Finding("wrong-point", said, f"use {told} in the formula, not `{name}`")]
    return []


def _signed(sign: int, name: str) -> tuple[Finding, ...]:
    return () if sign == 1 else (Finding("sign", f"the gradient of `{name}` has the wrong sign", "return -g"),)


def _places(case: Case) -> Iterator[tuple[str, np.ndarray]]:
    shape = case.leaf.shape
    for k, y in enumerate(case.outputs):
        if y.shape == shape:
            yield ("the output" if len(case.outputs) == 1 else f"output {k}"), y
    for i, leaf in enumerate(case.leaves):
        if i != case.index and leaf.shape == shape:
            yield f"`{leaf.name}`", case.point[i]
    for told, value in case.intermediates():
        if value.shape == shape:
            yield f"the intermediate `{told}`", value


def _moved(case: Case, value: np.ndarray) -> list[np.ndarray]:
    return [value if i == case.index else x for i, x in enumerate(case.point)]


def _taken_at(case: Case, value: np.ndarray, got: np.ndarray) -> int | None:
    if np.iscomplexobj(value) != np.iscomplexobj(got) or case.due_at is None:
        return None
    try:
        there = case.due_at(_moved(case, value), case.upstreams)[case.index]
    except Exception:
        return None
    if there is None or not np.isfinite(there).all() or not np.any(there):
        return None
    return next((s for s in (1, -1) if case.same(got, s * there)), None)


def _meant_for(case: Case, value: np.ndarray) -> bool:
    if not isinstance(case.due, Known) or np.iscomplexobj(value) != np.iscomplexobj(case.due.value):
        return False
    try:
        there = case.pull_at(_moved(case, value), case.upstreams)[case.index]
    except Exception:
        return False
    return there is not None and bool(np.isfinite(there).all()) and case.same(there, case.due.value)
