"""What is kept of a backward: plain facts, no tensors of any framework."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from gradwright import tree


@dataclass(frozen=True, slots=True)
class Stats:
    """What was seen of one tensor.

    Attributes:
        shape: its sizes.
        dtype: its dtype's name, "float32".
        norm: the Euclidean norm over all elements; NaN and infinity show in it.
        mean, min, max: over all elements, of the absolute values where the tensor is complex; NaN for an empty
            tensor, None where only norms were asked for.
        zeros: how many elements are exactly zero; None where only norms were asked for.
        nonfinite: how many elements are NaN or infinite.
        value: the array itself, where `values=True`.
    """

    shape: tuple[int, ...]
    dtype: str
    norm: float
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    zeros: int | None = None
    nonfinite: int = 0
    value: Any = field(default=None, compare=False)

    @property
    def size(self) -> int:
        """The number of elements."""
        total = 1
        for n in self.shape:
            total *= n
        return total


NUMBERS = ("norm", "mean", "min", "max", "zeros", "nonfinite")


@dataclass(slots=True)
class Record:
    """One backward of one call.

    Attributes:
        rule: the name of the rule, the probe or the layer.
        where: "file.py:12": where the rule is written, or the call of the probe.
        call: the number of this record among those of the same rule and place, from 0.
        upstream: the `Stats` of the upstream; where the rule has several outputs, the structure of the output
            (tuple, list, dict) with a `Stats` in each place.
        gradients: the `Stats` of each gradient by argument name, captured variables by their own name; None where
            the argument is unconnected.
        repairs: (argument, what was done to make its gradient fit).
        inputs: the shape of each argument by name; None for a size that is known at run time only.
        returned: the shape of each gradient as the rule returned it, before it was made to fit.
        replica: the number of the replica under a distribution strategy, else None.
    """

    rule: str
    where: str
    call: int
    upstream: Any
    gradients: dict[str, Stats | None]
    repairs: list[tuple[str, str]] = field(default_factory=list)
    inputs: dict[str, Any] = field(default_factory=dict)
    returned: dict[str, Any] = field(default_factory=dict)
    replica: int | None = None

    def upstreams(self) -> list[Stats]:
        """The upstreams in a flat list."""
        return flat(self.upstream)

    def to_dict(self) -> dict[str, Any]:
        """A flat dict: rule, where, call, replica, repairs, then `upstream.norm`, `gradients.x.norm`, ..."""
        row: dict[str, Any] = {"rule": self.rule, "where": self.where, "call": self.call, "replica": self.replica}
        row["repairs"] = "; ".join(f"{name}: {text}" for name, text in self.repairs)
        ups = self.upstreams()
        for i, stats in enumerate(ups):
            row.update(spread("upstream" if len(ups) == 1 else f"upstream[{i}]", stats))
        for name, stats in self.gradients.items():
            row.update(spread(f"gradients.{name}", stats))
        return row


def flat(upstream: Any) -> list[Stats]:
    """The `Stats` in a structure, in order."""
    if isinstance(upstream, Stats):
        return [upstream]
    leaves = tree.flatten(upstream, lambda value: isinstance(value, Stats))[0]
    return [leaf for leaf in leaves if isinstance(leaf, Stats)]


def spread(prefix: str, stats: Stats | None) -> dict[str, Any]:
    """The facts of a tensor as columns."""
    if stats is None:
        return {prefix: None}
    facts = {f.name: getattr(stats, f.name) for f in dataclasses.fields(stats)}
    return {f"{prefix}.{name}": fact for name, fact in facts.items() if fact is not None}
