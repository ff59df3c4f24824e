"""Overriding gradients in TensorFlow: the places where it stands in front of TensorFlow, and for how long.

While any thread is inside an override, the functions below are replaced by ones that look at this thread's own
overrides and else call the original; when the last thread leaves, the originals are back.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, execute, imperative_grad
from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function
from tensorflow.python.ops import custom_gradient, gradients_util
from tensorflow.python.ops.parallel_for import pfor

from gradwright.errors import OverrideError
from gradwright.frameworks import tf_override_functions, tf_override_record
from gradwright.frameworks import tf_override_ops as known
from gradwright.frameworks import tf_override_state as state
from gradwright.override import messages
from gradwright.rule import Rule

native = tf_override_record.native
Activation = state.Activation
top = state.top
Replacement = Callable[[Callable[..., Any]], Callable[..., Any]]


def check_types(types: Iterable[str]) -> None:
    """Refuse what is no op type, what has no gradient of its own, and what no gradient can reach."""
    for op_type in types:
        if op_type in known.CALLS:
            raise OverrideError(messages.not_an_op(op_type))
        if not isinstance(op_type, str) or known.op_def(op_type) is None:
            raise OverrideError(messages.unknown_type(str(op_type), known.all_types()))
        why = known.blocked_type(op_type)
        if why is not None:
            raise OverrideError(messages.no_gradient_passes(op_type, why))


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A user's function as AutoGraph would have it where a function is being traced; elsewhere as it is."""
    if context.executing_eagerly():
        return function
    graph = tf.__internal__.autograph
    return graph.tf_convert(function, graph.control_status_ctx())


@contextlib.contextmanager
def active(activation: state.Activation) -> Iterator[None]:
    """Within it, the rules of an activation hold on this thread."""
    with _standing_in(), _listening(), state.active(activation):
        yield


@contextlib.contextmanager
def _listening() -> Iterator[None]:
    """Hear of every op of this thread; once, however many overrides are nested."""
    if state.top() is not None:
        yield
        return
    here = context.context()
    here.add_op_callback(tf_override_record.on_op)
    try:
        yield
    finally:
        here.remove_op_callback(tf_override_record.on_op)


def _suspending(original: Callable[..., Any]) -> Callable[..., Any]:
    """A backward pass: its own ops keep their native gradients, in every mode alike."""

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        with state.suspended():
            return original(*args, **kwargs)

    return backward


def _forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """The forward of a `tf.custom_gradient` function, (f, args, kwargs)."""

    @functools.wraps(original)
    def run(f: Any, *args: Any, **kwargs: Any) -> Any:
        with state.forward_of(getattr(f, "__name__", type(f).__name__)):
            return original(f, *args, **kwargs)

    return run


def _forward_of_rule(original: Callable[..., Any]) -> Callable[..., Any]:
    """`Rule.__call__`: the forward of a gradwright rule."""

    def __call__(rule: Any, *args: Any, **kwargs: Any) -> Any:
        with state.forward_of(rule.name):
            return original(rule, *args, **kwargs)

    return __call__


def _places() -> list[tuple[Any, str, Replacement]]:
    """What is replaced while an override is active; a place that TensorFlow has not any more is left out."""
    return [
        (execute, "record_gradient", tf_override_record.record_gradient),
        (execute, "execute", lambda original: execute.execute_with_callbacks),
        (polymorphic_function.Function, "__call__", tf_override_functions.call_polymorphic),
        (concrete_function.ConcreteFunction, "_call_flat", tf_override_functions.call_flat),
        (imperative_grad, "imperative_grad", _suspending),
        (gradients_util, "_GradientsHelper", _suspending),
        (pfor.PFor, "_convert_helper", _suspending),
        (custom_gradient, "_eager_mode_decorator", _forward),
        (custom_gradient, "_graph_mode_decorator", _forward),
        (Rule, "__call__", _forward_of_rule),
    ]


class _Replaced:
    """The replacements that stand now, and how many overrides need them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users = 0
        self.standing: list[tuple[Any, str, Any, Any]] = []

    def enter(self) -> None:
        with self.lock:
            self.users += 1
            if self.users == 1:
                self._install()

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self._remove()

    def _install(self) -> None:
        for owner, name, replacement in _places():
            original = getattr(owner, name, None)
            if original is not None:
                replaced = replacement(original)
                setattr(owner, name, replaced)
                self.standing.append((owner, name, original, replaced))

    def _remove(self) -> None:
        while self.standing:
            owner, name, original, replaced = self.standing.pop()
            # Somebody may have stood in front of us since; what is theirs is left alone, ours passes everything on.
            if getattr(owner, name) is replaced:
                setattr(owner, name, original)


_replaced = _Replaced()


@contextlib.contextmanager
def _standing_in() -> Iterator[None]:
    _replaced.enter()
    try:
        yield
    finally:
        _replaced.leave()
