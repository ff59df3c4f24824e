"""Functions traced before watching began, traced once more: what is asked for becomes part of their cache key.

`tf.function` looks up its traces by a context (graph, devices, strategy). While somebody watches, a token is added to
it, so that the watched trace and the plain one live side by side and each run takes its own. Where TensorFlow has
moved the function that makes the context, functions traced before stay unseen, and the log says so.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import function_context

from gradwright.frameworks import tf_private as private

_lock = threading.Lock()
_installed: list[Any] = []
DRAIN_EVERY = 256


def install(token: Callable[[], Any], drain: Callable[[], None]) -> bool:
    """Add the token to the key of every trace; False where that is not possible."""
    with _lock:
        if _installed:
            return True
        original = getattr(function_context, "make_function_context", None)
        if original is None or not hasattr(getattr(function_context, "function_cache", None), "FunctionContext"):
            return False
        _installed.append(_Keyed(original, token, drain))
        function_context.make_function_context = _installed[0]
        return True


def uninstall() -> bool:
    """Give the function back as it was."""
    with _lock:
        for keyed in _installed:
            keyed.off = True
            if function_context.make_function_context is keyed:
                function_context.make_function_context = keyed.original
        _installed.clear()
        return False


class _Keyed:
    """The function that makes the key, with a token added. It sees every call, so it empties the queue at times."""

    def __init__(self, original: Any, token: Callable[[], Any], drain: Callable[[], None]):
        functools.update_wrapper(self, original)
        self.original, self.token, self.drain = original, token, drain
        self.off, self.calls = False, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made = self.original(*args, **kwargs)
        token = None if self.off else self.token()
        if token is None:
            return made
        self.calls += 1
        if self.calls % DRAIN_EVERY == 0 and private.executing_eagerly():
            self.drain()
        return made._replace(context=(made.context, token))


def session_graph(graph: Any) -> bool:
    """Whether a graph will be run by a session, which has resources of its own."""
    while isinstance(graph, private.FuncGraph):
        graph = graph.outer_graph
    with tf.init_scope():
        return not private.executing_eagerly()
