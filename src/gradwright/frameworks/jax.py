"""The seam to JAX (and Keras on JAX): what an array is, and how a gradient is made to fit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradwright import frameworks
from gradwright.errors import Fault, GradientDtypeError
from gradwright.fit import AtRunTime
from gradwright.frameworks.base import plan_in_words
from gradwright.outputs import Outputs
from gradwright.pullback import Fitted
from gradwright.rule import Rule
from gradwright.signature import Bound
from gradwright.space import Space

Tracer = jax.core.Tracer
WORDS = {"tf.": "jnp."}


def is_keras_variable(value: Any) -> bool:
    """Whether a value is a Keras variable, which wraps an array."""
    found = getattr(sys.modules.get("keras"), "Variable", None)
    return found is not None and isinstance(value, found)


class Jax:
    """What the rest of gradwright may ask of JAX."""

    name = "jax"
    keyed = "[(v, d_v)]"

    def is_leaf(self, value: Any) -> bool:
        """Whether a value is an array or tracer, and no structure."""
        return self.is_tensor(value) or isinstance(value, np.ndarray) or is_keras_variable(value)

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is an array of JAX or a tracer of one."""
        return isinstance(value, jax.Array)

    def to_tensor_argument(self, value: Any) -> Any:
        """An array of numpy in a tensor's place becomes one of JAX, a Keras variable its value."""
        if isinstance(value, np.ndarray) and value.dtype.kind in "fciub":
            return jnp.asarray(value)
        return value.value if is_keras_variable(value) else value

    def to_output(self, value: Any) -> Any:
        """A number or array that the forward returned becomes an array of JAX."""
        if isinstance(value, np.ndarray | np.generic | int | float | complex) and not isinstance(value, bool):
            return jnp.asarray(value)
        return value.value if is_keras_variable(value) else value

    def is_trainable(self, variable: Any) -> bool:
        """Outside a call nothing is known to be differentiated; `jax_call.Seam` knows of its call."""
        return False

    def variable_of_key(self, key: Any) -> Any:
        """The captured array that a key of variable gradients stands for, or None."""
        return key if self.is_tensor(key) else None

    def variable_name(self, variable: Any) -> str:
        """A name for a captured array; `jax_call.Seam` knows the user's."""
        return f"array of shape {tuple(variable.shape)}"

    def not_among(self, reads: list[Any], arguments: list[Any]) -> list[Any]:
        """The arrays that were read and are not arguments themselves."""
        own = {id(argument) for argument in arguments}
        return [v for v in reads if id(v) not in own]

    def space(self, value: Any) -> Space:
        """The facts about an array that a gradient must fit."""
        if not self.is_tensor(value):
            value = np.asarray(value.value if is_keras_variable(value) else value)
        return Space(tuple(value.shape), str(value.dtype))

    def shape_at_run_time(self, value: Any) -> Any:
        """The shape, which is always known."""
        return tuple(value.shape)

    def upstream(self, upstream: Any, space: Space, sparse: bool) -> Any:
        """Make an upstream that a rule can compute with: zeros where there is none."""
        if upstream is None or space.kind == "none":
            return jnp.zeros(space.shape, space.dtype) if not space.dtype.startswith("key") else None
        return upstream if isinstance(upstream, jax.Array) else jnp.asarray(upstream, space.dtype)

    def fit(
        self,
        gradient: Any,
        space: Space,
        complex: str = "refuse",
        strict: bool = False,
        at: AtRunTime | None = None,
    ) -> Fitted:
        """Carry out the plan that takes a gradient into the space of its input."""
        if gradient is None or space.kind == "none" or getattr(gradient, "dtype", None) == jax.dtypes.float0:
            return Fitted(None)
        gradient = as_array(gradient, space)
        given = Space(tuple(gradient.shape), str(gradient.dtype))
        if given == space:
            return Fitted(gradient)
        made = plan_in_words(given, space, complex, strict, WORDS)
        if made.real_part:
            gradient = gradient.real
        if made.cast:
            gradient = gradient.astype(made.cast)
        if made.axes:
            gradient = gradient.sum(made.axes).reshape(made.shape)
        return Fitted(gradient, made.repairs)

    def call(self, rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a rule under whatever transforms are at work."""
        owner = frameworks.of_call(rule.pair, args, kwargs)
        if owner is not self:
            rule._seam = None
            return owner.call(rule, args, kwargs)
        return jax_call.general(rule, rule.bind(args, kwargs, self))

    def run(self, rule: Rule, bound: Bound) -> tuple[Any, Callable[..., Any], Outputs, list[Any]]:
        """Run the forward: the output, the user's grad, the outputs taken apart; no captured array is a variable."""
        output, grad = rule.unpack(rule.pair(*bound.args, **bound.kwargs))
        return output, grad, Outputs(output, self), jax_call.captured(rule.pair).reads

    def variables_by_autodiff(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a rule that answers for its inputs only; captured arrays are differentiated through the forward."""
        output, grad = function(*args, **kwargs)

        def with_variables(*upstreams: Any, variables: Any = ()) -> Any:
            inputs = grad(*upstreams)
            if not variables:
                return inputs
            ups = [u for u in jax.tree.leaves(list(upstreams)) if jnp.issubdtype(u.dtype, jnp.inexact)]
            return inputs, jax_call.native(function, args, kwargs, list(variables), ups)

        return output, with_variables


def as_array(gradient: Any, space: Space) -> Any:
    """Turn what a rule returned into an array: numbers are converted, a float in the input's dtype."""
    if isinstance(gradient, jax.Array):
        return gradient
    if type(gradient) is float or (type(gradient) is complex and space.kind == "complex"):
        return jnp.asarray(gradient, space.dtype)
    try:
        return jnp.asarray(gradient)
    except (TypeError, ValueError):
        raise Fault(
            GradientDtypeError, f"is a {type(gradient).__name__}, which is no array", "return an array of JAX"
        ) from None


seam = Jax()

# The calls stand on the seam, so they come after it.
from gradwright.frameworks import jax_call  # noqa: E402
