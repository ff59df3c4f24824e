"""Calling a numpy function from TensorFlow, and refusing the two modes in which that is a trap.

XLA has no op for python, and a saved graph would hold a call into a process that is gone: TensorFlow saves it
quietly, and it dies on load. A deferred capture is evaluated when a function is saved, and so can refuse there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from gradwright.frameworks import tf_private_graphs as graphs

try:
    from tensorflow.python.saved_model import save_context
except ImportError:  # pragma: no cover - another TensorFlow
    save_context = None  # type: ignore[assignment]


def call(
    function: Callable[..., Any],
    tensors: list[Any],
    specs: list[tuple[Any, Any]],
    refuse: Callable[[str], Exception],
    guarded: bool = True,
) -> list[Any]:
    """Call a numpy function of arrays that gives a list of arrays, with these (shape, dtype)s.

    A derivative needs no guard of its own: it is saved only with the forward.
    """
    dtypes = [tf.as_dtype(dtype) for _, dtype in specs]

    def run(*arrays: Any) -> list[Any]:
        made = function(*arrays)
        return [np.asarray(v).astype(d.as_numpy_dtype) for v, d in zip(made, dtypes, strict=True)]

    if tf.executing_eagerly():
        return [tf.convert_to_tensor(v) for v in run(*(np.asarray(tf.convert_to_tensor(t)) for t in tensors))]
    graph = tf.compat.v1.get_default_graph()
    if graphs.in_xla(graph):
        raise refuse("it runs python, which XLA cannot compile")
    guards = [tf.identity(g) for g in _guard_against_saving(graph, refuse)] if guarded else []
    results = tf.numpy_function(run, tensors, dtypes)
    results = [results] if tf.is_tensor(results) else list(results)
    with tf.control_dependencies(guards):
        results = [tf.identity(r) for r in results]
    for result, (shape, _) in zip(results, specs, strict=True):
        if shape is not None:
            result.set_shape(shape)
    return results


def _guard_against_saving(graph: Any, refuse: Callable[[str], Exception]) -> list[Any]:
    """A value that is asked for at every call of the outermost function, and when that is saved."""
    outermost = graph
    while getattr(getattr(outermost, "outer_graph", None), "capture_call_time_value", None) is not None:
        outermost = outermost.outer_graph
    if save_context is None or not hasattr(outermost, "capture_call_time_value"):
        return []
    # A backward function is made by TensorFlow, which counts its captures and knows none that are deferred; it is
    # saved only with the forward function, and that one has its guard.
    if outermost.name.startswith("__backward_"):
        return []

    def value() -> Any:
        if save_context.in_save_context():
            raise refuse("it runs python, which a saved model would not find again when it is loaded")
        return tf.constant(0)

    key = ("gradwright does not save python", refuse)
    return [outermost.capture_call_time_value(value, tf.TensorSpec([], tf.int32), key=key)]
