"""Calls of functions under an override: each goes to a twin, so that the function itself stays as it was.

A `tf.function` is traced anew from its Python source, under the override; that also reaches gradients that it
computes inside. Where there is no source any more (a ConcreteFunction, a SavedModel), its graph is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import autograph_util
from tensorflow.python.framework import ops

from gradwright.frameworks import tf_override_copy as copies
from gradwright.frameworks import tf_override_modes as modes
from gradwright.frameworks import tf_override_state as state
from gradwright.frameworks import tf_private as private


def call_polymorphic(native: Callable[..., Any]) -> Callable[..., Any]:
    """`Function.__call__`: under an override, the twin is called in its place."""

    def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:
        activation = state.current()
        if activation is None or is_twin(function) or not activation.lives_here():
            return native(function, *args, **kwargs)
        return native(twin(function, activation), *args, **kwargs)

    return __call__


def is_twin(function: Any) -> bool:
    """Whether a function was made here."""
    return getattr(function, "_gradwright_twin", False)


def twin(function: Any, activation: state.Activation) -> Any:
    """The twin of a `tf.function` for one activation: the same Python source, traced where the override holds."""
    found = activation.twins.get(function)
    if found is None:
        found = activation.twins[function] = _new_twin(function, activation)
    return found


def _new_twin(function: Any, activation: state.Activation) -> Any:
    source = function._python_function
    if function._autograph:
        converted = autograph_util.py_func_from_autograph(source, function._experimental_autograph_options)
    else:
        converted = source

    def traced(*args: Any, **kwargs: Any) -> Any:
        if not private.executing_eagerly():
            activation.traced.add(ops.get_default_graph())
        return converted(*args, **kwargs)

    # AutoGraph calls what carries this mark as it is; the user's function inside is converted as ever.
    traced.autograph_info__ = {}  # type: ignore[attr-defined]
    made = tf.function(
        traced,
        autograph=function._autograph,
        jit_compile=function._jit_compile,
        reduce_retracing=function._reduce_retracing,
        experimental_attributes=dict(function._attributes) or None,
    )
    made._name = function._name
    made._function_type, made._default_values = function._function_type, function._default_values
    made._shared_rendezvous = function._shared_rendezvous
    made._gradwright_twin = True
    return made


def call_flat(native: Callable[..., Any]) -> Callable[..., Any]:
    """`ConcreteFunction._call_flat`, through which every traced, loaded and signature function is called."""

    def _call_flat(function: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        activation = state.current()
        if activation is None or not activation.lives_here():
            return native(function, tensor_inputs, captured_inputs)
        own = function if function.graph in activation.traced else copies.copy_for(function, activation)
        if own is None:
            return native(function, tensor_inputs, captured_inputs)
        _refuse_forward_mode(own, activation, [*tensor_inputs, *captured_inputs])
        return native(own, tensor_inputs, captured_inputs)

    return _call_flat


def _refuse_forward_mode(own: Any, activation: state.Activation, inputs: list[Any]) -> None:
    """Refuse a call that a forward accumulator follows into overridden ops."""
    if not modes.rules_in(own.graph):
        return
    entries = [entry for found in activation.table.values() for entry in found if entry.answered]
    if not entries:
        return
    tensors = [t for t in inputs if tf.is_tensor(t)]
    modes.refuse_tangents(entries[0], tensors)
