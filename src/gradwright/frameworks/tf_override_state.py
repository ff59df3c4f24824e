"""Which overrides are active on this thread, and where they hold: eagerly, in which graphs, and when not."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from tensorflow.python.framework import ops

from gradwright.frameworks import tf_private as private
from gradwright.override.entries import Entry, Table, layered
from gradwright.override.hits import Hits


class Activation:
    """One level of overrides: its rules over those of the level outside, and the functions made for them.

    An override never changes a function that somebody else can call. What is called while it is active is
    called as a twin, traced anew or copied; the twins live here and die with it.
    """

    def __init__(self, own: list[Entry], over: Activation | None):
        self.table: Table = layered(over.table if over else {}, own)
        self.hits: list[Hits] = list({id(e.hits): e.hits for found in self.table.values() for e in found}.values())
        self.traced: Any = weakref.WeakSet()
        self.twins: Any = weakref.WeakKeyDictionary()
        self.copies: Any = weakref.WeakKeyDictionary()

    def lives_in(self, graph: Any) -> bool:
        """Whether ops that are put into this graph are meant: not those of TensorFlow's own scratch graphs."""
        while isinstance(graph, private.FuncGraph):
            if graph in self.traced or any(graph is home for home in _thread.homes):
                return True
            if not isinstance(graph, _branches_and_loops()):
                return False
            graph = graph.outer_graph
        return True

    def lives_here(self) -> bool:
        """Whether ops that are made now are meant."""
        return private.executing_eagerly() or self.lives_in(ops.get_default_graph())


class _Thread(threading.local):
    def __init__(self) -> None:
        self.stack: list[Activation] = []
        self.homes: list[Any] = []
        self.backward = 0
        self.forwards: list[str] = []


_thread = _Thread()


def top() -> Activation | None:
    """The innermost level of this thread, active or suspended."""
    return _thread.stack[-1] if _thread.stack else None


def current() -> Activation | None:
    """The level that holds now; none while a backward pass runs."""
    stack = _thread.stack
    return stack[-1] if stack and not _thread.backward else None


@contextlib.contextmanager
def active(activation: Activation) -> Iterator[None]:
    """Within it, the activation holds: eagerly, or in the graph that is being built now."""
    _thread.stack.append(activation)
    _thread.homes.append(None if private.executing_eagerly() else ops.get_default_graph())
    backward, _thread.backward = _thread.backward, 0
    try:
        yield
    finally:
        _thread.backward = backward
        _thread.homes.pop()
        _thread.stack.pop()


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """Within it, no override holds: backward passes are differentiated as TensorFlow would, in every mode."""
    _thread.backward += 1
    try:
        yield
    finally:
        _thread.backward -= 1


@contextlib.contextmanager
def forward_of(name: str) -> Iterator[None]:
    """Within it, the forward of a custom gradient runs: its ops are never asked for theirs."""
    _thread.forwards.append(name)
    try:
        yield
    finally:
        _thread.forwards.pop()


def running_forward() -> str | None:
    """The name of the outermost custom gradient whose forward runs."""
    return _thread.forwards[0] if _thread.forwards else None


def _branches_and_loops() -> tuple[type, ...]:
    """The graphs of branches and loop bodies, which belong to the function they stand in."""
    from tensorflow.python.ops import control_flow_v2_func_graphs as graphs

    return graphs.CondBranchFuncGraph, graphs.WhileCondFuncGraph, graphs.WhileBodyFuncGraph


def met(activation: Activation, types: Iterable[str]) -> None:
    """Note op types that were seen, for the message of a rule that never served."""
    for hits in activation.hits:
        hits.met.update(types)
