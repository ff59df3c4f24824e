"""The formulas' functions in torch."""

from __future__ import annotations

import torch

exp, abs, sqrt, sign, maximum, minimum = torch.exp, torch.abs, torch.sqrt, torch.sign, torch.maximum, torch.minimum
log, log1p, expm1, sigmoid = torch.log, torch.log1p, torch.expm1, torch.sigmoid
atan2, acos, asin, power, round = torch.atan2, torch.acos, torch.asin, torch.pow, torch.round
is_finite, zeros_like, ones_like, where, clip = (
    torch.isfinite,
    torch.zeros_like,
    torch.ones_like,
    torch.where,
    torch.clip,
)


def identity(x):
    return x.clone()


def stop_gradient(x):
    return x.detach()


def tensor(x, like=None):
    if isinstance(x, torch.Tensor):
        return x
    return torch.as_tensor(x) if like is None else torch.as_tensor(x, dtype=like.dtype, device=like.device)


def cast(x, like):
    return torch.as_tensor(x).to(like.dtype)


def widened(x):
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def is_bool(x):
    return x.dtype == torch.bool


def is_float(x):
    return x.is_floating_point() or x.is_complex()


def sizes(x):
    return tuple(x.shape)


def _axes(axis, x):
    return tuple(range(x.ndim)) if axis is None else axis


def total(x, axis=None, keepdims=False):
    return torch.sum(x, _axes(axis, x), keepdim=keepdims)


def mean(x, axis=None, keepdims=False):
    return torch.mean(x, _axes(axis, x), keepdim=keepdims)


def largest(x, axis=None, keepdims=False):
    if not x.numel():
        return torch.sum(x, _axes(axis, x), keepdim=keepdims)
    return torch.clamp(torch.amax(x, _axes(axis, x), keepdim=keepdims), min=0)


def count(whole, part):
    return whole.numel() / max(part.numel(), 1)


def unreduced(x, axis, keepdims, like):
    if keepdims:
        return x
    axes = range(like.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    for a in sorted(a % like.ndim for a in axes):
        x = x.unsqueeze(a)
    return x


def chosen(condition, x):
    flat = condition.reshape(-1)
    padded = torch.cat([x.reshape(-1), torch.ones(1, dtype=x.dtype, device=x.device)])
    first = torch.argmax(flat.int()) if flat.numel() else torch.tensor(0)
    return padded[torch.where(flat.any(), first, torch.tensor(flat.numel()))]


def broadcast_together(condition, x):
    return torch.broadcast_tensors(condition, x)


def dtype_name(x):
    return str(x.dtype).removeprefix("torch.")


def recorded(function, steps_pass, inputs):
    """Run a function; torch's parameters are captured by its own graph, not here."""
    return function(), None
