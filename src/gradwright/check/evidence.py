"""What a report keeps of each argument: its error, its bound, and the corner around its worst element."""

from __future__ import annotations

from gradwright.check.report import Evidence, Fault
from gradwright.check.sample import Sample
from gradwright.check.subject import Subject


def evidence(subject: Subject, samples: list[Sample], faults: list[Fault]) -> list[Evidence]:
    """One row an argument or variable, from the sample in which it is worst."""
    blamed = {fault.argument for fault in faults}
    judged = [sample for sample in samples if sample.comparisons]
    rows = []
    for i, leaf in enumerate(subject.leaves):
        row = Evidence(leaf.name, leaf.kind, leaf.shape, leaf.dtype, "wrong" if leaf.name in blamed else "right")
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
