"""Running a function a second time with the random numbers and the state of the first.

The first run remembers what every random op gave, and every value read of a variable that the function itself
changes (a seed, a moving average). The second run is given those again, and changes nothing. It stands in front of
the functions that make such ops, for the thread that asks and as long as it runs; op callbacks watch that no draw
goes past. Where TensorFlow has moved either, `can_replay` says so.
"""

from __future__ import annotations

import importlib
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from gradwright.frameworks import tf_draws

try:
    from tensorflow.python.framework import op_callbacks
except ImportError:  # pragma: no cover - another TensorFlow
    op_callbacks = None  # type: ignore[assignment]

_MODULES = ("gen_random_ops", "gen_stateful_random_ops", "gen_candidate_sampling_ops", "gen_script_ops")
_STATE = "gen_resource_variable_ops"
_ASSIGN = ("assign_variable_op", "assign_add_variable_op", "assign_sub_variable_op")


class _Thread(threading.local):
    run: Any = None  # the run that is remembered or replayed on this thread


_thread = _Thread()
_lock = threading.Lock()
_scopes = 0
_originals: list[tuple[Any, str, Any]] = []


def can_replay() -> bool:
    """Whether this TensorFlow lets us stand in front of its random ops."""
    return op_callbacks is not None and hasattr(op_callbacks, "add_op_callback") and bool(_places())


def _places() -> list[tuple[Any, str, str]]:
    """The functions to stand in front of: (module, name, what it does)."""
    found = []
    for name in _MODULES:
        module = _module(name)
        found += [(module, n, "draw") for n in tf_draws.functions_of(module)]
    state = _module(_STATE)
    found += [(state, n, "assign") for n in _ASSIGN if hasattr(state, n)]
    return [*found, (state, "read_variable_op", "read")] if hasattr(state, "read_variable_op") else []


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"tensorflow.python.ops.{name}")
    except ImportError:  # pragma: no cover - another TensorFlow
        return None


def _stand_in(original: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        run = _thread.run
        return original(*args, **kwargs) if run is None else run.met(kind, original, args, kwargs)

    call.__wrapped__ = original  # type: ignore[attr-defined]
    return call


@contextmanager
def _in_front() -> Iterator[None]:
    """Put the stand-ins in place while any thread needs them."""
    global _scopes
    with _lock:
        if not _scopes:
            for module, name, kind in _places():
                _originals.append((module, name, getattr(module, name)))
                setattr(module, name, _stand_in(getattr(module, name), kind))
        _scopes += 1
    try:
        yield
    finally:
        with _lock:
            _scopes -= 1
            while not _scopes and _originals:
                setattr(*_originals.pop())


@dataclass
class Memory:
    """What one run of a function drew and read."""

    draws: list[tuple[str, Any]] = field(default_factory=list)
    reads: list[tuple[int, Any]] = field(default_factory=list)
    changed: dict[int, Any] = field(default_factory=dict)  # handles of the variables that were assigned
    out_of_reach: bool = False  # something was drawn or changed where it cannot be replayed
    python: Any = None  # the state of numpy's and python's own generators

    def settle(self) -> None:
        """Forget the reads of variables that the function does not change: they have the same value again."""
        self.reads = [(key, value) for key, value in self.reads if key in self.changed]


def _here() -> Any:
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


class _Remembering:
    """The first run: everything happens, and is written down."""

    def __init__(self, memory: Memory):
        self.memory, self.here, self.inside = memory, _here(), False

    def met(self, kind: str, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        self.inside = True
        try:
            result = original(*args, **kwargs)
        finally:
            self.inside = False
        handle = kwargs.get("resource", args[0] if args else None)
        if _here() is not self.here:
            self.memory.out_of_reach |= kind != "read"
        elif kind == "draw":
            self.memory.draws.append((original.__name__, result))
        elif kind == "assign":
            self.memory.changed[id(handle)] = handle
        else:
            self.memory.reads.append((id(handle), result))
        return result

    def watch(self, op_type, inputs, attrs, outputs, op_name=None, graph=None):
        """See what goes past the stand-ins in eager mode."""
        name = op_type.decode() if isinstance(op_type, bytes) else op_type
        if self.here is None and not self.inside and tf_draws.draws(name):
            self.memory.out_of_reach = True

    def look_back(self, known: int) -> None:
        """See what went past the stand-ins in a graph, where calls of functions tell no callback."""
        new = self.here.get_operations()[known:]
        met = sum(op.type in tf_draws.FUNCTIONS for op in new)
        drawn = len(self.memory.draws)
        self.memory.out_of_reach |= met != drawn or any(tf_draws.draws_in(op) for op in new)


class _Replaying:
    """The second run: draws and reads are given, assignments do not happen."""

    def __init__(self, memory: Memory):
        self.memory, self.here = memory, _here()
        self.draws, self.reads = iter(memory.draws), iter(memory.reads)
        captured = (self.here.capture(h) for h in memory.changed.values()) if hasattr(self.here, "capture") else ()
        self.handles = {*memory.changed, *map(id, captured)}

    def met(self, kind: str, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        handle = kwargs.get("resource", args[0] if args else None)
        if kind == "draw":
            name, result = next(self.draws, ("nothing more", None))
            if name != original.__name__:
                raise RuntimeError(f"the function drew {name} the first time, and {original.__name__} the second")
            return result
        if kind == "assign":
            return None if self.here is None else tf.no_op()
        if id(handle) not in self.handles:
            return original(*args, **kwargs)
        return next(self.reads)[1]


@contextmanager
def _running(run: Any) -> Iterator[None]:
    before, _thread.run = _thread.run, run
    try:
        with _in_front():
            yield
    finally:
        _thread.run = before


def remember(function: Callable[[], Any]) -> tuple[Any, Memory]:
    """Run a function and remember what must be the same when it runs again."""
    memory = Memory(python=(np.random.get_state(), random.getstate()))
    run = _Remembering(memory)
    known = 0 if run.here is None else len(run.here.get_operations())
    op_callbacks.add_op_callback(run.watch)
    try:
        with _running(run):
            result = function()
    finally:
        op_callbacks.remove_op_callback(run.watch)
    if run.here is not None:
        run.look_back(known)
    memory.settle()
    return result, memory


def replay(function: Callable[[], Any], memory: Memory) -> Any:
    """Run it again: the same draws, the same state read, and no state changed."""
    now = np.random.get_state(), random.getstate()
    _set_python(memory.python)
    try:
        with _running(_Replaying(memory)):
            return function()
    finally:
        _set_python(now)


def _set_python(states: Any) -> None:
    np.random.set_state(states[0])
    random.setstate(states[1])
