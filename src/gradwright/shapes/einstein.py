"""Rearranging by an einops pattern: back is the pattern read from right to left."""

from __future__ import annotations

import re
from typing import Any

from gradwright.backends import backend_of
from gradwright.shapes.pair import Pair, linear_pair, shape_function

GROUP = re.compile(r"\(([^)]*)\)|(\S+)")


@shape_function
def rearrange(x: Any, pattern: str, **sizes: Any) -> Pair:
    """Rearrange axes by an einops pattern.

    >>> y, back = gw.shapes.rearrange(tf.ones([2, 12]), "b (h w) -> w h b", h=3)
    >>> y.shape, back(y).shape
    (TensorShape([4, 3, 2]), TensorShape([2, 12]))

    Source: the notation is that of einops (Rogozhnikov, ICLR 2022), which also carries it out.
    """
    import einops

    b = backend_of(x)
    x = b.tensor(x)
    left, right = _sides(pattern, None if b.static(x) is None else len(b.static(x)))
    lengths = {name: b.known(size) for name, size in sizes.items()}
    output = einops.rearrange(x, f"{left} -> {right}", **lengths)
    lengths = lengths | _measured(b, x, left, lengths)
    return linear_pair(
        "rearrange",
        b,
        x,
        output,
        lambda up: einops.rearrange(up, f"{right} -> {left}", **lengths),
        lambda t: einops.rearrange(t, f"{left} -> {right}", **sizes),
    )


def _sides(pattern: str, rank: int | None) -> tuple[str, str]:
    """Cut the pattern in two, with names in the ellipsis's place so that it can be read both ways.

    >>> _sides("a ... -> a (...)", 3)
    ('a dots0 dots1', 'a (dots0 dots1)')
    """
    left, arrow, right = pattern.partition("->")
    if not arrow:
        raise ValueError(f"the pattern {pattern!r} has no `->`")
    if "..." in left:
        if rank is None:
            raise ValueError("the rank of `x` must be known for a pattern with an ellipsis")
        named = len(GROUP.findall(left)) - 1
        dots = " ".join(f"dots{i}" for i in range(rank - named))
        left, right = left.replace("...", dots), right.replace("...", dots)
    return left.strip(), right.strip()


def _measured(b, x, left: str, lengths: dict[str, Any]) -> dict[str, Any]:
    """Find the size of every axis on the left that the caller did not give."""
    found: dict[str, Any] = {}
    for axis, (group, single) in enumerate(GROUP.findall(left)):
        names = [name for name in (group or single).split() if not name.isdigit()]
        free = [name for name in names if name not in lengths]
        if not free:
            continue
        size = b.size_along(x, axis)
        for name in names:
            size = size if name in free else size // lengths[name]
        found[free[0]] = size
    return found
