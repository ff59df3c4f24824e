"""`gradwright explain SCRIPT`: run the user's unchanged program, and say why each missing gradient is missing."""

from __future__ import annotations

import contextlib
import json as json_module
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradwright.explain.causes import Reason


@dataclass
class Findings:
    """What a run brought to light; the same finding in a loop is counted, not repeated."""

    reasons: dict[tuple, tuple[str, Reason]] = field(default_factory=dict)
    counts: dict[tuple, int] = field(default_factory=dict)

    def add(self, asked: str, reason: Reason) -> None:
        """A source got None on the line `asked`."""
        key = (asked, reason.source, reason.cause, reason.where)
        self.reasons.setdefault(key, (asked, reason))
        self.counts[key] = self.counts.get(key, 0) + 1

    def text(self) -> str:
        """For people."""
        if not self.reasons:
            return "gradwright explain: no tape gave None"
        blocks = [f"gradwright explain: {len(self.reasons)} missing gradient{'s'[: len(self.reasons) > 1]}"]
        for key, (asked, reason) in self.reasons.items():
            often = f", {self.counts[key]} times" if self.counts[key] > 1 else ""
            blocks.append(f"asked for at {asked}{often}\n{reason}")
        return "\n\n".join(blocks)

    def to_json(self, error: str | None) -> str:
        """For machines."""
        found = [
            reason.to_dict() | {"asked": asked, "count": self.counts[key]}
            for key, (asked, reason) in self.reasons.items()
        ]
        return json_module.dumps({"missing": found, "error": error}, indent=2)


def run(path: str, argv: Sequence[str] = (), json: bool = False) -> int:
    """Run a Python file as `python path argv...` would, and report every gradient that was None.

    Args:
        path: the user's script.
        argv: its arguments.
        json: print one JSON object to standard output (the script's own output then goes to standard error).

    Returns:
        0 if every gradient was there, 1 if one was missing or the script failed, 2 if there is no such file.
    """
    if not os.path.isfile(path):
        print(f"gradwright explain: no such file: {path}", file=sys.stderr)
        return 2
    from gradwright.frameworks.tf_explain_script import listening

    findings = Findings()
    with contextlib.redirect_stdout(sys.stderr) if json else contextlib.nullcontext():
        with _as_main(path, argv), listening(findings.add):
            error, status = _execute(path)
    print(findings.to_json(error) if json else "\n" + findings.text())
    return 1 if findings.reasons or status else 0


@contextlib.contextmanager
def _as_main(path: str, argv: Sequence[str]) -> Iterator[None]:
    """The arguments and the import path as the script expects them; put back afterwards."""
    before = sys.argv, sys.path[:], sys.modules.get("__main__")
    sys.argv, sys.path[:0] = [path, *argv], [os.path.dirname(os.path.abspath(path))]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before[0], before[1]
        if before[2] is not None:
            sys.modules["__main__"] = before[2]


def _execute(path: str) -> tuple[str | None, int]:
    """Run the file; the error it ended with, if any, and whether it failed."""
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        return None, _status(end.code)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}", 1
    return None, 0


def _status(code: Any) -> int:
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
    return 0 if code is None else code if isinstance(code, int) else 1
