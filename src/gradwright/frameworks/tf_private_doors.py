"""Where gradwright stands in front of TensorFlow's own machinery: vectorised loops, saving, AutoGraph, forward mode."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def transposing_for_forward_mode() -> bool:
    """Whether TensorFlow is building a JVP from a backward function, which it does by differentiating it.

    Nothing but the call stack tells it from a second derivative; without the frame, no refusal is possible.
    """
    return _frame_named("_wrap_forward_function_with_jvps", "_jvp_helper") is not None


def op_being_recorded() -> int | None:
    """Which op TensorFlow is recording just now; a gradient asked for meanwhile is for that op's JVP."""
    frame = _frame_named("record_gradient")
    return None if frame is None else id(frame)


def _frame_named(*names: str) -> Any:
    """The nearest frame of the call stack with one of these names."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name in names:
            return frame
        frame = frame.f_back
    return None


def convert_in_pfor(op_type: str, convert: Callable[[Any, Any], Any]) -> bool:
    """Stand before the conversion of an op type in vectorised loops; `convert` gets the native one to fall back on."""
    from tensorflow.python.ops.parallel_for import pfor

    registry = getattr(pfor, "_pfor_converter_registry", None)
    if registry is None or op_type not in registry:
        return False
    native = registry[op_type]
    registry[op_type] = functools.partial(convert, native=native)
    return True


def teach_vectorised_loops(op_type: str, convert: Callable[[Any], Any]) -> bool:
    """Give vectorised loops a form of an op that they do not know; one that TensorFlow has is left alone."""
    from tensorflow.python.ops.parallel_for import pfor

    registry = getattr(pfor, "_pfor_converter_registry", None)
    if registry is None or op_type in registry:
        return False
    registry[op_type] = lambda pfor_input, *rest, **options: convert(pfor_input)
    return True


def for_all_rows(tensor: Any) -> Any:
    """A result of a conversion that is the same for all rows."""
    from tensorflow.python.ops.parallel_for.pfor import wrap

    return wrap(tensor, False)


def in_vectorised_loop() -> bool:
    """Whether the body of a vectorised loop is being traced; its ops are a pattern, run once beside the rows."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_pfor_impl" and "parallel_for" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def stand_before_function_loader(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
    """Wrap the loader of a saved model's functions."""
    from tensorflow.python.saved_model import function_deserialization

    native = getattr(function_deserialization, "load_function_def_library", None)
    if native is None:
        return False
    function_deserialization.load_function_def_library = wrap(native)
    return True


def choose_gradients_to_save(chosen: Callable[[Any], bool]) -> bool:
    """Let `chosen` say which ops' gradients TensorFlow may trace when it saves a model."""
    from tensorflow.python.saved_model import save

    native = getattr(save, "_iterate_op_types", None)
    if native is None:
        return False

    def iterate(function: Any) -> Any:
        return ((op_type, op) for op_type, op in native(function) if chosen(op))

    iterate.__wrapped__ = native  # type: ignore[attr-defined]
    save._iterate_op_types = iterate
    return True


def constant_type(value: Any) -> Any:
    """The type under which `tf.function` treats an argument as a constant of python."""
    from tensorflow.core.function.trace_type import default_types

    return default_types.Literal(value)


def converted_by_autograph(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose python control flow on tensors has become graph control flow."""
    return tf.autograph.to_graph(function)


def leave_unconverted(module: str) -> bool:
    """Tell AutoGraph that a module's functions are to be called as they are."""
    from tensorflow.python.autograph.core import config

    rules = getattr(config, "CONVERSION_RULES", None)
    if rules is None or not hasattr(config, "DoNotConvert"):
        return False
    config.CONVERSION_RULES = (config.DoNotConvert(module), *rules)
    return True
