"""What a check found: for people (`str`), for machines (`to_dict`), for programs (attributes)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

LABELS = (
    "upstream-ignored",
    "sign",
    "factor",
    "not-summed",
    "averaged",
    "transposed",
    "swapped",
    "conjugate",
    "wrong-point",
    "missing-term",
    "nonlinear",
    "kink",
    "random",
    "precision",
    "shape",
    "dtype",
    "none",
    "count",
    "variables",
    "second-order",
    "forward-mode",
    "mode",
    "value",
)


@dataclass(frozen=True)
class Fault:
    """One mistake (or one note): what, in which argument, how large, where, and what to write instead."""

    label: str
    argument: str | None
    message: str
    repair: str | None = None
    where: str | None = None
    error: float | None = None
    bound: float | None = None
    index: tuple[int, ...] | None = None

    def __str__(self) -> str:
        lines = [f"{self.label}: {self.message}"]
        if self.error is not None and self.bound is not None:
            at = f", worst at {list(self.index)}" if self.index else ""
            lines.append(f"  off by {self.error:.3g} (could be rounding up to {self.bound:.2g}){at}")
        if self.repair:
            lines.append(f"  repair: {self.repair}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The fault as plain values that `json.dumps` takes."""
        return {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Slice:
    """The corner of an array around its worst element: what the rule gave, what was expected, their difference."""

    start: tuple[int, ...]
    analytic: np.ndarray
    expected: np.ndarray
    difference: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """The slice as plain nested lists."""
        return {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}


@dataclass
class Evidence:
    """What is known of one argument's gradient."""

    argument: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    status: str = "right"
    error: float | None = None
    bound: float | None = None
    detectable: float | None = None
    index: tuple[int, ...] | None = None
    worst: Slice | None = None

    def to_dict(self) -> dict[str, Any]:
        """The evidence as plain values."""
        return {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}


@dataclass
class Report:
    """The verdict on one rule, with its evidence.

    >>> import gradwright as gw, tensorflow as tf
    >>> square = tf.custom_gradient(lambda x: (x * x, lambda up: -2 * x * up))
    >>> report = gw.check(square, tf.constant([1.0, 2.0]))
    >>> report.verdict, [fault.label for fault in report.faults]
    ('wrong', ['sign'])
    """

    name: str
    where: str | None = None
    verdict: str = "undecided"
    oracle: str = ""
    reason: str = ""
    evaluations: int = 0
    calls: dict[str, int] = field(default_factory=dict[str, int])
    detectable: float | None = None
    faults: list[Fault] = field(default_factory=list[Fault])
    notes: list[Fault] = field(default_factory=list[Fault])
    arguments: list[Evidence] = field(default_factory=list[Evidence])
    proven: list[str] = field(default_factory=list[str])
    modes: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def ok(self) -> bool:
        """True when the rule was proven right."""
        return self.verdict == "right"

    @property
    def labels(self) -> list[str]:
        """The labels of the faults, each once, in order."""
        return list(dict.fromkeys(fault.label for fault in self.faults))

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain values: `json.dumps(report.to_dict())` works."""
        simple = ("name", "where", "verdict", "ok", "oracle", "reason", "evaluations", "calls", "detectable")
        listed = ("faults", "notes", "arguments")
        return {
            **{name: plain(getattr(self, name)) for name in simple},
            **{name: [item.to_dict() for item in getattr(self, name)] for name in listed},
            "proven": list(self.proven),
            "modes": dict(self.modes),
        }

    def __str__(self) -> str:
        from gradwright.check.render import render

        return render(self)


def plain(value: Any) -> Any:
    """`value` in JSON's own types; complex numbers become strings, NaN and infinities too."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, Slice):
        return value.to_dict()
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, complex):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
