"""torch's side of the shape functions: every size is known, the adjoints are indexed sums."""

from __future__ import annotations

import math

import numpy as np
import torch

MISUSE = (ValueError, TypeError, IndexError, RuntimeError)


def tensor(x, like=None):
    if isinstance(x, torch.Tensor):
        return x
    return torch.as_tensor(x) if like is None else torch.as_tensor(x, dtype=like.dtype, device=like.device)


def static(x):
    return tuple(x.shape)


def shape(x):
    return tuple(x.shape)


def pin(x, sizes):
    return x


def known(value):
    return value.tolist() if isinstance(value, torch.Tensor) else value


def integers(values):
    return tuple(int(v) for v in values)


def reshape(x, sizes):
    return torch.reshape(x, sizes)


def expand_dims(x, axes):
    for axis in axes:
        x = torch.unsqueeze(x, axis)
    return x


def squeeze(x, axes):
    return torch.squeeze(x) if axes is None else torch.squeeze(x, tuple(axes))


def transpose(x, perm):
    return torch.permute(x, tuple(reversed(range(x.ndim))) if perm is None else tuple(perm))


def broadcast_to(x, sizes):
    return torch.broadcast_to(x, sizes)


def total(x, axes):
    return torch.sum(x, tuple(axes)) if axes else x


def tile(x, multiples):
    return torch.tile(x, tuple(multiples))


def repeated(size, repeats):
    return np.repeat(np.arange(size), repeats)


def mirrored(size, before, after, mode):
    return np.pad(np.arange(size), (before, after), mode=mode)


def pad(x, paddings, value=0):
    flat = [int(side) for pair in reversed(list(paddings)) for side in pair]
    return torch.nn.functional.pad(x, flat, value=value)


def cut(x, begin, size):
    return x[tuple(slice(b, b + s) for b, s in zip(begin, size, strict=True))]


def uncut(x, begin, behind):
    return pad(x, list(zip(begin, behind, strict=True)))


def take_key(x, key):
    return x.reshape(-1)[_places(x, key, x.shape)]


def _places(x, key, sizes):
    """Let numpy read the key: torch knows no negative step."""
    return torch.as_tensor(np.arange(math.prod(sizes)).reshape(tuple(sizes))[key].copy(), device=x.device)


def untake_key(x, key, sizes):
    places = _places(x, key, sizes)
    return zeros([math.prod(sizes)], x).index_add(0, places.reshape(-1), x.reshape(-1)).reshape(sizes)


def index(values):
    return torch.as_tensor(values)


def gather(x, indices, axis, batch_dims):
    if batch_dims:
        parts = [gather(part, chosen, axis - 1, batch_dims - 1) for part, chosen in zip(x, indices, strict=True)]
        return torch.stack(parts)
    picked = torch.index_select(x, axis, indices.reshape(-1))
    return picked.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


def ungather(x, indices, axis, batch_dims, sizes, rank):
    if batch_dims:
        pairs = zip(x, indices, strict=True)
        return torch.stack([ungather(u, i, axis - 1, batch_dims - 1, sizes[1:], rank - 1) for u, i in pairs])
    flat = x.reshape([*sizes[:axis], indices.numel(), *sizes[axis + 1 :]])
    return zeros(sizes, x).index_add(axis, indices.reshape(-1), flat)


def concat(xs, axis):
    return torch.cat(tuple(xs), axis)


def stack(xs, axis):
    return torch.stack(tuple(xs), axis)


def unstack(x, count, axis):
    return list(torch.unbind(x, axis))


def split(x, sizes, axis):
    if isinstance(sizes, int):
        return list(torch.split(x, x.shape[axis] // sizes, axis))
    return list(torch.split(x, list(sizes), axis))


def unconcat(x, sizes, axis):
    return list(torch.split(x, list(sizes), axis))


def size_along(x, axis):
    return x.shape[axis]


def zeros(sizes, like):
    return torch.zeros(sizes, dtype=like.dtype, device=like.device)


def conjugate(partial):
    """torch's gradients are conjugated: upstream times the conjugate of the derivative."""
    if isinstance(partial, complex):
        return partial.conjugate()
    return torch.conj(partial) if isinstance(partial, torch.Tensor) else partial


def zeros_like(x):
    return torch.zeros_like(x)


def is_traced(x):
    """Whether a value is known only at run time."""
    return False


def transposed(push, tangents, upstreams):
    """Transpose a linear function of the tangents: one gradient a tangent."""
    _, pull = torch.func.vjp(lambda *ts: tuple(push(list(ts))), *tangents)
    return list(pull(tuple(upstreams)))


def like(dtype):
    """Something that has a dtype, for `zeros`."""
    return torch.empty(0, dtype=dtype)


def dtype_name(x):
    return str(x.dtype).removeprefix("torch.")


def made(value, name):
    """Make a tensor of an array."""
    return torch.as_tensor(value).to(getattr(torch, name))


def can_try(values):
    """Whether a function can be tried on other values at this moment."""
    return True


def out_of_graph(function):
    with torch.no_grad():
        return function()
