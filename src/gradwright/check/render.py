"""The report as text that needs no manual."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradwright.check.report import Evidence, Fault, Report

HEADLINES = {
    "right": "the gradient of `{name}` is right",
    "wrong": "the gradient of `{name}` is WRONG",
    "undecided": "the gradient of `{name}` is undecided",
}


def render(report: Report) -> str:
    """All of a report, most important first: verdict, faults, evidence, strength."""
    head = HEADLINES[report.verdict].format(name=report.name) + (f" ({report.where})" if report.where else "")
    blocks = [head]
    if report.reason:
        blocks.append(f"  {report.reason}")
    blocks += [_fault(fault) for fault in report.faults]
    if report.arguments:
        blocks.append(_table(report.arguments))
    if report.oracle:
        blocks.append(f"  judged by: {report.oracle}")
    if report.proven:
        blocks.append(f"  also proven: {', '.join(report.proven)}")
    blocks.append(_strength(report))
    blocks += [f"  note: {note.message}" for note in report.notes]
    return "\n".join(blocks)


def _fault(fault: Fault) -> str:
    return "\n".join("  " + line for line in str(fault).splitlines())


def _strength(report: Report) -> str:
    seen = "" if report.detectable is None else f"a relative error of {report.detectable:.1e} would have been seen; "
    calls = ", ".join(f"{count} {what}" for what, count in report.calls.items() if count)
    return f"  {seen}{report.evaluations} evaluations" + (f" ({calls})" if calls else "")


def _table(rows: list[Evidence]) -> str:
    cells = [("argument", "shape", "dtype", "error", "bound", "verdict")]
    cells += [
        (row.argument, str(tuple(row.shape)), row.dtype, _number(row.error), _number(row.bound), row.status)
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(6)]
    return "\n".join("  " + "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
