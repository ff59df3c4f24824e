"""JAX's side of the shape functions: every size is known, the adjoints are jax.numpy's own indexed sums."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

MISUSE = (ValueError, TypeError, IndexError)


def tensor(x, like=None):
    return jnp.asarray(x) if like is None else jnp.asarray(x, like.dtype)


def static(x):
    return tuple(x.shape)


def shape(x):
    return tuple(x.shape)


def pin(x, sizes):
    return x


def known(value):
    if isinstance(value, jax.core.Tracer):
        raise TypeError("a shape, an axis or a permutation must be known when JAX traces")
    return value


def integers(values):
    return tuple(int(v) for v in values)


def reshape(x, sizes):
    return jnp.reshape(x, sizes)


def expand_dims(x, axes):
    return jnp.expand_dims(x, tuple(axes))


def squeeze(x, axes):
    return jnp.squeeze(x, None if axes is None else tuple(axes))


def transpose(x, perm):
    return jnp.transpose(x, perm)


def broadcast_to(x, sizes):
    return jnp.broadcast_to(x, sizes)


def total(x, axes):
    return jnp.sum(x, tuple(axes))


def tile(x, multiples):
    return jnp.tile(x, multiples)


def repeated(size, repeats):
    return np.repeat(np.arange(size), repeats)


def mirrored(size, before, after, mode):
    return np.pad(np.arange(size), (before, after), mode=mode)


def pad(x, paddings, value=0):
    return jnp.pad(x, paddings, constant_values=value)


def cut(x, begin, size):
    return jax.lax.slice(x, begin, [b + s for b, s in zip(begin, size, strict=True)])


def uncut(x, begin, behind):
    return jnp.pad(x, list(zip(begin, behind, strict=True)))


def take_key(x, key):
    return x[key]


def untake_key(x, key, sizes):
    return jnp.zeros(sizes, x.dtype).at[key].add(x)


def index(values):
    return jnp.asarray(values)


def gather(x, indices, axis, batch_dims):
    if not batch_dims:
        return jnp.take(x, indices, axis)
    return jax.vmap(lambda part, chosen: gather(part, chosen, axis - 1, batch_dims - 1))(x, indices)


def ungather(x, indices, axis, batch_dims, sizes, rank):
    if not batch_dims:
        return jnp.zeros(sizes, x.dtype).at[(slice(None),) * axis + (indices,)].add(x)
    return jax.vmap(lambda u, chosen: ungather(u, chosen, axis - 1, batch_dims - 1, sizes[1:], rank - 1))(x, indices)


def concat(xs, axis):
    return jnp.concatenate(xs, axis)


def stack(xs, axis):
    return jnp.stack(xs, axis)


def unstack(x, count, axis):
    return [jnp.take(x, i, axis) for i in range(count)]


def split(x, sizes, axis):
    if isinstance(sizes, int):
        return jnp.split(x, sizes, axis)
    return jnp.split(x, np.cumsum(sizes)[:-1], axis)


def unconcat(x, sizes, axis):
    return jnp.split(x, np.cumsum(sizes)[:-1], axis)


def size_along(x, axis):
    return x.shape[axis]


def zeros(sizes, like):
    return jnp.zeros(sizes, like.dtype)


def conjugate(partial):
    """JAX's gradients are not conjugated."""
    return partial


def zeros_like(x):
    return jnp.zeros_like(x)


def is_traced(x):
    """Whether a value is known only at run time."""
    return isinstance(x, jax.core.Tracer)


def transposed(push, tangents, upstreams):
    """Transpose a linear function of the tangents: one gradient a tangent."""
    _, pull = jax.vjp(lambda ts: tuple(push(list(ts))), tuple(tangents))
    return list(pull(tuple(upstreams))[0])


def like(dtype):
    """Something that has a dtype, for `zeros`."""
    return jax.ShapeDtypeStruct((), dtype)


def dtype_name(x):
    return str(x.dtype)


def made(value, name):
    """Make a tensor of an array."""
    return jnp.asarray(value, name)


def can_try(values):
    """Whether a function can be tried on other values at this moment; under a trace nothing has a value."""
    return not any(isinstance(value, jax.core.Tracer) for value in values)


def out_of_graph(function):
    return function()
