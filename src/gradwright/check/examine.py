"""One examination of one subject, from the first call to the verdict."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwright.check.bench import Arrays, Bench
from gradwright.check.contract import clauses
from gradwright.check.localise import confirmed
from gradwright.check.oracle import Oracle, choose
from gradwright.check.report import Evidence, Fault, Report
from gradwright.check.sample import Sample, beside, judge, rounded, take
from gradwright.check.search import search
from gradwright.check.subject import Refused, Subject


class Examination:
    """Carries a subject through the proof and fills its report."""

    def __init__(self, subject: Subject, bench: Bench, rng: np.random.Generator, surrogate: Any):
        self.subject, self.bench, self.rng, self.surrogate = subject, bench, rng, surrogate
        self.report = Report(subject.name, subject.where)
        self.samples: list[Sample] = []
        self.oracle = Oracle("none", "", None)
        self.strengths: list[float] = []

    def run(self, contract: bool) -> Report:
        """The whole proof."""
        try:
            self._prove(contract)
        except Refused as refused:
            self.report.faults.append(refused.fault)
        self._close()
        return self.report

    def _prove(self, contract: bool) -> None:
        if not self.subject.leaves:
            self.report.reason = "nothing to differentiate: no float argument and no trainable variable"
            return
        point = self.subject.values()
        first = self._native(point)
        if first is None:
            return
        self.bench.choose_precision(point, first.opened.outputs)
        point = rounded(point, [leaf.dtype for leaf in self.subject.leaves], self.bench.precise_rule)
        near = beside(point, self.bench, self.rng)
        self.samples = [s for s in (self._sample(point), self._sample(near)) if s]
        last = self.samples[-1]
        self.oracle = choose(self.bench, last.point, last.upstreams, self.surrogate, self.rng)
        for sample in self.samples:
            judge(self.bench, sample, self.oracle, self.rng)
        if not (contract and self._contract(last)):
            self._values()
        self._weigh()

    def _contract(self, sample: Sample) -> bool:
        """Try the contract's clauses; True when a broken one makes the values meaningless."""
        for clause, faults in clauses(self, sample):
            declared = self.surrogate is True and all(fault.label == "nonlinear" for fault in faults)
            if not faults:
                self.report.proven.append(clause)
            (self.report.notes if declared else self.report.faults).extend(faults)
        return any(fault.label == "random" for fault in self.report.faults)

    def _native(self, point: Arrays) -> Sample | None:
        """The rule as the user calls it: its form is judged here."""
        opened = self.bench.open(point, precise=False)
        if not opened.outputs:
            self.report.reason = "nothing to differentiate: no float output"
            return None
        if not all(np.isfinite(y).all() for y in opened.outputs):
            self.report.reason = "the forward gives NaN or Inf at this point, so there is no derivative to compare with"
            return None
        upstreams = rounded([self.rng.standard_normal(y.shape) for y in opened.outputs], opened.dtypes, False)
        answer = opened.pull(upstreams)
        self.report.faults += answer.faults
        self.report.notes += answer.repairs
        return Sample(point, opened, upstreams, answer)

    def _sample(self, point: Arrays) -> Sample | None:
        try:
            sample = take(self.bench, point, self.rng)
        except Refused:
            raise
        except Exception:
            return None
        return sample if all(np.isfinite(y).all() for y in sample.opened.outputs) else None

    def _values(self) -> None:
        """The faults of the values, at the point or beside it."""
        if self.oracle.kind == "none":
            return
        for sample in reversed(self.samples):
            found = confirmed(self, sample) if self.oracle.expected else search(self, sample)
            if found:
                self._add(found)
                return

    def _add(self, found: list[Fault]) -> None:
        """Add faults of the values; what the contract or the form said of an argument already is not said again."""
        told = {(fault.label, fault.argument) for fault in self.report.faults}
        broken = {arg for label, arg in told if label in ("nonlinear", "shape", "not-summed")}
        for fault in found:
            if fault.label == "precision" and "float32" in fault.message:
                self.report.notes.append(fault)
                continue
            vague = fault.label in ("value", "shape") and fault.argument in broken
            if (fault.label, fault.argument) not in told and not vague:
                self.report.faults.append(fault)

    def _weigh(self) -> None:
        """Undecided where a mistake that matters could have passed unseen."""
        limit = 1e-4 if self.bench.native_eps < 1e-12 else 1e-2 if self.bench.native_eps < 1e-5 else 1e-1
        blind = [s for s in self.strengths if not s <= limit]
        if blind and not self.report.faults and not self.report.reason:
            self.report.reason = (
                f"a relative error up to {max(blind):.1g} could not be told from the function's own noise"
            )

    def _close(self) -> None:
        report, counts = self.report, self.bench.counts
        report.oracle = self.oracle.text
        report.calls = dict(counts)
        report.evaluations = sum(counts.values())
        report.arguments = self._evidence()
        seen = [row.detectable for row in report.arguments if row.detectable is not None]
        report.detectable = max([*seen, *self.strengths], default=None)
        if report.faults:
            report.verdict = "wrong"
        elif not report.reason:
            report.verdict = "right"

    def _evidence(self) -> list[Evidence]:
        blamed = {fault.argument for fault in self.report.faults}
        rows = []
        for i, leaf in enumerate(self.subject.leaves):
            row = Evidence(leaf.name, leaf.kind, leaf.shape, leaf.dtype, "wrong" if leaf.name in blamed else "right")
            judged = [s for s in self.samples if s.comparisons]
            worst = next((s for s in judged if not s.comparisons[i].right), judged[0] if judged else None)
            if worst is not None:
                c = worst.comparisons[i]
                row.error, row.bound, row.detectable, row.index, row.worst = (
                    c.error,
                    c.bound,
                    c.detectable,
                    c.index,
                    c.slice(),
                )
            rows.append(row)
        return rows
