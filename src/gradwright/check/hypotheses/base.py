"""What a hypothesis says when it fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradwright.check.case import Case


@dataclass(frozen=True)
class Finding:
    """A mistake that explains the mismatch: its label, the sentence, the repair; `parts` are mistakes on top of it."""

    label: str
    message: str
    repair: str | None = None
    parts: tuple[Finding, ...] = ()

    def all(self) -> list[Finding]:
        """This finding and the ones that come with it."""
        return [self, *self.parts]


Hypothesis = Callable[[Case], list[Finding]]


@dataclass(frozen=True)
class Candidate:
    """A gradient that the rule nearly gave, and what would have to be repaired for it (None: nothing, it came so)."""

    value: np.ndarray
    finding: Finding | None = None
