"""The course of a proof: run, choose an oracle, compare at the point and beside it, try the contract, decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwright.check.adapt import CannotRun, adapt, name_of
from gradwright.check.bench import Bench
from gradwright.check.examine import Examination
from gradwright.check.modes import chosen
from gradwright.check.openers import LABELS
from gradwright.check.report import Fault, Report
from gradwright.check.seeds import kept
from gradwright.errors import GradwrightError


def prove(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    like: Callable[..., Any] | None,
    modes: Sequence[str],
    order: int,
    seed: int | None,
    contract: bool,
) -> Report:
    """What `gw.check` does."""
    rng = np.random.default_rng(0 if seed is None else seed)
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2, not {order!r}")
    try:
        subject = adapt(f, *example_of(f, args, kwargs))
    except CannotRun as failed:
        unusable, reason = failed.args
        return Report(unusable.name, unusable.where, reason=reason)
    except GradwrightError as error:
        return _refused(f, error)
    wanted = chosen(subject, modes)
    surrogate = subject.surrogate if like is None else like
    bench = Bench(subject, _reference(surrogate))
    with kept(subject.backend):
        try:
            return Examination(subject, bench, rng, surrogate).run(contract, wanted, order)
        finally:
            subject.backend.restore(subject.kept)


def example_of(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments given, or those of the rule's own example where none are."""
    example = getattr(getattr(f, "options", None), "example", None)
    if args or kwargs or not callable(example):
        return args, kwargs
    made = example()
    return (tuple(made) if isinstance(made, (tuple, list)) else (made,)), {}


def _refused(f: Any, error: GradwrightError) -> Report:
    """The report of a rule that its own forward shows to be none."""
    report = Report(name_of(f), getattr(f, "where", None), "wrong")
    label = next((label for kind, label in LABELS.items() if isinstance(error, kind)), "value")
    lines = str(error).splitlines()
    repair = next((line.split("repair:", 1)[1].strip() for line in lines if "repair:" in line), None)
    report.faults.append(Fault(label, None, lines[0], repair, report.where))
    return report


def _reference(surrogate: Any) -> Callable[..., Any] | None:
    return surrogate if callable(surrogate) else None
