"""The formulas' functions in JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp

where, exp, abs, sqrt, sign, maximum, minimum = (
    jnp.where,
    jnp.exp,
    jnp.abs,
    jnp.sqrt,
    jnp.sign,
    jnp.maximum,
    jnp.minimum,
)
log, log1p, expm1, sigmoid = jnp.log, jnp.log1p, jnp.expm1, jax.nn.sigmoid
atan2, acos, asin, power, round = jnp.arctan2, jnp.arccos, jnp.arcsin, jnp.power, jnp.round
is_finite, stop_gradient, zeros_like, ones_like = jnp.isfinite, jax.lax.stop_gradient, jnp.zeros_like, jnp.ones_like
clip = jnp.clip


def identity(x):
    return jnp.asarray(x)


def tensor(x, like=None):
    return jnp.asarray(x) if like is None or hasattr(x, "dtype") else jnp.asarray(x, like.dtype)


def cast(x, like):
    return jnp.asarray(x, like.dtype)


def widened(x):
    return x.astype(jnp.float32) if x.dtype in (jnp.float16, jnp.bfloat16) else x


def is_bool(x):
    return x.dtype == bool


def is_float(x):
    return jnp.issubdtype(x.dtype, jnp.inexact)


def sizes(x):
    return tuple(x.shape)


def _axes(axis):
    return tuple(axis) if isinstance(axis, list) else axis


def total(x, axis=None, keepdims=False):
    return jnp.sum(x, _axes(axis), keepdims=keepdims)


def mean(x, axis=None, keepdims=False):
    return jnp.mean(x, _axes(axis), keepdims=keepdims)


def largest(x, axis=None, keepdims=False):
    return jnp.max(x, _axes(axis), keepdims=keepdims, initial=0)


def count(whole, part):
    return whole.size / max(part.size, 1)


def unreduced(x, axis, keepdims, like):
    if keepdims:
        return x
    axes = range(like.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    return jnp.expand_dims(x, tuple(a % like.ndim for a in axes))


def chosen(condition, x):
    flat = jnp.reshape(condition, -1)
    padded = jnp.concatenate([jnp.reshape(x, -1), jnp.ones(1, x.dtype)])
    return padded[jnp.where(jnp.any(flat), jnp.argmax(flat), flat.size)]


def broadcast_together(condition, x):
    return jnp.broadcast_arrays(condition, x)


def dtype_name(x):
    return str(x.dtype)


def recorded(function, steps_pass, inputs):
    """Run a function; JAX has no variables."""
    return function(), None
