"""A closure made pure: the user's grad, traced once, with everything it captured turned into residuals.

Inside a graph the closure form of a rule breaks wherever the graph is copied (cond in while, vectorised loops,
saved models), because a closure holds tensors of one graph. Traced into a function of its own, what it captured is
known exactly, travels through the rule's op, and the function can be called from any copy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.core.function.polymorphism import function_type
from tensorflow.python.eager.polymorphic_function import concrete_function

from gradwright import events
from gradwright.errors import GradwrightError, ModeError, compose
from gradwright.frameworks import tf_private as private
from gradwright.frameworks import tf_private_doors as doors
from gradwright.frameworks import tf_private_graphs as graphs
from gradwright.pullback import Pullback


@dataclass(slots=True)
class Lifted:
    """A pullback as a function of (upstreams, captured values), or the error that its tracing met.

    A watched one is there in other forms too: `unforced` delivers what is seen only if one of its results is used;
    `unwatched` makes one that delivers nothing.
    """

    function: Any
    captured: list[Any]
    template: list[Any]
    error: Exception | None = None
    unforced: Any = None
    unwatched: Callable[[], Lifted] | None = None

    def __call__(self, upstreams: list[Any], values: list[Any]) -> list[Any]:
        """Call it in whatever graph this is; gradients in the order of inputs and variables."""
        if self.error is not None:
            raise self.error
        if self.unwatched is not None and events.is_unwatched():
            quiet = self.unwatched()
            return quiet(upstreams, [values[place_in(self.captured, c)] for c in quiet.captured])
        function = self.function
        if self.unforced is not None and doors.in_vectorised_loop():
            # The ops of the loop's body are a pattern that runs once beside the rows.
            function = self.unforced
            if function.graph.refusal_in_loops is not None:
                raise function.graph.refusal_in_loops
        flat = iter(call_flat(function, [*upstreams, *values]))
        return [None if g is None else packed(g, flat) for g in self.template]


def place_in(tensors: list[Any], tensor: Any) -> int:
    """The place of a tensor; tensors cannot be compared by value."""
    return next(i for i, known in enumerate(tensors) if known is tensor)


def packed(template: Any, flat: Any) -> Any:
    """Put the next tensors into the shape of a gradient: dense, or sparse slices."""
    if isinstance(template, tf.Tensor | str):
        return next(flat)
    count = len(tf.nest.flatten(template, expand_composites=True))
    return tf.nest.pack_sequence_as(template, [next(flat) for _ in range(count)], expand_composites=True)


def call_flat(function: Any, values: list[Any]) -> list[Any]:
    """Call a concrete function on a flat list, giving a flat list."""
    result = function._call_flat(values, [])
    if result is None or isinstance(result, tf.Operation):
        return []
    return list(result) if isinstance(result, list | tuple) else [result]


def lift(pullback: Pullback, outputs: list[Any]) -> Lifted:
    """Trace a pullback on placeholders for its upstreams."""
    name = f"pullback_of_{pullback.rule.__name__}"
    lifted = trace(pullback, outputs, name)
    if lifted.error is not None:
        lifted.error = explained(lifted.error, pullback)
    if lifted.unforced is not None:
        graph = tf.compat.v1.get_default_graph()

        @functools.cache
        def unwatched() -> Lifted:
            with events.unwatched(), graph.as_default():
                return trace(pullback, outputs, name)

        lifted.unwatched = unwatched
    return lifted


def explained(error: Exception, pullback: Pullback) -> Exception:
    """Say what an error in the user's grad means where it is met in a graph and not in eager mode."""
    rule, text = pullback.rule, str(error)
    if isinstance(error, GradwrightError):
        return error
    if "numpy" in text or "symbolic tf.Tensor" in text:
        fact = "its grad asks a tensor for numbers, which a traced function does not have"
        repair = "use TensorFlow ops, or tf.numpy_function, or gw.ops.external"
    elif isinstance(error, ValueError) and ("None values" in text or "partially known TensorShape" in text):
        fact = "its grad uses a size that is not known before the function runs"
        repair = "ask for it at run time: tf.shape(x) in place of x.shape"
    else:
        return error
    return ModeError(compose(rule.name, rule.where, f"in a traced function, {fact}: {text.splitlines()[0]}", repair))


def trace(function: Callable[[list[Any]], list[Any]], like: list[Any], name: str) -> Lifted:
    """Trace a function of flat tensors into a graph of its own."""
    inner = private.FuncGraph(name)
    inner.deliveries, inner.refusal_in_loops = [], None
    effects = graphs.SideEffects(inner)
    with inner.as_default():
        places = [graphs.placeholder(tensor.dtype.base_dtype, tensor.shape) for tensor in like]
        try:
            template = function(list(places))
        except Exception as error:
            return Lifted(None, [], [], error)
        template = [each_tensor(inner.capture, g) for g in template]
        must_run = effects.settle()
        if must_run:
            # Where the call is inlined, only what its results depend on is run.
            with tf.control_dependencies(must_run):
                template = [each_tensor(tf.identity, g) for g in template]
    flat = [t for g in template if g is not None for t in tensors_of(g)]
    captured, internal = list(inner.external_captures), list(inner.internal_captures)
    unforced = None
    if inner.deliveries:
        inner.control_outputs[:] = must_run - set(inner.deliveries)
        unforced = close(inner, [*places, *internal], flat)
    inner.control_outputs[:] = must_run
    return Lifted(close(inner, [*places, *internal], flat), captured, template, None, unforced)


def each_tensor(function: Callable[[Any], Any], gradient: Any) -> Any:
    """Do something to the tensors of a gradient: itself, or those of slices."""
    if gradient is None or isinstance(gradient, tf.Tensor):
        return None if gradient is None else function(gradient)
    return tf.nest.map_structure(function, gradient, expand_composites=True)


def tensors_of(gradient: Any) -> list[Any]:
    """The tensors of a gradient."""
    return [gradient] if isinstance(gradient, tf.Tensor) else tf.nest.flatten(gradient, expand_composites=True)


def close(inner: Any, inputs: list[Any], outputs: list[Any]) -> Any:
    """Make a function of a graph whose captures have become inputs."""
    inner.inputs, inner.outputs, inner.structured_outputs = inputs, outputs, outputs
    specs = tuple(tf.TensorSpec(t.shape, t.dtype, name=f"in_{i}") for i, t in enumerate(inputs))
    inner.structured_input_signature = (specs, {})
    inner.function_captures.reset_captures([], [])
    signature = function_type.from_structured_signature(
        inner.structured_input_signature, outputs, inner.function_captures.capture_types
    )
    return concrete_function.ConcreteFunction.from_func_graph(inner, signature, attrs={})
