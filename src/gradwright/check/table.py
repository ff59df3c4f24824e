"""An audit for people: one table, then each mistake in full."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import IO, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradwright.check.audit import Audit, Finding

STYLES = {"right": "green", "wrong": "bold red", "undecided": "yellow"}
SOURCES = {
    "example": "on its example",
    "guessed": "on guessed inputs",
    "met": "on the inputs it met",
    "traced": "on made inputs of the signature it was traced with",
}


def show(audit: Audit, file: IO[str] | None = None, details: bool = False) -> None:
    """Print an audit: the table, the problems, the sum; with `details` also each rule's whole report."""
    console = Console(file=file or sys.stdout, highlight=False, soft_wrap=False, width=width(file or sys.stdout))
    if audit.findings:
        console.print(table(audit.findings))
    for finding in audit.findings if details else ():
        console.print(finding.text or finding.reason, markup=False, style=None, soft_wrap=True)
        console.print()
    for line in problem_lines(audit):
        console.print(line, soft_wrap=True)
    console.print(summary(audit), soft_wrap=True)


def width(file: IO[str]) -> int | None:
    """The terminal's own width; wide enough that no name is cut where a file or a pipe has none."""
    return None if getattr(file, "isatty", lambda: False)() else 150


def table(findings: list[Finding]) -> Table:
    """The rules, their verdicts, what is wrong and how to repair it."""
    result = Table(show_lines=True, expand=False)
    result.add_column("rule", overflow="fold", min_width=8, ratio=2)
    result.add_column("file:line", overflow="fold", min_width=10, ratio=2)
    result.add_column("verdict", no_wrap=True)
    result.add_column("what is wrong", overflow="fold", min_width=16, ratio=4)
    result.add_column("how to repair", overflow="fold", min_width=12, ratio=3)
    for group in alike(findings):
        for row in rows(group):
            result.add_row(*row)
    return result


def alike(findings: list[Finding]) -> list[list[Finding]]:
    """Findings of one rule with the same outcome, on other inputs or made anew, are told once."""
    groups: dict[Any, list[Finding]] = {}
    for finding in findings:
        faults = tuple((fault["label"], fault["message"]) for fault in finding.faults)
        key = (finding.rule, finding.where, finding.verdict, finding.reason, faults)
        groups.setdefault(key, []).append(finding)
    return list(groups.values())


def rows(group: list[Finding]) -> Iterator[tuple[str, ...]]:
    """One row for a rule, and one more for each further fault."""
    finding = group[0]
    head = (escape(finding.rule), escape(finding.where), f"[{STYLES.get(finding.verdict, '')}]{finding.verdict}[/]")
    inputs = f"[dim]{escape(proven_on(group))}[/]"
    if not finding.faults:
        told = finding.verdict == "undecided" and finding.reason
        yield (*head, escape(finding.reason) if told else inputs, escape(finding.repair or ""))
    for number, fault in enumerate(finding.faults):
        text = f"[bold]{escape(fault['label'])}[/]: {escape(fault['message'])}"
        first = number == 0
        repair = escape(fault.get("repair") or "")
        yield (*(head if first else ("", "", "")), f"{text}\n{inputs}" if first else text, repair)


def proven_on(group: list[Finding]) -> str:
    """On which inputs a rule was proven; of many the first three."""
    lines = []
    for source in dict.fromkeys(finding.source for finding in group):
        inputs = list(dict.fromkeys(finding.inputs for finding in group if finding.source == source))
        more = f", and {len(inputs) - 3} more" if len(inputs) > 3 else ""
        lines.append(f"{SOURCES.get(source, source)}: {'; '.join(inputs[:3])}{more}")
    return "\n".join(lines)


def problem_lines(audit: Audit) -> Iterator[str]:
    """What could not be looked at, what was left out, and how the program ended."""
    for problem in audit.problems:
        yield f"[yellow]{escape(problem.where)}[/]: {escape(problem.message)}"
        if problem.repair:
            yield f"  repair: {escape(problem.repair)}"
    yield from map(escape, audit.notes)
    if audit.program is not None and audit.program_status:
        yield f"[bold red]{escape(audit.program)} itself ended with exit status {audit.program_status}[/]"


def summary(audit: Audit) -> str:
    """The sum in one line."""
    counts = {v: sum(f.verdict == v for f in audit.findings) for v in STYLES}
    parts = [f"[{STYLES[v]}]{n} {v}[/]" for v, n in counts.items() if n]
    total = len(audit.findings)
    return f"{total} rule{'s' if total != 1 else ''}: " + ", ".join(parts) if parts else "no rule was proven"
