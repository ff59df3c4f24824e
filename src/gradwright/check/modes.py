"""The same gradient in every mode that is asked for: the same, or refused by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright.check.bench import Bench
from gradwright.check.openers import differentiable
from gradwright.check.report import Fault
from gradwright.check.subject import Subject, wide
from gradwright.errors import ModeError

if TYPE_CHECKING:
    from gradwright.check.examine import Examination
    from gradwright.check.sample import Sample

ORDERS = {"forward": "forward mode: a ForwardAccumulator, jax.jvp", "second-order": "the gradient of the gradient"}
SYNONYMS = {
    "graph": "function", "xla": "jit", "jit-compile": "jit", "vectorized-map": "vectorized", "vmap": "vectorized",
    "v1": "graph-v1", "v1-graph": "graph-v1", "savedmodel": "saved-model", "map-fn": "map", "while-loop": "while",
    "forward-mode": "forward", "jvp": "forward", "order-2": "second-order", "mirrored-strategy": "mirrored",
    "tape-inside": "function", "tape-outside": "function-outside", "function-inside": "function",
}  # fmt: skip


def names(subject: Subject) -> dict[str, str]:
    """Every mode of this subject's framework with what it is."""
    return {name: told for name, (told, _) in subject.backend.modes().items()} | ORDERS


def chosen(subject: Subject, modes: Sequence[str] | str) -> list[str]:
    """The modes asked for by their own names; raises ValueError for one that does not exist."""
    wanted = [modes] if isinstance(modes, str) else list(modes)
    known = names(subject)
    if wanted == ["all"]:
        return list(known)
    found = []
    for mode in wanted:
        plain = str(mode).strip().lower().replace("_", "-").replace(" ", "-")
        plain = SYNONYMS.get(plain, plain)
        if plain not in known:
            listed = ", ".join(repr(name) for name in known)
            raise ValueError(f"unknown mode {mode!r} for {subject.backend.name}; the modes are {listed} (or 'all')")
        found.append(plain)
    return list(dict.fromkeys(found))


def same_in(examination: Examination, native: Sample, mode: str) -> list[Fault]:
    """The faults of one mode: a gradient that differs from the rule's own answer, or an exception."""
    subject, report = examination.subject, examination.report
    if subject.backend.name == "numpy":
        return []
    try:
        found = _gradients(examination, native, mode, subject.apply)
    except ModeError as refusal:
        report.modes[mode] = "refused"
        report.notes.append(Fault("mode", None, str(refusal).splitlines()[0]))
        return []
    except Exception as error:
        return _raised(examination, native, mode, error)
    faults = []
    for i, leaf in enumerate(subject.leaves):
        gap = _gap(found[i], native, i, examination.bench)
        if gap is not None:
            said = f"in mode {mode!r} the gradient of `{leaf.name}` is another than the rule's own: {gap}"
            faults.append(Fault("mode", leaf.name, said, None, subject.where))
    report.modes[mode] = "wrong" if faults else "right"
    return faults


def _gradients(examination: Examination, native: Sample, mode: str, fn: Callable[..., Any]) -> list[np.ndarray | None]:
    subject, bench = examination.subject, examination.bench
    do = subject.backend.modes()[mode][1]
    bench.counts["rule"] += 1
    bench.reseed()
    tensors = subject.tensors(native.point, precise=False)
    found = do(subject.over(fn), tensors, subject.variables, upstream_tensors(subject, native))
    return [None if g is None else wide(subject.backend.numpy(g)) for g in found]


def upstream_tensors(subject: Subject, sample: Sample, dtypes: list[str] | None = None) -> list[Any]:
    """The sample's upstreams as tensors."""
    kinds = dtypes or sample.opened.dtypes
    return [
        subject.backend.tensor(u, None, d) for u, d in zip(sample.upstreams, kinds, strict=True) if differentiable(d)
    ]


def _raised(examination: Examination, native: Sample, mode: str, error: Exception) -> list[Fault]:
    """An exception is the rule's fault only if the same function without its rule runs in this mode."""
    subject, report = examination.subject, examination.report
    first = (str(error).strip().splitlines() or [""])[0][:200]
    try:
        plain = subject.forward or subject.apply
        _gradients(examination, native, mode, plain)
        blamed = plain is not subject.apply
    except Exception:
        blamed = False
    if not blamed:
        report.modes[mode] = "not possible"
        said = f"mode {mode!r} could not be tried: {type(error).__name__}: {first}"
        report.notes.append(Fault("mode", None, said))
        return []
    report.modes[mode] = "wrong"
    said = f"in mode {mode!r} the rule raises {type(error).__name__}: {first}"
    return [Fault("mode", None, said, "use the framework's own ops on tensors in the rule", subject.where)]


def _gap(found: np.ndarray | None, native: Sample, leaf: int, bench: Bench) -> str | None:
    """How a mode's gradient differs from the rule's own, beyond rounding; None if it does not."""
    due = native.answer.gradients[leaf]
    if due is None or found is None:
        there = next((a for a in (due, found) if a is not None), None)
        if there is None or not np.any(there):
            return None
        return "None" if found is None else "there is one, and the rule gave None"
    if found.shape != due.shape:
        return None if native.answer.faults else f"shape {found.shape} for {due.shape}"
    eps = bench.native_eps
    noise = native.noise[leaf] if native.noise else 0.0
    scale = float(np.max(np.abs(due), initial=0.0))
    with np.errstate(invalid="ignore"):
        off = np.abs(found - due)
        fine = (off <= 1e3 * eps * np.abs(due) + 64 * noise + 64 * eps * scale) | (np.isnan(found) & np.isnan(due))
    if np.all(fine | (found == due)):
        return None
    at = np.unravel_index(int(np.argmax(np.where(fine, 0, np.nan_to_num(off, nan=np.inf)))), due.shape)
    return f"{found[at]:.6g} for {due[at]:.6g}" + (f" at {[int(i) for i in at]}" if due.shape else "")
