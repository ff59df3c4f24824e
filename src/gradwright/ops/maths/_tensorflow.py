"""The formulas' functions in TensorFlow."""

from __future__ import annotations

import contextlib

import tensorflow as tf

where, exp, abs, sqrt, sign, maximum, minimum = tf.where, tf.exp, tf.abs, tf.sqrt, tf.sign, tf.maximum, tf.minimum
log, log1p, expm1, sigmoid = tf.math.log, tf.math.log1p, tf.math.expm1, tf.sigmoid
atan2, acos, asin, power, round = tf.math.atan2, tf.acos, tf.asin, tf.pow, tf.round
is_finite, stop_gradient, zeros_like, ones_like, identity = (
    tf.math.is_finite,
    tf.stop_gradient,
    tf.zeros_like,
    tf.ones_like,
    tf.identity,
)
clip = tf.clip_by_value


def tensor(x, like=None):
    """Make a tensor; a python or numpy value takes the dtype of `like`."""
    if like is None or tf.is_tensor(x) or isinstance(x, tf.Variable):
        return tf.convert_to_tensor(x)
    return tf.convert_to_tensor(x, like.dtype)


def cast(x, like):
    """Give x the dtype of `like`."""
    return tf.cast(x, like.dtype)


def widened(x):
    """Give x in single precision at least: half precision cannot hold squares and scaled gradients."""
    return tf.cast(x, tf.float32) if x.dtype in (tf.float16, tf.bfloat16) else x


def is_bool(x):
    return x.dtype == tf.bool


def is_float(x):
    return x.dtype.is_floating or x.dtype.is_complex


def sizes(x):
    """The known sizes; None for an unknown rank, and in the place of an unknown size."""
    return None if x.shape.rank is None else tuple(x.shape)


def total(x, axis=None, keepdims=False):
    return tf.reduce_sum(x, axis, keepdims)


def mean(x, axis=None, keepdims=False):
    return tf.reduce_mean(x, axis, keepdims)


def largest(x, axis=None, keepdims=False):
    """The largest element, at least zero: an empty reduction gives zero."""
    return tf.maximum(tf.reduce_max(x, axis, keepdims), tf.zeros([], x.dtype))


def count(whole, part):
    """How many elements were reduced to one, as a number of their dtype."""
    sizes = whole.shape.num_elements(), part.shape.num_elements()
    if None not in sizes:
        return tf.constant(sizes[0] / max(sizes[1], 1), whole.dtype)
    return tf.cast(tf.size(whole) / tf.maximum(tf.size(part), 1), whole.dtype)


def unreduced(x, axis, keepdims, like):
    """Give a reduced tensor back the axes that the reduction took, with size 1."""
    if keepdims:
        return x
    if axis is None:
        return x if like.shape.rank is None else tf.reshape(x, [1] * like.shape.rank)
    axes = [axis] if isinstance(axis, int) else list(axis)
    rank = like.shape.rank
    for a in sorted(a % rank for a in axes):
        x = tf.expand_dims(x, a)
    return x


def chosen(condition, x):
    """Give the first element of x where the condition holds, one where it holds nowhere."""
    flat, values = tf.reshape(condition, [-1]), tf.reshape(x, [-1])
    first = tf.argmax(tf.cast(flat, tf.int32), output_type=tf.int32)
    padded = tf.concat([values, tf.ones([1], x.dtype)], 0)
    return tf.gather(padded, tf.where(tf.reduce_any(flat), first, tf.size(values)))


def broadcast_together(condition, x):
    """Give both the shape that they broadcast to."""
    shape = tf.broadcast_dynamic_shape(tf.shape(condition), tf.shape(x))
    return tf.broadcast_to(condition, shape), tf.broadcast_to(x, shape)


def dtype_name(x):
    return x.dtype.base_dtype.name


STEPS = ("Round", "Rint", "Floor", "Ceil", "Sign")


def recorded(function, steps_pass, inputs):
    """Run a function; give its output, and its gradients by variables as a function of (variables, upstream).

    With `steps_pass`, ops that are flat between steps hand their upstream on.
    """
    from gradwright import override
    from gradwright.frameworks import tf_private
    from gradwright.frameworks.tf_recording import recording

    with recording(), tf.GradientTape(persistent=True) as tape:
        # Overriding is for reverse mode; under an accumulator, which tells of its tangents only while it records,
        # the variables get the plain gradient.
        steps_pass = steps_pass and not tf_private.jvps_of([tf.convert_to_tensor(x) for x in inputs])
        rules = {name: lambda op, upstream: upstream for name in STEPS} if steps_pass else {}
        with override(rules, strict=False) if rules else contextlib.nullcontext():
            output = function()
        # A copy, for what a grad holds of its own output is replaced by the recorded one, which this tape knows not.
        target = tf.identity(output) if tf.is_tensor(output) else output
    if not tape.watched_variables():
        return output, None
    return output, lambda variables, upstream: tape.gradient(target, list(variables), output_gradients=upstream)
