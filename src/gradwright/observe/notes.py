"""What a log cannot show, said in words."""

from __future__ import annotations

import sys
from typing import Any

from gradwright.observe.hub import hub


def unseen(log: Any) -> list[str]:
    """Remarks on what was asked for and never seen."""
    return [*silent_filters(log), *traced_before(log)]


def silent_filters(log: Any) -> list[str]:
    """Names in `rules=` that no record carries."""
    import fnmatch

    met = {record.rule for record in log._records}
    wanted = [w for w in log.wish.rules or () if isinstance(w, str)]
    return [f"no record of a rule named {w!r}" for w in wanted if not any(fnmatch.fnmatchcase(m, w) for m in met)]


def traced_before(log: Any) -> list[str]:
    """Rules that stand in functions traced without a watcher, and gave no record."""
    if "tensorflow" not in sys.modules or "tensorflow" not in hub.readers:
        return []
    from gradwright.frameworks.tf_observe import rules_in_unwatched_functions

    met = {(record.rule, record.where) for record in log._records}
    silent = {(rule.name, rule.where): None for rule in rules_in_unwatched_functions() if log.wish.accepts(rule)}
    return [
        f"no backward of `{name}` ({where}) was seen; it stands in a function traced before this log was open. "
        "A tf.function is traced anew while a log is open, a concrete function or a loaded model is not: "
        "make it inside the log"
        for name, where in silent
        if (name, where) not in met
    ]
