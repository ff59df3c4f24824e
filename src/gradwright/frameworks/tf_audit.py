"""TensorFlow's side of finding and meeting rules: what is a rule of `tf.custom_gradient`, whose, when is it called.

TensorFlow keeps each decorated function in an object of one class, also those of `keras.ops.custom_gradient`,
`tf.recompute_grad` and `tf.grad_pass_through`. Watching that class meets rules that were decorated long before, in
every thread. Where a version of TensorFlow lacks the class, the public decorator is watched instead: then only rules
decorated from that moment on are met.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Met = Callable[[Any, tuple[Any, ...], dict[str, Any]], Callable[[], None] | None]
"""Told of a call before it is made. What it returns, if anything, is called when the call raises."""

HOME = "tensorflow.python.ops.custom_gradient"


def loaded() -> bool:
    """Whether the program has loaded the part of TensorFlow that holds custom gradients."""
    return HOME in sys.modules and hasattr(sys.modules[HOME], "custom_gradient")


def rule_class() -> type | None:
    """The class of what `tf.custom_gradient` returns; None where TensorFlow is not loaded or has no such class."""
    return getattr(sys.modules.get(HOME), "Bind", None)


def is_rule(value: Any) -> bool:
    """Whether `value` is a function decorated with `tf.custom_gradient`, or a method of such a kind."""
    kind = rule_class()
    return isinstance(value, kind) if kind else hasattr(value, "_gradwright_tf_rule")


def pair_of(rule: Any) -> Any:
    """The function that returns `(output, grad)`; for `tf.recompute_grad` that is one of TensorFlow's own."""
    return getattr(rule, "_f", None) or rule.__wrapped__


def user_function(rule: Any) -> Any:
    """The function the user wrote: the pair, or what was handed to `tf.recompute_grad` or `tf.grad_pass_through`."""
    # While a `tf.function` of the rule itself is being traced, `__wrapped__` is AutoGraph's.
    return getattr(rule, "__original_wrapped__", None) or rule.__wrapped__


def wrapper_name(rule: Any) -> str | None:
    """`recompute_grad` or `grad_pass_through` when the rule was made by one of them around the user's function."""
    pair = pair_of(rule)
    if pair is user_function(rule) or getattr(pair, "__module__", None) != HOME:
        return None
    return "grad_pass_through" if "pass_through" in pair.__name__ else "recompute_grad"


def framework_folders() -> tuple[str, ...]:
    """The folders whose rules are the framework's own, not the user's."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in ("tensorflow", "keras", "tf_keras"))
    return tuple(os.path.join(os.path.dirname(file), "") for file in files if file)


@contextmanager
def rules_called(met: Met) -> Iterator[None]:
    """Tell `met(rule, args, kwargs)` of every call of a rule, in all threads, while the scope lasts."""
    kind = rule_class()
    with class_watched(kind, met) if kind else _decorator_watched(met):
        yield


@contextmanager
def class_watched(kind: Any, met: Met) -> Iterator[None]:
    """Tell `met` of every call of a class of rules; a call that raises is forgotten."""
    original = kind.__call__

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        forget = met(self, args, kwargs)
        try:
            return original(self, *args, **kwargs)
        except BaseException:
            if forget is not None:
                forget()
            raise

    kind.__call__ = __call__
    try:
        yield
    finally:
        kind.__call__ = original


@contextmanager
def _decorator_watched(met: Met) -> Iterator[None]:
    """The public way: `tf.custom_gradient` itself is replaced, so rules decorated earlier stay unseen."""
    import tensorflow as tf

    original = tf.custom_gradient
    tf.custom_gradient = lambda f=None: _watched(original, f, met) if f else lambda g: _watched(original, g, met)
    try:
        yield
    finally:
        tf.custom_gradient = original


def _watched(decorate: Any, function: Any, met: Met) -> Any:
    import functools

    rule = decorate(function)

    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        met(watched, args, kwargs)
        return rule(*args, **kwargs)

    watched._gradwright_tf_rule = True  # type: ignore[attr-defined]
    return watched


@contextmanager
def functions_run_eagerly() -> Iterator[None]:
    """In this scope `tf.function` does not compile, and so neither does Keras."""
    import tensorflow as tf

    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


@contextmanager
def eagerly() -> Iterator[None]:
    """Operations run at once in this scope, also in a program that switched to graphs for good."""
    context = eager_context() if loaded() else None
    if context is None or context.executing_eagerly():
        yield
        return
    with context_module().eager_mode():
        yield


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor of TensorFlow, eager or symbolic."""
    tf = sys.modules.get("tensorflow")
    return tf is not None and hasattr(tf, "is_tensor") and tf.is_tensor(value)


def is_symbolic(value: Any) -> bool:
    """Whether a tensor, or a part of a ragged or sparse one, is a place in a graph and has no value yet."""
    if not is_tensor(value):
        return False
    import tensorflow as tf

    return any(map(tf.is_symbolic_tensor, tf.nest.flatten(value, expand_composites=True)))


def is_variable(value: Any) -> bool:
    """Whether `value` is a variable, TensorFlow's or Keras's."""
    return hasattr(value, "assign") and hasattr(value, "dtype") and hasattr(value, "shape")


EAGER = "EagerTensor"
"""The name of the class of tensors that have a value."""


def eager_signature(value: Any) -> Any:
    """Shape and dtype of an eager tensor, read the quick way where there is one."""
    try:
        return (value._shape_tuple(), value.dtype)
    except AttributeError:
        return (static_shape(value), value.dtype)


def static_shape(value: Any) -> tuple[int | None, ...] | None:
    """The shape as far as it is known: None for an unknown size, None alone for an unknown rank."""
    shape = value.shape
    return None if getattr(shape, "rank", 0) is None else tuple(shape)


def dtype_name(value: Any) -> str:
    """The name of a tensor's or a variable's dtype: `float32`."""
    return getattr(value.dtype, "name", None) or str(value.dtype)


def frozen_value(variable: Any) -> Any:
    """A tensor with the variable's present value, read without telling any tape."""
    import tensorflow as tf

    variable = getattr(variable, "value", variable) if not hasattr(variable, "handle") else variable
    with tf.init_scope():
        return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)


def tensor(values: Any, dtype: str) -> Any:
    """A tensor of TensorFlow with these values."""
    import tensorflow as tf

    return tf.constant(values, dtype=tf.dtypes.as_dtype(dtype))


def eager_context() -> Any:
    """What is switched on in this thread; None where a version keeps it elsewhere."""
    module = context_module()
    return None if module is None else module.context()


def context_module() -> Any:
    """TensorFlow's module of what is switched on in a thread; None where a version has moved it."""
    try:
        from tensorflow.python.eager import context
    except ImportError:
        return None
    return context
