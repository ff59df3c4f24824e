"""TensorFlow's side of the shape functions: every fact may be unknown until run time."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

MISUSE = (ValueError, TypeError, IndexError, tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)


def tensor(x, like=None):
    """Densify and convert; `like` gives the dtype to python and numpy values."""
    if isinstance(x, (tf.RaggedTensor, tf.SparseTensor)):
        raise TypeError(f"a {type(x).__name__} has no rectangular shape; use its dense form")
    if like is None or tf.is_tensor(x) or isinstance(x, (tf.Variable, tf.IndexedSlices)):
        return tf.convert_to_tensor(x)
    return tf.convert_to_tensor(x, like.dtype)


def static(x):
    """Give the known sizes: a tuple with None where unknown, or None for an unknown rank."""
    return None if x.shape.rank is None else tuple(x.shape)


def shape(x):
    """Give the whole shape: ints where all are known, else a tensor read at run time."""
    return tuple(x.shape) if x.shape.is_fully_defined() else tf.shape(x)


def pin(x, sizes):
    """Tell the framework what is known of x's shape; costs no operation."""
    if sizes is not None and not hasattr(x, "numpy"):
        x.set_shape(sizes)
    return x


def known(value):
    """Give a tensor's value if it is known now, else the tensor."""
    if not tf.is_tensor(value) and not isinstance(value, tf.Variable):
        return value
    found = tf.get_static_value(value)
    return value if found is None else found


def integers(values):
    """Join sizes, some of them tensors, into one index tensor."""
    return tf.stack([tf.cast(v, tf.int32) for v in values])


def reshape(x, sizes):
    return tf.reshape(x, sizes)


def expand_dims(x, axes):
    for axis in axes:
        x = tf.expand_dims(x, axis)
    return x


def squeeze(x, axes):
    return tf.squeeze(x, axes)


def transpose(x, perm):
    return tf.transpose(x, perm)


def untranspose(x, perm):
    return tf.transpose(x, None if perm is None else tf.raw_ops.InvertPermutation(x=perm))


def broadcast_to(x, sizes):
    return tf.broadcast_to(x, sizes)


def unbroadcast(x, sizes):
    """Sum x over the axes that broadcasting added or stretched to come from `sizes`."""
    _, stretched = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(x), s1=sizes)
    return tf.reshape(tf.reduce_sum(x, stretched), sizes)


def total(x, axes):
    return tf.reduce_sum(x, axes)


def tile(x, multiples):
    return tf.tile(x, multiples)


def untile(x, multiples, sizes):
    """Sum the copies that tile made."""
    paired = tf.reshape(tf.stack([multiples, sizes], 1), [-1])
    return tf.reduce_sum(tf.reshape(x, paired), tf.range(0, tf.size(paired), 2))


def repeated(size, repeats):
    """Give the index that each place along a repeated axis comes from."""
    return tf.repeat(tf.range(size), repeats)


def mirrored(size, before, after, mode):
    """Give the index that each place along a mirrored axis comes from."""
    if isinstance(size, int):
        return np.pad(np.arange(size), (before, after), mode=mode)
    if mode == "wrap":
        return tf.math.floormod(tf.range(-before, size + after), size)
    if mode == "edge":
        return tf.clip_by_value(tf.range(-before, size + after), 0, size - 1)
    return tf.pad(tf.range(size), [[before, after]], mode)


def pad(x, paddings, value=0):
    return tf.pad(x, paddings, constant_values=tf.cast(value, x.dtype))


def cut(x, begin, size):
    return tf.slice(x, begin, size)


def rest(sizes, begin, taken):
    """Give what lies behind a slice, along every axis."""
    return tf.convert_to_tensor(sizes) - begin - tf.shape(taken)


def uncut(x, begin, behind):
    """Put a slice back among zeros."""
    return tf.pad(x, tf.stack([tf.convert_to_tensor(begin), tf.convert_to_tensor(behind)], 1))


def take_key(x, key):
    return x[key]


def untake_key(x, key, sizes):
    """Put what a key took back among zeros, added up where the key took a place twice."""
    return _adjoint(lambda whole: whole[key], x, sizes)


def index(values):
    values = tf.convert_to_tensor(values)
    return values if values.dtype in (tf.int32, tf.int64) else tf.cast(values, tf.int32)


def gather(x, indices, axis, batch_dims):
    return tf.gather(x, indices, axis=axis, batch_dims=batch_dims)


