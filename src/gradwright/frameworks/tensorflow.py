"""The seam to TensorFlow (and Keras on TensorFlow): what a tensor is, and where rules are recorded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import composite_tensor

from gradwright import frameworks
from gradwright.errors import Fault, GradientDtypeError, GradwrightError
from gradwright.fit import AtRunTime, Plan, plan
from gradwright.frameworks import tf_private as private
from gradwright.frameworks import tf_run_time, tf_tapes
from gradwright.frameworks.tf_recording import recording
from gradwright.outputs import Outputs
from gradwright.pullback import Fitted
from gradwright.rule import Rule
from gradwright.signature import Bound
from gradwright.space import Space, kind_of, narrows

EagerTensor = private.EagerTensor
_COMPOSITES = (composite_tensor.CompositeTensor,)


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
    if isinstance(value, _COMPOSITES) and not hasattr(value, "dtype"):
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


class TensorFlow:
    """What the rest of gradwright may ask of TensorFlow."""

    name = "tensorflow"

    def is_leaf(self, value: Any) -> bool:
        """Whether a value is a tensor or array of any sort, and no structure."""
        return self.is_tensor(value) or isinstance(value, np.ndarray)

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor, variable, or ragged, sparse or indexed tensor."""
        return isinstance(value, (tf.Tensor, tf.Variable, *_COMPOSITES)) or is_keras_variable(value)

    def to_tensor_argument(self, value: Any) -> Any:
        """An array in a tensor's place becomes a tensor; everything else stays as it is."""
        if isinstance(value, np.ndarray) and value.dtype.kind in "fciub":
            return tf.convert_to_tensor(value)
        return value

    def to_output(self, value: Any) -> Any:
        """A number or array that the forward returned becomes a tensor, a variable its value."""
        if isinstance(value, np.ndarray | np.generic | int | float | complex) and not isinstance(value, bool):
            return tf.convert_to_tensor(value)
        return tf.convert_to_tensor(value) if is_variable(value) else value

    def is_trainable(self, variable: Any) -> bool:
        """Whether a variable wants a gradient."""
        return bool(variable.trainable) and kind_of(variable.dtype.name) != "none"

    def variable_of_key(self, key: Any) -> Any:
        """The variable that a key of variable gradients stands for, or None: `v.ref()`, `v`, a Keras variable."""
        if hasattr(key, "deref"):
            key = key.deref()
        return raw_variable(key) if is_variable(key) else None

    def variable_name(self, variable: Any) -> str:
        """The name that the user gave, without the output number."""
        return variable.name.removesuffix(":0")

    def not_among(self, reads: list[Any], arguments: list[Any]) -> list[Any]:
        """The variables that were read and are not arguments themselves."""
        own = {id(raw_variable(a)) for a in arguments if is_variable(a)}
        return [v for v in reads if id(v) not in own]

    def space(self, value: Any) -> Space:
        """The facts about a tensor that a gradient must fit."""
        if isinstance(value, tf.Tensor):
            return Space(static_shape(value), value.dtype.name)
        if isinstance(value, np.ndarray | np.generic | int | float | complex | list):
            value = np.asarray(value)
            return Space(value.shape, value.dtype.name)
        tensor = component(value)
        dtype = tensor.dtype
        name = dtype.base_dtype.name if hasattr(dtype, "base_dtype") else str(np.dtype(dtype))
        return Space(static_shape(tensor), name)

    def restrictions(self, tensors: list[Any]) -> dict[int, Callable[[Any], Any]]:
        """For each sparse input, what brings a gradient of the whole to the places where the input has values."""
        return {i: restriction(t) for i, t in enumerate(tensors) if isinstance(t, tf.SparseTensor)}

    def shape_at_run_time(self, value: Any) -> Any:
        """The shape of a tensor as a tensor."""
        return tf.shape(component(value))

    def wrap_of(self, output: Any) -> Callable[[Any], Any] | None:
        """How an upstream takes the form of a ragged output; only the row splits are kept."""
        if not isinstance(output, tf.RaggedTensor):
            return None
        splits = output.nested_row_splits
        return lambda up: up if isinstance(up, tf.RaggedTensor) else rows_of(up, splits)

    def upstream(self, upstream: Any, space: Space, sparse: bool) -> Any:
        """Make an upstream that a rule can compute with: dense, of the output's dtype, zeros where there is none."""
        if upstream is None or space.kind == "none":
            if not space.static:
                return tf.zeros(tf.shape(upstream), space.dtype) if upstream is not None else None
            return tf.zeros(space.shape, space.dtype)
        if isinstance(upstream, tf.IndexedSlices) and not sparse:
            return tf.convert_to_tensor(upstream)
        return upstream

    def fit(
        self,
        gradient: Any,
        space: Space,
        complex: str = "refuse",
        strict: bool = False,
        at: AtRunTime | None = None,
    ) -> Fitted:
        """Carry out the plan that takes a gradient into the space of its input."""
        if gradient is None or space.kind == "none":
            return Fitted(None)
        if isinstance(gradient, tf.IndexedSlices):
            if slices_fit(gradient, space):
                return fit_slices(gradient, space, strict)
            gradient = tf.convert_to_tensor(gradient)
        gradient = component(as_tensor(gradient, space))
        given = Space(static_shape(gradient), gradient.dtype.name)
        if given == space and space.static:
            return Fitted(gradient)
        made = plan(given, space, complex, strict)
        return Fitted(carry_out(made, gradient, space, at), made.repairs)

    def call(self, rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a rule in whatever mode this thread is in."""
        eager = private.executing_eagerly()
        if eager and not kwargs and rule.fewest <= len(args) <= rule.simple:
            for arg in args:
                if type(arg) is not EagerTensor:
                    break
            else:
                return tf_eager.plain(rule, args)
        if any_symbolic_keras(args, kwargs):
            return keras_operation(rule, args, kwargs)
        owner = frameworks.of_call(rule.pair, args, kwargs)
        if owner is not self:
            return owner.call(rule, args, kwargs)
        return (tf_eager if eager else tf_graph).general(rule, args, kwargs)

    def tracing_type(self, rule: Rule) -> Any:
        """What a rule is to `tf.function` that gets it as an argument: a constant."""
        return private.constant_type(rule)

    def run(self, rule: Rule, bound: Bound) -> tuple[Any, Callable[..., Any], Outputs, list[Any]]:
        """Run the forward: the output, the user's grad, the outputs taken apart, the variables that were read."""
        output, grad, reads = tf_tapes.run(rule, bound, first_order=False)
        return output, grad, Outputs(output, self), [v for v in reads if id(v) not in reads.young]

    def variables_by_autodiff(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a rule that answers for its inputs only; its captured variables are differentiated by a tape."""
        with recording(), tf.GradientTape(persistent=True) as tape:
            output, grad = function(*args, **kwargs)
            # Copies: the output that a grad holds is replaced by the recorded one, of which this tape knows nothing.
            flat = [tf.identity(t) for t in tf.nest.flatten(output) if tf.is_tensor(t)]

        def with_variables(*upstreams: Any, variables: Any = ()) -> Any:
            inputs = grad(*upstreams)
            if not variables:
                return inputs
            ups = [u for u in tf.nest.flatten(list(upstreams)) if u is not None]
            return inputs, tape.gradient(flat, list(variables), output_gradients=ups)

        return output, with_variables


def rows_of(values: Any, splits: Any) -> Any:
    """Flat values as a ragged tensor."""
    return tf.RaggedTensor.from_nested_row_splits(values, splits, validate=False)


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


def any_symbolic_keras(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether Keras is only drawing a functional model with these arguments."""
    keras = sys.modules.get("keras")
    symbol = getattr(keras, "KerasTensor", None) if keras is not None else None
    return symbol is not None and any(isinstance(a, symbol) for a in (*args, *kwargs.values()))


def keras_operation(rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Put a rule into a functional model as an operation of its own."""
    import keras

    class RuleOperation(keras.Operation):
        def call(self, *args: Any, **kwargs: Any) -> Any:
            return rule(*args, **kwargs)

        def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
            return keras.src.backend.compute_output_spec(rule, *args, **kwargs)

    return RuleOperation(name=None)(*args, **kwargs)


seam = TensorFlow()

# Our own code is python that runs while a function is traced; AutoGraph would rewrite it on every first meeting.
private.leave_unconverted("gradwright")

# The modes stand on the seam, so they come after it.
from gradwright.frameworks import tf_eager, tf_graph  # noqa: E402
