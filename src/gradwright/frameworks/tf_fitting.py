"""Carrying out the plan that takes a gradient into the space of its input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from gradwright.errors import Fault, GradientDtypeError
from gradwright.fit import AtRunTime, Plan, plan
from gradwright.frameworks import tf_run_time
from gradwright.frameworks.tf_values import static_shape
from gradwright.pullback import Fitted
from gradwright.space import Space, narrows


def as_tensor(gradient: Any, space: Space) -> Any:
    """Turn what a rule returned into a tensor: numbers and arrays are converted, a number in the input's dtype."""
    if isinstance(gradient, tf.Tensor | tf.RaggedTensor | tf.SparseTensor):
        return gradient
    if isinstance(gradient, float) or (isinstance(gradient, complex) and space.kind == "complex"):
        return tf.constant(gradient, space.dtype)
    try:
        return tf.convert_to_tensor(gradient)
    except (TypeError, ValueError):
        raise Fault(
            GradientDtypeError, f"is a {type(gradient).__name__}, which is no tensor", "return a tensor"
        ) from None


def restriction(value: tf.SparseTensor) -> Callable[[Any], Any]:
    """Take a gradient at the indices of a sparse input; what lies elsewhere belongs to no input."""
    indices, rank = value.indices, value.dense_shape.shape[0]

    def restrict(gradient: Any) -> Any:
        if isinstance(gradient, tf.SparseTensor):
            gradient = tf.sparse.to_dense(tf.sparse.reorder(gradient))
        if isinstance(gradient, tf.Tensor) and gradient.shape.rank == rank:
            return tf.gather_nd(gradient, indices)
        return gradient

    return restrict


def slices_fit(gradient: tf.IndexedSlices, space: Space) -> bool:
    """Whether slices may stay sparse: rows of the input's own shape and a known whole."""
    rows, whole = static_shape(gradient.values), space.shape
    if rows is None or whole is None or rows[1:] != whole[1:] or None in rows[1:]:
        return False
    dense = gradient.dense_shape
    size = None if dense is None else tf.get_static_value(dense)
    return size is None or tuple(int(n) for n in size) == whole


def fit_slices(gradient: tf.IndexedSlices, space: Space, strict: bool) -> Fitted:
    """Keep a sparse gradient sparse; only its dtype may change."""
    values = gradient.values
    made = plan(Space((), values.dtype.name), Space((), space.dtype), "refuse", strict)
    if made.cast:
        values = tf.cast(values, made.cast)
    return Fitted(tf.IndexedSlices(values, gradient.indices, gradient.dense_shape), made.repairs)


def carry_out(made: Plan, gradient: Any, space: Space, at: AtRunTime | None) -> Any:
    """Do what a plan says; nothing is emitted for what it does not say."""
    if made.real_part:
        gradient = tf.math.real(gradient)
    if made.cast is None:
        return summed(made, gradient, space, at)
    if narrows(gradient.dtype.name, made.cast):
        return tf.cast(summed(made, gradient, space, at), made.cast)
    return summed(made, tf.cast(gradient, made.cast), space, at)


def summed(made: Plan, gradient: Any, space: Space, at: AtRunTime | None) -> Any:
    """Undo a broadcast."""
    if made.at_run_time:
        return gradient if at is None else tf_run_time.fit(gradient, space, at)
    if made.axes:
        gradient = tf.reduce_sum(gradient, list(made.axes))
        if static_shape(gradient) != made.shape:
            gradient = tf.reshape(gradient, fill_unknown(made.shape, at))
    return gradient


def fill_unknown(wanted: Any, at: AtRunTime | None) -> Any:
    """A shape to reshape to; its sizes of one are known, and at most one other may be unknown."""
    if None not in wanted:
        return wanted
    if list(wanted).count(None) == 1 and 0 not in wanted:
        return [-1 if size is None else size for size in wanted]
    assert at is not None
    return at.shape()
