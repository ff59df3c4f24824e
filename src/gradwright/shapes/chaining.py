"""Pairs one after the other: forward from left to right, back from right to left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwright.errors import ArgumentError
from gradwright.shapes.pair import Pair


def chain(*parts: Any) -> Any:
    """Compose shape functions into one pair.

    >>> y, back = gw.shapes.chain(
    ...     tf.ones([2, 3, 4]), lambda x: gw.shapes.transpose(x, [2, 0, 1]), gw.shapes.flatten)
    >>> y.shape, back(y).shape
    (TensorShape([24]), TensorShape([2, 3, 4]))

    Three forms: a tensor and functions that each give a pair, as above; functions alone, which give a function of
    the tensor; or pairs already made, each from the output before it, which give (last output, way back to the first).
    """
    if not parts:
        raise ArgumentError("gw.shapes.chain: nothing to chain; write gw.shapes.chain(x, gw.shapes.flatten)")
    if all(map(_is_pair, parts)):
        return parts[-1][0], _backwards([back for _, back in parts])
    if all(map(callable, parts)):
        return lambda x: chain(x, *parts)
    x, *steps = parts
    bad = next((step for step in steps if not callable(step)), None)
    if bad is not None:
        raise ArgumentError(f"gw.shapes.chain: a step must be a function that gives (output, back), got {bad!r}")
    backs = []
    for step in steps:
        x, back = _run(step, x)
        backs.append(back)
    return x, _backwards(backs)


def _is_pair(part: Any) -> bool:
    return isinstance(part, tuple) and len(part) == 2 and callable(part[1]) and not callable(part[0])


def _run(step: Callable, x: Any) -> Pair:
    made = step(x)
    if not _is_pair(made):
        name = getattr(step, "__name__", repr(step))
        raise ArgumentError(f"gw.shapes.chain: the step `{name}` gave {type(made).__name__}, not (output, back)")
    return made


def _backwards(backs: list[Callable]) -> Callable:
    def pull(*upstreams):
        for back in reversed(backs):
            upstreams = (back(*upstreams),)
        return upstreams[0] if len(upstreams) == 1 else upstreams

    def push(*tangents):
        for back in backs:
            tangents = (back.jvp(*tangents),)  # type: ignore[attr-defined]
        return tangents[0] if len(tangents) == 1 else tangents

    if all(hasattr(back, "jvp") for back in backs):
        pull.jvp = push  # type: ignore[attr-defined]
    return pull
