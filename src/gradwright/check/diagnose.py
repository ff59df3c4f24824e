"""Naming the mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwright.check.report import Fault

if TYPE_CHECKING:
    from gradwright.check.examine import Examination
    from gradwright.check.sample import Sample


def diagnose(examination: Examination, sample: Sample, leaf: int) -> list[Fault]:
    """The faults that explain why this leaf's gradient is off."""
    name, c = examination.subject.leaves[leaf].name, sample.comparisons[leaf]
    return [
        Fault(
            "value",
            name,
            f"the gradient of `{name}` is wrong",
            None,
            examination.subject.where,
            c.error,
            c.bound,
            c.index,
        )
    ]
