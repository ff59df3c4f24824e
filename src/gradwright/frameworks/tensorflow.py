"""The seam to TensorFlow (and Keras on TensorFlow): what a tensor is, and where rules are recorded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from gradwright import frameworks
from gradwright.fit import AtRunTime, plan
from gradwright.frameworks import tf_private as private
from gradwright.frameworks import tf_private_doors as doors
from gradwright.frameworks import tf_tapes
from gradwright.frameworks.tf_fitting import as_tensor, carry_out, fit_slices, restriction, slices_fit
from gradwright.frameworks.tf_recording import recording
from gradwright.frameworks.tf_values import (
    COMPOSITES,
    component,
    is_keras_variable,
    is_variable,
    raw_variable,
    rows_of,
    static_shape,
)
from gradwright.outputs import Outputs
from gradwright.pullback import Fitted
from gradwright.rule import Rule
from gradwright.signature import Bound
from gradwright.space import Space, kind_of

EagerTensor = private.EagerTensor


class TensorFlow:
    """What the rest of gradwright may ask of TensorFlow."""

    name = "tensorflow"

    def is_leaf(self, value: Any) -> bool:
        """Whether a value is a tensor or array of any sort, and no structure."""
        return self.is_tensor(value) or isinstance(value, np.ndarray)

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor, variable, or ragged, sparse or indexed tensor."""
        return isinstance(value, (tf.Tensor, tf.Variable, *COMPOSITES)) or is_keras_variable(value)

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
        return doors.constant_type(rule)

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
doors.leave_unconverted("gradwright")

# The modes stand on the seam, so they come after it.
from gradwright.frameworks import tf_eager, tf_graph  # noqa: E402
