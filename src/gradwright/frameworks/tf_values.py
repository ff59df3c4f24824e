"""What counts as a tensor: variables of TensorFlow and Keras, ragged and sparse tensors, and their shapes."""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import composite_tensor

from gradwright.errors import GradwrightError
from gradwright.frameworks import tf_private as private

COMPOSITES = (composite_tensor.CompositeTensor,)


def keras_variable_types() -> tuple[type, ...]:
    """Keras's own variable class, if Keras is there at all."""
    keras = sys.modules.get("keras")
    found = getattr(keras, "Variable", None) if keras is not None else None
    return (found,) if found is not None else ()


def is_keras_variable(value: Any) -> bool:
    """Whether a value is a Keras variable, which wraps a TensorFlow one."""
    return isinstance(value, keras_variable_types())


def is_variable(value: Any) -> bool:
    """Whether a value is a variable of TensorFlow or Keras."""
    return isinstance(value, tf.Variable) or is_keras_variable(value)


def raw_variable(value: Any) -> Any:
    """The TensorFlow variable inside a Keras one, also where Keras would cast its value; others as they are."""
    if not is_keras_variable(value):
        return value
    inner = getattr(value, "_value", None)
    return value.value if inner is None else inner


def component(value: Any) -> Any:
    """The one tensor of a value that carries its gradient: the flat values of ragged and sparse tensors."""
    if isinstance(value, tf.RaggedTensor):
        return value.flat_values
    if isinstance(value, tf.SparseTensor | tf.IndexedSlices):
        return value.values
    if isinstance(value, COMPOSITES) and not hasattr(value, "dtype"):
        name = type(value).__name__
        raise GradwrightError(f"a {name} holds several tensors; hand them to the rule one by one, or in a dict")
    return raw_variable(value)


def with_component(value: Any, tensor: Any) -> Any:
    """The same ragged or sparse tensor with other values; a dense value becomes the tensor itself."""
    if isinstance(value, tf.RaggedTensor):
        return value.with_flat_values(tensor)
    if isinstance(value, tf.SparseTensor):
        return tf.SparseTensor(value.indices, tensor, value.dense_shape)
    if isinstance(value, tf.IndexedSlices):
        return tf.IndexedSlices(tensor, value.indices, value.dense_shape)
    return tensor


def as_input(tensor: Any) -> Any:
    """What a tape knows an argument by: the tensor, or the handle of a variable."""
    inner = component(tensor)
    return inner.handle if is_variable(inner) else inner


def static_shape(tensor: Any) -> tuple[int | None, ...] | None:
    """The shape as far as it is known, None for an unknown rank."""
    if type(tensor) is private.EagerTensor:
        return private.shape_tuple(tensor)
    shape = tensor.shape
    if not hasattr(shape, "rank"):
        return tuple(shape)
    return None if shape.rank is None else tuple(shape)


def rows_of(values: Any, splits: Any) -> Any:
    """Flat values as a ragged tensor."""
    return tf.RaggedTensor.from_nested_row_splits(values, splits, validate=False)
