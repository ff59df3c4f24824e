"""One examination of one subject, from the first call to the verdict."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwright.check.bench import Arrays, Bench
from gradwright.check.localise import confirmed, search
from gradwright.check.oracle import Oracle, choose
from gradwright.check.report import Evidence, Report
from gradwright.check.sample import Sample, beside, judge, rounded, take
from gradwright.check.subject import Refused, Subject


class Examination:
    """Carries a subject through the proof and fills its report."""

    def __init__(self, subject: Subject, bench: Bench, rng: np.random.Generator, surrogate: Any):
        self.subject, self.bench, self.rng, self.surrogate = subject, bench, rng, surrogate
        self.report = Report(subject.name, subject.where)
        self.samples: list[Sample] = []
        self.oracle = Oracle("none", "", None)

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
        point = rounded(point, [leaf.dtype for leaf in self.subject.leaves], self.bench.precise)
        near = beside(point, self.bench, self.rng)
        self.samples = [s for s in (self._sample(point), self._sample(near)) if s]
        last = self.samples[-1]
        self.oracle = choose(self.bench, last.point, last.upstreams, self.surrogate, self.rng)
        for sample in self.samples:
            judge(self.bench, sample, self.oracle, self.rng)
        self._faults()

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

    def _faults(self) -> None:
        for sample in reversed(self.samples):
            found = confirmed(self, sample) if self.oracle.expected else search(self, sample)
            if found:
                self.report.faults += found
                return

    def _close(self) -> None:
        report, counts = self.report, self.bench.counts
        report.oracle = self.oracle.text
        report.calls = dict(counts)
        report.evaluations = sum(counts.values())
        report.arguments = self._evidence()
        seen = [row.detectable for row in report.arguments if row.detectable is not None]
        report.detectable = max(seen) if seen else None
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
