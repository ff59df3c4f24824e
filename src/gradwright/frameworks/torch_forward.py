"""Forward mode in PyTorch: the rule's own jvp, or the transpose of its pullback where that is linear."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradwright.errors import Fault
from gradwright.frameworks import torch_private as private
from gradwright.frameworks.forward import nonlinear, own_jvp, pushed_by
from gradwright.frameworks.torch import as_tensor, dtype_of, seam
from gradwright.pullback import Pullback
from gradwright.space import Space


def push(pullback: Pullback, tangents: list[Any], devices: list[Any]) -> list[Any]:
    """One tangent per output; None for an output that has none."""
    own = own_jvp(pullback)
    if own is None:
        return transposed(pullback, tangents, devices)
    tangents = [
        zeros(space, devices[0]) if t is None and space.kind != "none" else t
        for t, space in zip(tangents, pullback.spaces, strict=True)
    ]
    try:
        pushed = pushed_by(own, pullback, tangents, seam)
    except Fault as fault:
        raise pullback.rule.refuse(fault) from None
    return [
        None if space.kind == "none" else zeros(space, device) if p is None else into(p, space)
        for p, space, device in zip(pushed, pullback.output_spaces, devices, strict=True)
    ]


def zeros(space: Space, device: Any) -> Any:
    """A zero tangent."""
    return torch.zeros(space.shape, dtype=dtype_of(space.dtype), device=device)


def into(tangent: Any, space: Space) -> Any:
    """A tangent of the output's dtype and shape."""
    return as_tensor(tangent, space).to(dtype_of(space.dtype)).expand(space.shape)


def transposed(pullback: Pullback, tangents: list[Any], devices: list[Any]) -> list[Any]:
    """Transpose the pullback: it is linear in the upstream, so its own pullback is its transpose anywhere."""
    spaces = pullback.output_spaces
    live = [i for i, space in enumerate(spaces) if space.kind != "none"]

    def pull(*upstreams: Any) -> tuple[Any, ...]:
        given = dict(zip(live, upstreams, strict=True))
        pulled = pullback.pull([given.get(i) for i in range(len(spaces))])
        gradients = pulled.gradients + pulled.variable_gradients
        return tuple(g for g, t in zip(gradients, tangents, strict=True) if g is not None and t is not None)

    refuse_nonlinear(pull, pullback, [spaces[i] for i in live], [devices[i] for i in live])
    _, back = torch.func.vjp(pull, *(zeros(spaces[i], devices[i]) for i in live))
    met = pullback.spaces + pullback.variable_spaces
    given = [t for t, g, s in zip(tangents, answered(pullback, tangents, devices), met, strict=True) if g and s]
    pushed = dict(zip(live, back(tuple(given)), strict=True)) if given else {}
    return [None if s.kind == "none" else pushed.get(i, zeros(s, devices[i])) for i, s in enumerate(spaces)]


def answered(pullback: Pullback, tangents: list[Any], devices: list[Any]) -> list[bool]:
    """Which inputs have both a gradient and a tangent."""
    pulled = pullback.pull([zeros(s, d) for s, d in zip(pullback.output_spaces, devices, strict=True)])
    gradients = pulled.gradients + pulled.variable_gradients
    return [g is not None and t is not None for g, t in zip(gradients, tangents, strict=True)]


def refuse_nonlinear(pull: Any, pullback: Pullback, spaces: list[Space], devices: list[Any]) -> None:
    """Raise where a pullback does not treat sums and multiples of upstreams as a linear map must."""
    with torch.no_grad():
        one, two = draw(spaces, devices, 1), draw(spaces, devices, 2)
        first, second = pull(*one), pull(*two)
        both = pull(*(a + b for a, b in zip(one, two, strict=True)))
        if not close(both, [a + b for a, b in zip(first, second, strict=True)]):
            raise nonlinear(pullback.rule, "the gradient of a sum of upstreams is not the sum of the gradients")
        for power in (-24, 30):
            factor = 2.0 ** (power / 6 if any(s.dtype == "float16" for s in spaces) else power)
            if not close(pull(*(u * factor for u in one)), [f * factor for f in first]):
                raise nonlinear(pullback.rule, f"an upstream multiplied by {factor:g} does not multiply the gradient")


def draw(spaces: list[Space], devices: list[Any], seed: int) -> list[Any]:
    """Upstreams drawn at random, the same ones each time."""
    generator = np.random.default_rng(seed)
    drawn = []
    for space, device in zip(spaces, devices, strict=True):
        value = generator.normal(size=space.shape)
        if space.kind == "complex":
            value = value + 1j * generator.normal(size=space.shape)
        drawn.append(torch.as_tensor(value).to(dtype_of(space.dtype)).to(device))
    return drawn


def close(left: Any, right: Any) -> bool:
    """Whether two lists of gradients agree to the noise of single precision, measured by their largest element."""
    for a, b in zip(left, right, strict=True):
        if not a.numel():
            continue
        wide = torch.complex128 if a.is_complex() else torch.float64
        a, b = a.to(wide), b.to(wide)
        scale = torch.maximum(a.abs().max(), b.abs().max())
        # Under vmap there is one answer per example; all of them must agree. Not a number agrees with itself only.
        off = (torch.nan_to_num(a - b).abs().max() > 2e-2 * scale) | (a.isnan() != b.isnan()).any()
        if bool(private.bare(off).any()):
            return False
    return True
