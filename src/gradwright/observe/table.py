"""A log as a table: one row a rule, probe or layer."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

from gradwright.observe.records import Record, Stats

NOTHING = "no gradient flowed through a rule, probe or layer while this log was open"
BARS = "▁▂▃▄▅▆▇█"


class Table(str):
    """The table as text; rich shows it in colours, a notebook as it is."""

    _rows: list[Row]
    notes: list[str]

    def __new__(cls, records: list[Record], notes: list[str] | None = None) -> Table:
        """Lay the records out."""
        rows, notes = rows_of(records), list(notes or [])
        made = super().__new__(cls, as_text(rows, notes))
        made._rows, made.notes = rows, notes
        return made

    def __repr__(self) -> str:
        return str(self)

    def __rich__(self) -> Any:
        return as_rich(self._rows, self.notes)


@dataclass(frozen=True, slots=True)
class Row:
    """What a table tells of one rule: its last record, and the course of the norms."""

    rule: str
    where: str
    count: int
    last: Record
    norms: tuple[float, ...]


def rows_of(records: list[Record]) -> list[Row]:
    """Group records by rule and place, in the order in which they were met first."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in list(records):
        groups.setdefault((record.rule, record.where), []).append(record)
    return [Row(*key, len(group), group[-1], tuple(map(norm, group))) for key, group in groups.items()]


def norm(record: Record) -> float:
    """The norm of the whole upstream."""
    parts = [stats.norm for stats in record.upstreams()]
    return parts[0] if len(parts) == 1 else math.hypot(*parts)


def sparkline(values: tuple[float, ...], width: int = 16) -> str:
    """The course of some numbers in one line; what is not finite shows as `!`.

    >>> sparkline((0.0, 1.0, 2.0))
    '▁▅█'
    """
    values = values[-width:]
    finite = [v for v in values if math.isfinite(v)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    reach = high - low

    def bar(value: float) -> str:
        if not math.isfinite(value):
            return "!"
        return BARS[round((value - low) / reach * 7)] if reach > 0 else BARS[0]

    return "".join(bar(v) for v in values)


def number(value: float | None) -> str:
    """A number in four places."""
    return "" if value is None else f"{value:.4g}"


def shape(sizes: Any) -> str:
    """A shape; a size that is known at run time only is a question mark."""
    if sizes is None:
        return "?"
    inner = ", ".join("?" if n is None else str(n) for n in sizes)
    return f"({inner},)" if len(sizes) == 1 else f"({inner})"


def share(stats: Stats) -> str:
    """The share of zeros."""
    if stats.zeros is None:
        return ""
    return f"{100 * stats.zeros / stats.size:.0f}%" if stats.size else "-"


HEADS = (
    "rule", "records", "upstream", "norm", "trend", "zeros", "not finite", "argument", "gradient", "norm", "repairs",
)  # fmt: skip


def cells(row: Row) -> list[list[str]]:
    """The lines of a row: upstreams on the left, arguments on the right."""
    last = row.last
    ups = [[shape(s.shape), number(s.norm), "", share(s), str(s.nonfinite or "")] for s in last.upstreams()]
    for line in ups[:1]:
        line[2] = sparkline(row.norms)
    arguments = [argument(last, name) for name in last.gradients]
    lines = []
    for i in range(max(len(ups), len(arguments), 2 if row.where else 1)):
        head = [row.rule, str(row.count)] if i == 0 else [f"  {row.where}" if i == 1 else "", ""]
        lines.append(head + (ups[i] if i < len(ups) else [""] * 5) + (arguments[i] if i < len(arguments) else [""] * 4))
    return lines


def argument(record: Record, name: str) -> list[str]:
    """Name and shape of an argument, the shape and norm of its gradient, and what was repaired."""
    stats = record.gradients[name]
    given = record.returned.get(name, stats.shape if stats else None)
    told = shape(given) if stats else "None (unconnected)"
    repairs = ", ".join(text for repaired, text in record.repairs if repaired == name)
    return [f"{name} {shape(record.inputs.get(name))}", told, number(stats.norm) if stats else "", repairs]


def as_rich(rows: list[Row], notes: list[str]) -> Any:
    """The table for rich."""
    from rich import box
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    if not rows:
        return Group(Text(NOTHING), *(Text(f"note: {n}", style="yellow") for n in notes))
    made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in HEADS:
        made.add_column(head, justify="right" if head in ("records", "norm", "zeros", "not finite") else "left")
    for row in rows:
        lines = cells(row)
        bad = any(line[6] for line in lines)
        for i, line in enumerate(lines):
            style = "red" if bad and i == 0 else "dim" if i == 1 and line[0].startswith("  ") else ""
            made.add_row(*(Text(cell) for cell in line), style=style, end_section=i == len(lines) - 1)
    return Group(made, *(Text(f"note: {n}", style="yellow") for n in notes))


def as_text(rows: list[Row], notes: list[str]) -> str:
    """The table as plain lines, as wide as it needs."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=400, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(as_rich(rows, notes))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines() if line.strip())
