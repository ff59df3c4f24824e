"""A log as one page of HTML that needs nothing else."""

from __future__ import annotations

import html
import math
import pathlib
from typing import Any

from gradwright.observe.records import Record
from gradwright.observe.table import HEADS, NOTHING, Row, cells, rows_of

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; color: #1c2430 }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .3rem .6rem; vertical-align: top }
th { border-bottom: 2px solid #1c2430 } tr.last td { border-bottom: 1px solid #d5dae1 }
.place, footer { color: #667285 } .bad td { background: #fdecea } .note { background: #fff6da; padding: .5rem .8rem }
svg { display: block; width: 100%; height: 9rem } figure { margin: 1.2rem 0 } figcaption { font-weight: 600 }
""".strip()


def write(path: Any, records: list[Record], notes: list[str]) -> str:
    """Write the page; gives its path."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(rows_of(records), notes), encoding="utf-8")
    return str(path)


def page(rows: list[Row], notes: list[str]) -> str:
    """The whole page."""
    body = table(rows) + "".join(map(course, rows)) if rows else f"<p>{NOTHING}</p>"
    told = "".join(f'<p class="note">{html.escape(note)}</p>' for note in notes)
    title = "Gradients that flowed"
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    body = f"<body><h1>{title}</h1>{told}{body}</body>"
    return f'<!doctype html><html lang="en"><head>{head}</head>{body}</html>\n'


def table(rows: list[Row]) -> str:
    """The same table as in the terminal."""
    heads = "".join(f"<th>{html.escape(head)}</th>" for head in HEADS)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(map(lines, rows))}</tbody></table>"


def lines(row: Row) -> str:
    """The lines of one rule."""
    made = cells(row)
    bad = any(line[6] for line in made)
    parts = []
    for i, line in enumerate(made):
        names = (["bad"] if bad else []) + (["last"] if i == len(made) - 1 else [])
        tag = f' class="{" ".join(names)}"' if names else ""
        first = ' class="place"' if i else ""
        tds = "".join(f"<td{first if k == 0 else ''}>{html.escape(cell.strip())}</td>" for k, cell in enumerate(line))
        parts.append(f"<tr{tag}>{tds}</tr>")
    return "".join(parts)


def course(row: Row) -> str:
    """The norms of the upstream over the records, as a picture; its axis is logarithmic where all are positive."""
    values = [(i, v) for i, v in enumerate(row.norms) if math.isfinite(v)]
    if len(values) < 2:
        return ""
    logarithmic = all(v > 0 for _, v in values)
    heights = [math.log10(v) if logarithmic else v for _, v in values]
    low, high = min(heights), max(heights)
    reach = (high - low) or 1.0
    last = max(len(row.norms) - 1, 1)
    points = " ".join(
        f"{10 + 980 * i / last:.1f},{110 - 100 * (h - low) / reach:.1f}"
        for (i, _), h in zip(values, heights, strict=True)
    )
    ends = [min(v for _, v in values), max(v for _, v in values)]
    caption = f"{row.rule} ({row.where}): norm of the upstream, {ends[0]:.4g} to {ends[1]:.4g}"
    caption += ", logarithmic" if logarithmic else ""
    return (
        f"<figure><figcaption>{html.escape(caption)}</figcaption>"
        f'<svg viewBox="0 0 1000 120" preserveAspectRatio="none" role="img"><polyline points="{points}" '
        'fill="none" stroke="#2a6fbb" stroke-width="2" vector-effect="non-scaling-stroke"/></svg></figure>'
    )
