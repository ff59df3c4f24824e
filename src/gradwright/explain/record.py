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
    direct: bool = True  # called by the user's own code, where that is known
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
    spot: tuple[str, int] = ("", 0)  # file and line


@dataclass(frozen=True, slots=True)
class Kind:
    """What is remembered of a tensor whose value is not kept."""

    dtype: str
    shape: tuple | None
    differentiable: bool
    size: int | None = None


@dataclass(eq=False)
class Log:
    """Everything that one thread ran while somebody was watching.

    A `sparse` log serves whole programs: outside of tapes it keeps lines and no tensors, and only so many of them.
    """

    keep_values: bool = True
    sparse: bool = False
    limit: int = 50_000
    count: int = 0  # of all nodes ever added: the moment
    open_tapes: int = 0
    nodes: list[Node] = field(default_factory=list)
    kinds: dict[Key, Kind] = field(default_factory=dict)
    values: dict[Key, Any] = field(default_factory=dict)
    exits: list[Exit] = field(default_factory=list)
    states: dict[Key, list[tuple[Key, str]]] = field(default_factory=dict)  # variable -> what it was assigned from
    producer: dict[Key, Node] = field(default_factory=dict)

    def knows(self, key: Key) -> bool:
        """Whether a tensor was met before."""
        return key in self.values or key in self.kinds

    @property
    def asleep(self) -> bool:
        """Whether only lines are kept just now."""
        return self.sparse and not self.open_tapes

    def add(self, node: Node) -> Node:
        """Append a node; it becomes the producer of its outputs, as on a tape the last one does."""
        node.index = self.count
        self.count += 1
        self.nodes.append(node)
        for key in node.outputs:
            self.producer[key] = node
        if self.asleep and len(self.nodes) > self.limit:
            self.strip()
        return node

    def strip(self) -> None:
        """Let every tensor go, and the older half of the lines."""
        self.nodes = self.nodes[-self.limit // 2 :]
        for node in self.nodes:
            node.pull = node.unfold = node.unfolded = node.rule = node.seen = None
        self.producer = {key: node for node in self.nodes for key in node.outputs}
        kept = {key for node in self.nodes for key in (*node.inputs, *node.outputs)}
        self.kinds = {key: kind for key, kind in self.kinds.items() if key in kept}
        self.exits = self.exits[-self.limit // 2 :]
        self.values.clear()
