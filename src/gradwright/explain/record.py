"""The record of a run: nodes (what was computed, on which line) and exits (what left the framework)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Key = Any  # names one tensor of one run; an int for a tensor that exists, a tuple for one inside an unfolded function


@dataclass(eq=False, slots=True)
class Node:
    """One operation that ran: its tensors by key, its line, and its pullback.

    `pull` takes one upstream per output (None: nothing arrived) and gives one gradient per input (None: none).
    """

    op: str
    where: str
    inputs: tuple[Key, ...]
    outputs: tuple[Key, ...]
    pull: Callable[[list], Sequence] | None = None
    kind: str = "op"  # op | rule | call | link | state | pyfunc
    index: int = 0
    stopped: bool = False
    rule: Any = None  # the user's pullback, of a custom gradient
    unfold: Callable[[], list[Node] | None] | None = None  # the nodes inside, of a function call
    unfolded: list[Node] | None = None
    causes: dict[int, tuple[str, str]] = field(default_factory=dict)  # input -> (cause, where), known beforehand
    seen: list | None = None  # the upstreams of the last walk, of a custom rule
    lost: str = ""  # why the framework itself cannot differentiate this op


@dataclass(frozen=True, slots=True)
class Exit:
    """A tensor that became a Python or NumPy value."""

    key: Key
    how: str  # ".numpy()", "float()", ...
    where: str
    index: int
    clock: int


@dataclass(frozen=True, slots=True)
class Kind:
    """What is remembered of a tensor whose value is not kept."""

    dtype: str
    shape: tuple | None
    differentiable: bool
    size: int | None = None


@dataclass(eq=False)
class Log:
    """Everything that one thread ran while somebody was watching."""

    keep_values: bool = True
    nodes: list[Node] = field(default_factory=list)
    kinds: dict[Key, Kind] = field(default_factory=dict)
    values: dict[Key, Any] = field(default_factory=dict)
    exits: list[Exit] = field(default_factory=list)
    states: dict[Key, list[tuple[Key, str]]] = field(default_factory=dict)  # variable -> what it was assigned from
    producer: dict[Key, Node] = field(default_factory=dict)

    def knows(self, key: Key) -> bool:
        """Whether a tensor was met before."""
        return key in self.values or key in self.kinds

    def add(self, node: Node) -> Node:
        """Append a node; it becomes the producer of its outputs, as on a tape the last one does."""
        node.index = len(self.nodes)
        self.nodes.append(node)
        for key in node.outputs:
            self.producer[key] = node
        return node
