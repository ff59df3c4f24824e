"""One examination of one subject, from the first call to the verdict."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from gradwright.check.bench import Arrays, Bench
from gradwright.check.contract import clauses, same_value
from gradwright.check.evidence import evidence
from gradwright.check.forward import adjoint
from gradwright.check.localise import confirmed
from gradwright.check.modes import same_in
from gradwright.check.native import in_own_precision, singular
from gradwright.check.numeric import normal
from gradwright.check.oracle import Oracle, choose
from gradwright.check.order import second_order
from gradwright.check.progress import Progress
from gradwright.check.report import Fault, Report
from gradwright.check.sample import Sample, beside, judge, rounded, take
from gradwright.check.search import search
from gradwright.check.subject import Answer, Opened, Refused, Subject


class Examination:
    """Carries a subject through the proof and fills its report."""

    def __init__(self, subject: Subject, bench: Bench, rng: np.random.Generator, surrogate: Any):
        self.subject, self.bench, self.rng, self.surrogate = subject, bench, rng, surrogate
        self.report = Report(subject.name, subject.where)
        self.samples: list[Sample] = []
        self.oracle = Oracle("none", "", None)
        self.strengths: list[float] = []
        self.hasty = False
        self.progress = Progress(subject.name, 7)

    def run(self, contract: bool, modes: list[str], order: int) -> Report:
        """The whole proof."""
        self.hasty = not contract and self.bench.native_eps < 1e-12
        try:
            self._prove(contract, modes, order)
        except Refused as refused:
            self.report.faults.append(refused.fault)
        finally:
            self.progress.close()
        self._close()
        return self.report

    def _prove(self, contract: bool, modes: list[str], order: int) -> None:
        if not self.subject.leaves:
            self.report.reason = "nothing to differentiate: no float argument and no trainable variable"
            return
        native = self._native(self.subject.values())
        if native is None:
            return
        self.progress.stage("double precision")
        trial = self.bench.choose_precision(native.point, native.opened.outputs, native.upstreams)
        first = self._first(native, trial)
        if not contract and first is not None and self._at_a_glance(first):
            return
        if self.hasty:
            self._begin_again()
            self._prove(contract, modes, order)
            return
        self.progress.stage("beside the point")
        near = beside(native.point, self.bench, self.rng)
        self.samples = [s for s in (first, next(filter(None, map(self._sample, near)), None)) if s]
        if not self.samples:
            self.report.reason = "the forward cannot be evaluated again at this point"
            return
        last = self.samples[-1]
        self.report.faults += same_value(self, last)
        self.progress.stage("the oracle")
        self.oracle = self._choose(last)
        self.progress.stage("comparing")
        for sample in self.samples:
            judge(self.bench, sample, self.oracle, self.rng)
        self.progress.stage("the contract")
        if not (contract and self._contract(last)):
            self._values()
        self._weigh()
        self.progress.stage("modes and orders")
        if contract:
            self.report.faults += in_own_precision(self, native, self.samples[0])
        if not self.report.faults:
            self.report.notes += singular(self, native)
        if not self.report.faults:
            self._beyond(native, last, modes if contract else [], order)

    def _choose(self, sample: Sample) -> Oracle:
        outputs = sample.opened.outputs
        return choose(self.bench, sample.point, sample.upstreams, outputs, self.surrogate, self.rng)

    def _begin_again(self) -> None:
        """After haste: as if nothing had been found yet, and slowly."""
        self.hasty = False
        self.report.faults.clear()
        self.report.notes.clear()

    def _at_a_glance(self, sample: Sample) -> bool:
        """The quick way, for `contract=False`: one point, no noise measured. In doubt, the full way follows."""
        self.oracle = self._choose(sample)
        if self.oracle.expected is None or self.report.faults:
            return self.oracle.kind == "none"
        judge(self.bench, sample, self.oracle, self.rng, quick=True)
        if sample.bad:
            sample.noise, sample.comparisons = [], []
            return False
        self.samples = [sample]
        self._weigh()
        return True

    def _beyond(self, native: Sample, last: Sample, modes: list[str], order: int) -> None:
        """Other modes, forward mode and the second order: judged once the first order is right."""
        if self.subject.pair is self.subject.apply:
            return  # a bare (output, grad): the framework never sees the rule
        if self.samples[0].noise:
            native.noise = self.samples[0].noise
        for mode in [m for m in modes if m in self.subject.backend.modes()]:
            self.report.faults += same_in(self, native, mode)
        if "forward" in modes or last.opened.pushes:
            self._clause("forward and reverse adjoint", adjoint(self, last, "forward" in modes))
        if order == 2 or "second-order" in modes:
            self._clause("second order", second_order(self, last))

    def _clause(self, clause: str, faults: list[Fault]) -> None:
        label = faults[0].label if faults else None
        refused = any(note.label in ("forward-mode", "second-order") for note in self.report.notes)
        if label is None and not refused:
            self.report.proven.append(clause)
        self.report.faults += faults

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
        opened = self._repeatable(point)
        if opened is None:
            return None
        if not opened.outputs:
            self.report.reason = "nothing to differentiate: no float output"
            return None
        if not all(np.isfinite(y).all() for y in opened.outputs):
            self.report.reason = "the forward gives NaN or Inf at this point, so there is no derivative to compare with"
            return None
        upstreams = rounded([normal(self.rng, y) for y in opened.outputs], opened.dtypes, False)
        answer = opened.pull(upstreams)
        self.report.faults += answer.faults
        self.report.notes += answer.repairs
        return Sample(point, opened, upstreams, answer)

    def _repeatable(self, point: Arrays) -> Opened | None:
        """A run that repeats; a random forward gets its seed fixed."""
        first = self.bench.open(point, precise=False)
        if self.hasty or _alike(first, self.bench.open(point, precise=False)):
            return first
        self.bench.seed = int(self.rng.integers(1, 2**31))
        first, again = self.bench.open(point, precise=False), self.bench.open(point, precise=False)
        if _alike(first, again):
            self.report.notes.append(Fault("random", None, "the forward is random; it was judged with its seed fixed"))
            return first
        self.report.reason = "the forward is random and does not follow the framework's seed: it has no one derivative"
        return None

    def _first(self, native: Sample, trial: tuple[Opened, Answer] | None) -> Sample | None:
        """The sample at the user's own point, without running again what has run."""
        if trial is not None:
            return Sample(native.point, trial[0], native.upstreams, trial[1])
        if self.bench.precise_rule == (self.bench.native_eps < 1e-12):
            return Sample(native.point, native.opened, native.upstreams, native.answer)
        return self._sample(native.point, native.upstreams)

    def _sample(self, point: Arrays, upstreams: Arrays | None = None) -> Sample | None:
        try:
            sample = take(self.bench, point, self.rng, upstreams)
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
        broken = {arg for label, arg in told if label in ("nonlinear", "shape", "not-summed", "dtype")}
        for fault in found:
            if fault.label == "precision" and "float32" in fault.message:
                self.report.notes.append(fault)
                continue
            vague = fault.label in ("value", "shape", "missing-term") and fault.argument in broken
            if (fault.label, fault.argument) not in told and not vague:
                self.report.faults.append(fault)

    def _weigh(self) -> None:
        """Undecided where a mistake that matters could have passed unseen."""
        limit = 1e-4 if self.bench.native_eps < 1e-12 else 1e-2 if self.bench.native_eps < 1e-5 else 1e-1
        seen = [c.detectable for s in self.samples[-1:] for c in s.comparisons if c.detectable is not None]
        blind = [s for s in [*self.strengths, *seen] if not s <= limit]
        if blind and not self.report.faults and not self.report.reason:
            self.report.reason = (
                f"a relative error up to {max(blind):.1g} could not be told from the function's own noise"
            )

    def _close(self) -> None:
        report, counts = self.report, self.bench.counts
        report.faults = [dataclasses.replace(f, where=f.where or self.subject.where) for f in report.faults]
        report.oracle = self.oracle.text
        report.calls = dict(counts)
        report.evaluations = sum(counts.values())
        report.arguments = evidence(self.subject, self.samples, self.report.faults)
        seen = [row.detectable for row in report.arguments if row.detectable is not None]
        report.detectable = max([*seen, *self.strengths], default=None)
        if report.faults:
            report.verdict = "wrong"
        elif not report.reason:
            report.verdict = "right"


def _alike(first: Opened, again: Opened) -> bool:
    """Whether two runs gave the same outputs, up to the order in which threads add."""
    pairs = list(zip(first.outputs, again.outputs, strict=True))
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-30, equal_nan=True) for a, b in pairs)
