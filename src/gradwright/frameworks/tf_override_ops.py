"""What is known of op types and ops: which exist, which a gradient can pass, where one stands."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.eager import backprop, context
from tensorflow.python.framework import op_def_registry

from gradwright.override.conditions import Site

# These call other functions; the ops inside those are what has gradients.
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient", "RemoteCall", "XlaLaunch"})
CALLS |= {"If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase"}
CALLS |= {"PyFunc", "PyFuncStateless", "EagerPyFunc"}


def op_def(op_type: str) -> Any:
    """The definition of an op type, or None if there is no such type."""
    find = getattr(op_def_registry, "get", None)
    return find(op_type) if find is not None else getattr(tf.raw_ops, op_type, None)


def all_types() -> list[str]:
    """The names of all op types that TensorFlow shows."""
    return [name for name in dir(tf.raw_ops) if name[:1].isupper()]


@functools.lru_cache(maxsize=256)
def carries(dtype: Any) -> bool:
    """Whether gradients pass through tensors of a dtype (variables and lists are handles of such tensors)."""
    base = tf.as_dtype(dtype).base_dtype
    return base.is_floating or base.is_complex or base in (tf.resource, tf.variant)


def blocked_type(op_type: str) -> str | None:
    """Why no op of a type can ever be asked for a gradient, or None."""
    found = op_def(op_type)
    if found is None or not hasattr(found, "input_arg"):
        return None
    if not any(_may_carry(arg, found) for arg in found.input_arg):
        return "it takes no real or complex input"
    if not any(_may_carry(arg, found) for arg in found.output_arg):
        return "its output is never real or complex"
    return None


def _may_carry(argument: Any, found: Any) -> bool:
    """Whether an argument of an op definition can be of a dtype that carries gradients."""
    if argument.type:
        return carries(argument.type)
    attribute = next((a for a in found.attr if a.name in (argument.type_attr, argument.type_list_attr)), None)
    allowed = list(attribute.allowed_values.list.type) if attribute is not None else []
    return not allowed or any(carries(dtype) for dtype in allowed)


def blocked(inputs: Any, outputs: Any) -> str | None:
    """Why this one op is never asked for a gradient, or None: integers go in or come out."""
    if inputs and outputs and carries(inputs[0].dtype) and carries(outputs[0].dtype):
        return None
    if not any(carries(t.dtype) for t in inputs):
        return f"its input is {inputs[0].dtype.name}" if len(inputs) else "it has no input"
    if not any(carries(t.dtype) for t in outputs):
        return f"its output is {outputs[0].dtype.name}" if len(outputs) else "it has no output"
    return None


class EagerOp(backprop._MockOp):
    """An op that ran eagerly, as a rule sees it: inputs, outputs, type, name, get_attr."""

    def __init__(self, op_type: str, inputs: list[Any], attrs: Any, outputs: list[Any]):
        super().__init__(attrs, inputs, outputs, op_type, ())
        self.name = scope_now() + op_type

    def __repr__(self) -> str:
        return f"<eager op {self.type}>"


def scope_now() -> str:
    """The name scopes that are open now in eager mode, "block/conv/", or nothing."""
    return getattr(context.context(), "scope_name", None) or ""


def site_now(name: str) -> Site:
    """The site of an op that is made now."""
    return Site(name, layers_now())


def layers_now() -> tuple[Any, ...]:
    """The Keras layers whose call is running, outermost first; none where Keras does not tell."""
    try:
        from keras.src.backend.common import global_state
    except ImportError:
        return ()
    opened = global_state.get_global_attribute("name_scope_stack") or []
    return tuple(s.caller for s in opened if isinstance(s.caller, keras.layers.Layer))


_FRAMEWORKS = tuple(os.path.dirname(os.path.abspath(m.__file__)) + os.sep for m in (tf, keras))
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def user_line() -> str:
    """The user's line that runs now, "file.py:12"."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((*_FRAMEWORKS, _OURS)):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"


# Identities that TensorFlow itself puts around branches, loops, function results and variable reads.
_PLUMBING = ("cond_v2.py", "while_v2.py", "auto_control_deps.py", "func_graph.py", "control_flow_util_v2.py")
_PLUMBING += ("custom_gradient.py", "resource_variable_ops.py", "cond.py", "while_loop.py", "concrete_function.py")
_PASSED_ON = ("array_ops.py", "gen_array_ops.py", "dispatch.py", "traceback_utils.py", "op_def_library.py")
_PASSED_ON += ("op_callbacks.py", "weak_tensor_ops.py", "execute.py")


def is_plumbing() -> bool:
    """Whether the identity that is made now is TensorFlow's own and not one of the model."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = os.path.basename(frame.f_code.co_filename)
        if name not in _PASSED_ON and not frame.f_code.co_filename.startswith(_OURS):
            return name in _PLUMBING and frame.f_code.co_filename.startswith(_FRAMEWORKS)
        frame = frame.f_back
    return False
