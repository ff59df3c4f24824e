"""The walk: a backward pass over a record that remembers, for every edge, what went in and what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gradwright.explain.record import Key, Node

NONE, ZERO, NONFINITE, OK = "none", "zero", "nonfinite", "ok"


class Algebra(Protocol):
    """What the walk must know of upstreams: tensors when values are kept, bare states when they are not."""

    def start(self, key: Key) -> Any:
        """The upstream that a target starts with; None if it cannot have one."""
        ...

    def add(self, parts: list, key: Key) -> Any:
        """The sum of what several consumers sent back."""
        ...

    def state(self, value: Any, near: str) -> str:
        """`none`, `zero`, `nonfinite` or `ok`; `near` is the upstream's state, for what cannot be looked into."""
        ...


@dataclass(eq=False, slots=True)
class Edge:
    """One input of one node in the backward pass: the state of what arrived at the node and of what it sent on."""

    node: Node
    slot: int
    key: Key
    upstream: str
    state: str
    gradient: Any = None


def unfold(nodes: Iterable[Node], wanted: Callable[[Node], bool]) -> list[Node]:
    """The nodes with every wanted function call replaced by what ran inside it, in order and to any depth."""
    flat: list[Node] = []
    for node in nodes:
        inside = _inside(node) if wanted(node) else None
        flat.extend([node] if inside is None else unfold(inside, lambda _: True))
    return flat


def _inside(node: Node) -> list[Node] | None:
    if node.unfolded is None and node.unfold is not None:
        node.unfolded = node.unfold()
        node.unfold = node.unfold if node.unfolded is not None else None
        for inner in node.unfolded or ():
            inner.index = node.index  # it ran at the moment of the call
            if inner.kind != "link":
                inner.where = inner.where or node.where  # of a loaded function no lines are known
    return node.unfolded


class Paths:
    """Which tensors lie between which source and the targets: pure reachability, blocked edges included."""

    def __init__(self, nodes: Sequence[Node], targets: Sequence[Key], sources: Sequence[Key]):
        self.producer: dict[Key, Node] = {key: node for node in nodes for key in node.outputs}
        self.below = _descend(nodes, self.producer, sources)
        self.above = _ascend(self.producer, targets)
        self.nodes = [n for n in nodes if self._between(n)]

    def _between(self, node: Node) -> bool:
        made = any(key in self.above and self.producer[key] is node for key in node.outputs)
        return made and any(key in self.below for key in node.inputs)

    def depends(self, key: Key, source: int) -> bool:
        """Whether the tensor `key` was computed from source number `source` (or is it)."""
        return bool(self.below.get(key, 0) >> source & 1)

    def leaves(self) -> list[Key]:
        """The tensors that the targets were computed from and that no recorded op made."""
        return [key for key in self.above if key not in self.producer]


def _descend(nodes: Sequence[Node], producer: dict[Key, Node], sources: Sequence[Key]) -> dict[Key, int]:
    below: dict[Key, int] = {}
    for bit, key in enumerate(sources):
        below[key] = below.get(key, 0) | 1 << bit
    for node in nodes:
        mask = 0
        for key in node.inputs:
            mask |= below.get(key, 0)
        if mask:
            for key in node.outputs:
                if producer[key] is node:
                    below[key] = below.get(key, 0) | mask
    return below


def _ascend(producer: dict[Key, Node], targets: Sequence[Key]) -> set[Key]:
    above: set[Key] = set()
    pending = list(targets)
    while pending:
        key = pending.pop()
        if key not in above:
            above.add(key)
            node = producer.get(key)
            pending.extend(node.inputs if node is not None else ())
    return above


class Walk:
    """One backward pass. Afterwards `edges` (nearest the target first) and `gradients` by key tell what happened."""

    def __init__(
        self,
        paths: Paths,
        targets: Sequence[Key],
        algebra: Algebra,
        refuses: Callable[[Node], bool] = lambda node: False,
    ):
        self.paths, self.algebra, self.refuses = paths, algebra, refuses
        self.parts: dict[Key, list] = {}
        self.gradients: dict[Key, Any] = {}
        self.states: dict[Key, str] = {}
        self.edges: list[Edge] = []
        for key in targets:
            start = algebra.start(key)
            if start is not None:
                self.parts.setdefault(key, []).append(start)
                self.states[key] = OK
        for node in reversed(paths.nodes):
            self._through(node)
        for key in list(self.parts):
            self._sum(key)

    def consumers(self, key: Key) -> list[Edge]:
        """The edges that sent a gradient (or none) back to `key`."""
        return [edge for edge in self.edges if edge.key == key]

    def _sum(self, key: Key) -> Any:
        parts = self.parts.pop(key, None)
        if parts:
            value = parts[0] if len(parts) == 1 else self.algebra.add(parts, key)
            self.gradients[key] = value
            self.states[key] = self.algebra.state(value, self.states.get(key, OK))
        return self.gradients.get(key)

    def _through(self, node: Node) -> None:
        upstreams = [self._sum(key) if self.paths.producer[key] is node else None for key in node.outputs]
        if all(up is None for up in upstreams):
            return
        near = _worst([self.states[k] for k, up in zip(node.outputs, upstreams, strict=True) if up is not None])
        node.seen = upstreams if node.kind == "rule" else None
        blocked = self.refuses(node) or node.pull is None
        results: Sequence = [None] * len(node.inputs) if blocked else node.pull(upstreams)  # type: ignore[misc]
        for slot, (key, gradient) in enumerate(zip(node.inputs, results, strict=False)):
            if key in self.paths.below:
                self._arrive(Edge(node, slot, key, near, self.algebra.state(gradient, near), gradient))

    def _arrive(self, edge: Edge) -> None:
        self.edges.append(edge)
        if edge.state != NONE:
            self.parts.setdefault(edge.key, []).append(edge.gradient)
            self.states[edge.key] = _worst([self.states.get(edge.key, edge.state), edge.state])


def _worst(states: list[str]) -> str:
    """What a sum of parts in these states is: a NaN stays, a zero gives way."""
    return next((s for s in (NONFINITE, OK, ZERO) if s in states), NONE)