def ungather(x, indices, axis, batch_dims, sizes, rank):
    """Add every gathered piece to the place it came from."""
    if rank is None or x.shape.rank is None or indices.shape.rank is None:
        return _adjoint(lambda whole: tf.gather(whole, indices, axis=axis, batch_dims=batch_dims), x, sizes)
    depth = indices.shape.rank - batch_dims
    front, middle, chosen = range(batch_dims), range(batch_dims, axis), range(axis, axis + depth)
    x = tf.transpose(x, [*front, *chosen, *middle, *range(axis + depth, x.shape.rank)])
    sizes = tf.unstack(tf.convert_to_tensor(sizes), num=rank) if tf.is_tensor(sizes) else list(sizes)
    batch, inner = _product(sizes[:batch_dims]), [*sizes[batch_dims:axis], *sizes[axis + 1 :]]
    starts = tf.cast(tf.reshape(tf.range(batch) * sizes[axis], [batch, 1]), indices.dtype)
    places = tf.reshape(tf.reshape(indices, [batch, -1 if batch_dims else _size(indices)]) + starts, [-1])
    flat = tf.reshape(x, [_size(indices), *inner])
    summed = tf.math.unsorted_segment_sum(flat, places, batch * sizes[axis])
    summed = tf.reshape(summed, [*sizes[:batch_dims], sizes[axis], *inner])
    here = [*front, *(i + 1 for i in middle), batch_dims, *range(axis + 1, rank)]
    return tf.transpose(summed, here)


def _product(sizes):
    return int(np.prod(sizes)) if all(isinstance(s, int) for s in sizes) else tf.reduce_prod(tf.stack(sizes))


def _size(x):
    return x.shape.num_elements() if x.shape.is_fully_defined() else tf.size(x)


def concat(xs, axis):
    return tf.concat(xs, axis)


def stack(xs, axis):
    return tf.stack(xs, axis)


def unstack(x, count, axis):
    return tf.unstack(x, count, axis)


def split(x, sizes, axis):
    return tf.split(x, sizes, axis)


def unconcat(x, sizes, axis):
    """Cut a concatenation into its parts."""
    return tf.split(x, [tf.cast(s, tf.int32) for s in sizes], axis, num=len(sizes))


def size_along(x, axis):
    """Give one size, an int where it is known."""
    found = None if x.shape.rank is None else x.shape[axis]
    return tf.shape(x)[axis] if found is None else found


def zeros(sizes, like):
    return tf.zeros(sizes, like.dtype)


def _adjoint(linear, upstream, sizes):
    """Transpose a linear function through TensorFlow's own gradient of it, taken at zero."""
    with tf.GradientTape() as tape:
        whole = tf.zeros(sizes, upstream.dtype)
        tape.watch(whole)
        part = linear(whole)
    return tf.convert_to_tensor(tape.gradient(part, whole, output_gradients=upstream))


def conjugate(partial):
    """TensorFlow's gradients are conjugated: upstream times the conjugate of the derivative."""
    if isinstance(partial, complex):
        return partial.conjugate()
    return tf.math.conj(partial) if getattr(partial, "dtype", None) in (tf.complex64, tf.complex128) else partial


def zeros_like(x):
    return tf.zeros_like(x)


def is_traced(x):
    """Whether a value is known only at run time."""
    return tf.is_tensor(x) and not hasattr(x, "numpy")


def transposed(push, tangents, upstreams):
    """Transpose a linear function of the tangents: one gradient a tangent, None where it does not matter."""
    with tf.GradientTape() as tape:
        tape.watch(tangents)
        pushed = push(tangents)
    pairs = [(p, u) for p, u in zip(pushed, upstreams, strict=True) if tf.is_tensor(p) and u is not None]
    if not pairs:
        return [None] * len(tangents)
    pulled = tape.gradient([p for p, _ in pairs], tangents, output_gradients=[u for _, u in pairs])
    return [None if g is None else tf.convert_to_tensor(g) for g in pulled]


def gradients_of(function, variables, upstreams):
    """Let the framework differentiate a function by the variables that it reads."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(variables)
        outputs = function()
    return tape.gradient(outputs, variables, output_gradients=upstreams)


def unconverted(function):
    """Let AutoGraph call a function as it is."""
    return tf.autograph.experimental.do_not_convert(function)


def refusing(message, sizes, dtype):
    """A gradient that is an error as soon as something uses it: at once in eager mode, when it runs in a graph."""

    def refuse():
        raise ValueError(message)

    refused = tf.numpy_function(refuse, [], dtype, stateful=False)
    refused.set_shape(sizes)
    return refused


def like(dtype):
    """Something that has a dtype, for `zeros`."""
    return tf.TensorSpec(None, dtype)  # pyright: ignore[reportArgumentType]  (None is an unknown rank)


def dtype_name(x):
    return x.dtype.base_dtype.name if hasattr(x.dtype, "base_dtype") else str(x.dtype)


def made(value, name):
    """Make a tensor of an array."""
    return tf.cast(tf.constant(value), name)


def can_try(values):
    """Whether a function can be tried on other values at this moment."""
    return True


def out_of_graph(function):
    """Run a function eagerly, also while a graph is built; None where it needs that graph's tensors."""
    if tf.executing_eagerly():
        with tf.GradientTape() as tape, tape.stop_recording():
            return function()
    try:
        with tf.init_scope():
            return function() if tf.executing_eagerly() else None
    except Exception:  # whatever a function says that reaches for tensors of the graph
        return None
