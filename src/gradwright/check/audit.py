"""An audit: many rules proven one by one, each on its own inputs, none able to hide another.

`check_targets` proves what is found in files and modules, `prove_meetings` what a watched run has met. The result is
plain data that can be saved, read again and printed (`gradwright report`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from typing import Any

from gradwright.check.each import Finding, prove_meeting
from gradwright.check.find import Problem, Search, search, unreached
from gradwright.check.found import declared
from gradwright.check.reach import met_as, prove_found, prove_written
from gradwright.check.watch import Meeting

Step = Callable[[int, int, str], None]
"""Told before each proof: how many are done, how many there are, the name of the next."""

ALL_RIGHT, SOMETHING_WRONG, USAGE, UNDECIDED = 0, 1, 2, 3


def unseen(done: int, total: int, name: str) -> None:
    """Nobody wants to know how far the proofs are."""


@dataclass
class Audit:
    """All findings of one command, the problems on the way, and how the program itself ended."""

    findings: list[Finding] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    program: str | None = None
    program_status: int | None = None
    left_out: int = 0

    @property
    def exit_status(self) -> int:
        """1: a rule is wrong or the program failed; else 2: something unusable; else 3: something undecided; else 0."""
        verdicts = {finding.verdict for finding in self.findings}
        if "wrong" in verdicts or self.program_status:
            return SOMETHING_WRONG
        if self.problems or not verdicts:
            return USAGE
        return UNDECIDED if "undecided" in verdicts or self.left_out else ALL_RIGHT

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain values: `json.dumps(audit.to_dict())` works."""
        counts = {v: sum(f.verdict == v for f in self.findings) for v in ("right", "wrong", "undecided")}
        return {"exit_status": self.exit_status, **counts, **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Audit:
        """The audit that `to_dict` wrote down."""
        findings = [Finding(**{**f, "faults": tuple(f["faults"])}) for f in data["findings"]]
        problems = [Problem(**p) for p in data["problems"]]
        return cls(findings, problems, data["notes"], data["program"], data["program_status"], data.get("left_out", 0))

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict(), default=str)


def check_targets(
    targets: tuple[str, ...], inside: bool = False, surrogates: Collection[str] = (), step: Step = unseen
) -> Audit:
    """Prove every rule in the files, directories and modules named; those in `surrogates` differ on purpose."""
    result = search(targets, inside)
    hidden = unreached(result)
    audit = Audit(problems=result.problems)
    for number, rule in enumerate(result.rules):
        step(number, len(result.rules) + len(hidden), rule.name)
        audit.findings.append(prove_found(declared(rule, surrogates)))
    for number, (module, written) in enumerate(hidden, len(result.rules)):
        step(number, len(result.rules) + len(hidden), written.name)
        audit.findings += prove_written(module, written, surrogates)
    if not audit.findings and not audit.problems:
        audit.problems.append(none_found(targets, result))
    audit.notes += on_purpose_note(audit.findings)
    return audit


def on_purpose_note(findings: list[Finding]) -> list[str]:
    """How to say of a rule of TensorFlow's that it is meant to differ, where the check suspects that it is."""
    names = [f.rule for f in findings if any("surrogate" in (fault.get("repair") or "") for fault in f.faults)]
    return [f"meant to differ from its forward? Say so in the code, or with --surrogate {names[0]}"] if names else []


def none_found(targets: tuple[str, ...], result: Search) -> Problem:
    """The problem of having found nothing to prove."""
    looked = f"{len(result.modules)} file{'s' if len(result.modules) != 1 else ''}"
    fact = f"no rule of gradwright or of tf.custom_gradient found in {looked}"
    return Problem(
        " ".join(targets), fact, "gradwright run script.py  # meets also the rules that a program makes as it runs"
    )


def prove_meetings(meetings: list[Meeting], surrogates: Collection[str] = (), step: Step = unseen) -> list[Finding]:
    """Prove each rule that was met; those in `surrogates` differ on purpose."""
    findings: list[Finding] = []
    for number, meeting in enumerate(meetings):
        step(number, len(meetings), meeting.rule.name)
        findings.append(prove_meeting(met_as(meeting, surrogates)))
    return findings
