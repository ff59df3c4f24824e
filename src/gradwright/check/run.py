"""`gradwright run`: the user's program, watched, and its rules proven when it has ended."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Collection, Sequence
from contextlib import nullcontext

from gradwright.check import program
from gradwright.check.audit import Audit, on_purpose_note, prove_meetings
from gradwright.check.counter import counter
from gradwright.check.find import Problem
from gradwright.check.quiet import silence
from gradwright.check.watch import Watch, compiled_run_eagerly, watching


def run_program(
    target: str,
    args: Sequence[str],
    is_module: bool,
    inside: bool = False,
    surrogates: Collection[str] = (),
    eager: bool = False,
) -> Audit:
    """Run a script, or with `is_module` a dotted module, and prove each rule that it called.

    With `eager`, compiled functions run op by op, so that the rules in them meet real values.
    """
    watch = Watch(inside=inside)
    with program.as_main(target, args, is_module):
        with watching(watch), compiled_run_eagerly() if eager else nullcontext():
            problem = unusable(target, is_module)
            status = None if problem else program.run(target, is_module)
        with counter() as step, silence():
            audit = Audit(prove_meetings(watch.take(), surrogates, step), program=target, program_status=status)
    audit.left_out = sum(watch.left_out.values())
    audit.notes = [*left_out(watch), *on_purpose_note(audit.findings)]
    if problem or (not audit.findings and not status):
        audit.problems.append(problem or none_called(target, is_module))
    return audit


def left_out(watch: Watch) -> list[str]:
    """What was met beyond the bounds."""
    return [
        f"{where}: {count} more rules or signatures were met and not proven" for where, count in watch.left_out.items()
    ]


def none_called(target: str, is_module: bool) -> Problem:
    """The problem of a program that ran well and gave nothing to prove."""
    fact = "the program ran and called no rule of gradwright or of tf.custom_gradient"
    return Problem(target, fact, f"gradwright check {target}" if not is_module else None)


def unusable(target: str, is_module: bool) -> Problem | None:
    """Why a program cannot even be started."""
    if is_module:
        return (
            None if is_there(target) else Problem(target, "there is no such module", "gradwright run path/to/script.py")
        )
    if not os.path.isfile(target):
        return Problem(target, "there is no such file", "gradwright run path/to/script.py")
    fact = program.syntax_problem(target)
    return Problem(target, f"cannot be run: {fact}") if fact else None


def is_there(name: str) -> bool:
    """Whether Python can find a module of this name."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False
