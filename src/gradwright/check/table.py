"""An audit for people: one table, then each mistake in full."""

from __future__ import annotations

import os
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
    stream: IO[str] = file or sys.stdout
    longest = max((len(finding.where) for finding in audit.findings), default=0)
    console = Console(file=stream, highlight=False, width=width(stream, longest))
    if audit.findings:
        console.print(table(audit.findings, whole_places=longest < 0.45 * console.width))
    for finding in audit.findings if details else ():
        console.print(finding.text or finding.reason, markup=False, style=None, soft_wrap=True)
        console.print()
    for line in problem_lines(audit):
        console.print(line, soft_wrap=True)
    console.print(summary(audit), soft_wrap=True)


def width(file: IO[str], longest_place: int) -> int | None:
    """The terminal's own width; where a file or a pipe has none, wide enough that no place is broken."""
    known = "COLUMNS" in os.environ or getattr(file, "isatty", lambda: False)()
    return None if known else 115 + max(longest_place, 35)


def table(findings: list[Finding], whole_places: bool) -> Table:
    """The rules, their verdicts, what is wrong and how to repair it.

    A place in the source is there to be copied and clicked: it is broken only where the terminal is too narrow.
    """
    result = Table(show_lines=True)
    result.add_column("rule", overflow="fold", min_width=8)
    result.add_column("file:line", overflow="fold", no_wrap=whole_places)
    result.add_column("verdict", no_wrap=True)
    result.add_column("what is wrong", overflow="fold", min_width=20)
    result.add_column("how to repair", overflow="fold", min_width=12)
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
        nothing = f"[dim]nothing, {escape(proven_on(group))}[/]"
        yield (*head, escape(finding.reason) if told else nothing, escape(finding.repair or ""))
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
