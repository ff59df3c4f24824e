"""The right numbers in the wrong places: transposed, permuted, reversed, or another argument's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from gradwright.check.case import Case
from gradwright.check.hypotheses.base import Candidate, Finding


def rearranged(case: Case) -> Iterator[Candidate]:
    """The rule's own numbers in other orders that have the input's shape."""
    raw, name = case.raw[case.index], case.leaf.name
    if raw is None or raw.size != int(np.prod(case.leaf.shape)):
        return
    yield from _permuted(case, raw)
    shape = case.leaf.shape
    if raw.ndim == len(shape) >= 2:
        turned = raw.reshape(shape[::-1]).transpose()
        said = f"the gradient of `{name}` was reshaped where it must be transposed"
        yield Candidate(
            turned, Finding("transposed", said, case.code.transpose(case.code.reshape("g", shape[::-1]), ()))
        )
    yield from _mirrored(case, raw)


def _permuted(case: Case, raw: np.ndarray) -> Iterator[Candidate]:
    if not 2 <= raw.ndim <= 5:
        return
    for order in itertools.permutations(range(raw.ndim)):
        if order == tuple(range(raw.ndim)):
            continue
        turned = raw.transpose(order)
        if turned.shape == case.leaf.shape:
            said = "is transposed" if raw.ndim == 2 else f"has its axes in the wrong order (permute by {list(order)})"
            finding = Finding(
                "transposed", f"the gradient of `{case.leaf.name}` {said}", case.code.transpose("g", order)
            )
            yield Candidate(turned, finding)


def _mirrored(case: Case, raw: np.ndarray) -> Iterator[Candidate]:
    if raw.shape != case.leaf.shape:
        return
    for axis in range(raw.ndim):
        said = f"the gradient of `{case.leaf.name}` is reversed along axis {axis}"
        yield Candidate(np.flip(raw, axis), Finding("transposed", said, f"reverse g along axis {axis}"))
        for shift in _shifts(raw, case.expected, axis):
            said = f"the gradient of `{case.leaf.name}` is shifted along axis {axis}: roll it by {shift}"
            yield Candidate(
                np.roll(raw, shift, axis), Finding("transposed", said, f"roll g by {shift} along axis {axis}")
            )


def _shifts(raw: np.ndarray, expected: np.ndarray | None, axis: int) -> list[int]:
    """The shift that correlates best with the right gradient; small ones where that is not known."""
    if raw.shape[axis] < 2:
        return []
    if expected is None:
        return [s for s in (1, -1, 2, -2) if abs(s) < raw.shape[axis]]
    with np.errstate(all="ignore"):
        match = np.fft.ifft(np.fft.fft(expected, axis=axis) * np.conj(np.fft.fft(raw, axis=axis)), axis=axis).real
    best = int(np.argmax(match.sum(axis=tuple(a for a in range(raw.ndim) if a != axis))))
    return [best] if best else []


def shuffled(case: Case) -> list[Finding]:
    """Any other order of the same numbers."""
    got, due = case.got, case.expected
    if got is None or due is None or got.size < 3 or np.iscomplexobj(got) or not np.isfinite(got).all():
        return []
    alike = np.allclose(np.sort(got, axis=None), np.sort(due, axis=None), rtol=max(1e-7, 300 * case.eps), atol=0)
    if not alike or np.count_nonzero(np.abs(got - due) > 1e-6 * np.abs(due)) < 3:
        return []
    return [Finding("transposed", f"the gradient of `{case.leaf.name}` has the right numbers in the wrong order")]


def exchanged(case: Case) -> Iterator[Candidate]:
    """The gradients that came for the other inputs."""
    for other, leaf in enumerate(case.leaves):
        if other == case.index:
            continue
        for raw in (case.gradients[other], case.raw[other]):
            if raw is not None and raw.shape == case.leaf.shape:
                said = f"the gradient of `{case.leaf.name}` came in the place of `{leaf.name}`"
                yield Candidate(raw, Finding("swapped", said, f"return them in the order of {_order(case)}"))
                break


def _order(case: Case) -> str:
    return ", ".join(f"`{leaf.name}`" for leaf in case.leaves)
