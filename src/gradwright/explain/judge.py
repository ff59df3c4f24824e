"""The verdict on one source: what the walk saw on its paths, told as a reason with its cause and its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gradwright.explain.causes import Reason, compose
from gradwright.explain.record import Exit, Key, Kind, Log, Node
from gradwright.explain.sourcing import discarded, shown
from gradwright.explain.walk import NONE, NONFINITE, OK, ZERO, Edge, Walk

STOPS = frozenset({"StopGradient", "PreventGradient"})
PYTHON = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})
METADATA = frozenset(
    {"Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike", "BroadcastGradientArgs", "VariableShape"}
)
ALWAYS_FLAT = frozenset({"Sign", "Relu", "Relu6"})  # told on a side path too; elsewhere a zero may well be meant
CHOICES = frozenset({"Select", "SelectV2"})
PRODUCTS = frozenset({"Mul", "MatMul", "BatchMatMulV2", "Einsum", "Conv2D"})
INTO_FLOATS = frozenset({"Cast", "Bitcast"})


@dataclass(frozen=True)
class Source:
    """One tensor or variable whose gradient is asked for."""

    name: str
    key: Key
    kind: Kind
    unwatched: str = ""  # the cause, if the tape does not watch it
    since: int = 0  # from which moment on it was watched


class Tape(Protocol):
    """What a tape recorded of the log, and when."""

    def refuses(self, node: Node) -> str:
        """The cause why the tape has no record of a node; empty if it has."""
        ...

    def outside(self, key: Key) -> bool:
        """Whether a tensor that no record tells of was made when the tape did not record."""
        ...


@dataclass
class Judge:
    """Gives the reason of each source, out of one walk."""

    walk: Walk
    log: Log
    targets: list[Key]
    sources: list[Source]
    kind_of: Callable[[Key], Kind | None]
    tape: Tape
    values: Any  # what can be said of numbers: `masked`, `there`, `mover`, `rule_line`; see the framework's side
    asked: str = ""  # the line that asks

    def reasons(self) -> list[Reason]:
        """One reason per source, in order."""
        return [self.reason(number) for number in range(len(self.sources))]

    def reason(self, number: int) -> Reason:
        """The status of a source, its main cause, and every further cause on other paths."""
        source = self.sources[number]
        if not source.kind.differentiable:
            return self._whole_numbers(number)
        status = self._status(source)
        found = list(self._unique(self._found(number, status)))
        if status == NONE and not found:
            found = list(self._apart(number))
        if status == OK:
            return self._ok(source, found)
        first = found[0] if found else self._unexplained(source, status)
        return replace(first, also=tuple(found[1:]))

    def _status(self, source: Source) -> str:
        if source.unwatched:
            return NONE
        if source.since:
            late = [e.state for e in self.walk.consumers(source.key) if e.node.index >= source.since]
            return next((s for s in (NONFINITE, OK, ZERO) if s in late), NONE)
        return self.walk.states[source.key] if source.key in self.walk.gradients else NONE

    def _found(self, number: int, status: str) -> Iterator[Reason]:
        source = self.sources[number]
        arrives = source.key in self.walk.gradients
        if status == NONE and arrives:
            yield from self._never_watched(source)
        edges = [e for e in self.walk.edges if self.walk.paths.depends(e.key, number)]
        if status == NONFINITE:
            begun = [e for e in edges if e.state == NONFINITE and e.upstream != NONFINITE]
            yield from (self._singular(source, e) for e in sorted(begun, key=self.values.tainted))
        flat = [e for e in edges if e.state == ZERO and e.upstream == OK]
        if status == ZERO:
            # A product with zero is often the echo of a flat function on the other side: that one is told first.
            yield from (self._flat(source, e) for e in sorted(flat, key=lambda e: e.node.op in PRODUCTS))
        blocked = [e for e in edges if e.state == NONE]
        told = [e for e in blocked if status == NONE or e.node.direct]
        yield from (r for e in told for r in self._blocked(number, e, weak=False))
        if status == OK:
            yield from (self._flat(source, e) for e in flat if e.node.op in ALWAYS_FLAT and e.node.direct)
        if status == NONE:
            yield from (r for e in blocked for r in self._blocked(number, e, weak=True))
            yield from (r for key in self.targets for r in self._whole(number, key))
        yield from self._left(number, strict=status != NONE or bool(blocked))
        if status == NONE and not arrives:
            yield from self._never_watched(source)

    @staticmethod
    def _unique(found: Iterator[Reason]) -> Iterator[Reason]:
        seen = set()
        for reason in found:
            name = (reason.cause, reason.op, reason.where)
            if name not in seen:
                seen.add(name)
                yield reason

    def _never_watched(self, source: Source) -> Iterator[Reason]:
        uses = [node for node in self.walk.paths.nodes if source.key in node.inputs]
        late = source.since and any(node.index < source.since for node in uses)
        cause = source.unwatched or ("not-watched" if late else "")
        if cause and uses:
            first = min(uses, key=lambda node: node.index)
            yield compose(source.name, NONE, cause, None, first.where)

    def _blocked(self, number: int, edge: Edge, weak: bool) -> Iterator[Reason]:
        """Why no gradient comes out of a node that one came into; `weak`: where whole numbers only choose or count."""
        source, node = self.sources[number], edge.node
        kind = self.kind_of(edge.key)
        if (refused := self.tape.refuses(node)) and not (node.op in STOPS and refused == "recording-stopped"):
            if not weak:
                yield compose(source.name, NONE, refused, node.op, node.where, op=_spelt(node))
        elif edge.slot in node.causes:
            if not weak:
                cause, where = node.causes[edge.slot]
                yield compose(source.name, NONE, cause, "AssignVariableOp", where, op="the assignment")
        elif kind is not None and not kind.differentiable:
            if weak != (node.op in INTO_FLOATS):
                yield from self._whole(number, edge.key)
        elif not weak and node.op not in METADATA:
            yield self._no_gradient(source, node)

    def _no_gradient(self, source: Source, node: Node) -> Reason:
        if node.op in STOPS:
            cause = "stop-gradient"
        elif node.op in PYTHON or node.kind == "pyfunc":
            cause = "py-function"
        else:
            cause = "rule-none" if node.kind == "rule" else "no-gradient"
        where = self.values.rule_line(node) if node.kind == "rule" else node.where
        detail = f" ({node.lost})" if node.lost else ""
        return compose(source.name, NONE, cause, node.op, where or node.where, op=_spelt(node), detail=detail)

    def _whole(self, number: int, key: Key) -> Iterator[Reason]:
        """The ops that first made whole numbers of the source, below a tensor that cannot carry a gradient."""
        pending, seen = [key], set()
        while pending:
            key = pending.pop()
            node, kind = self.walk.paths.producer.get(key), self.kind_of(key)
            if node is None or key in seen or kind is None or kind.differentiable or node.op in METADATA:
                continue
            seen.add(key)
            inputs = [k for k in node.inputs if k is not None and self.walk.paths.depends(k, number)]
            kinds = [self.kind_of(k) for k in inputs]
            if any(k is not None and k.differentiable for k in kinds):
                cause = "py-function" if node.op in PYTHON else "integer"
                name = self.sources[number].name
                yield compose(name, NONE, cause, node.op, node.where, op=_spelt(node), dtype=kind.dtype)
            pending.extend(inputs)

    def _singular(self, source: Source, edge: Edge) -> Reason:
        node = edge.node
        masked_by = self.values.masked(self.walk, edge)
        where = self.values.rule_line(node, edge) if node.kind == "rule" else node.where
        facts = {"op": _spelt(node), "detail": self.values.there(edge)}
        if masked_by is None:
            return compose(source.name, NONFINITE, "singular-point", node.op, where or node.where, **facts)
        facts["by"] = f" ({_spelt(masked_by)} at {masked_by.where} took another value)"
        return compose(source.name, NONFINITE, "masked-branch", node.op, where or node.where, **facts)

    def _flat(self, source: Source, edge: Edge) -> Reason:
        node = self.values.mover(self.walk, edge) or edge.node
        where = self.values.rule_line(node, edge) if node.kind == "rule" and node is edge.node else node.where
        detail = self.values.there(edge) if node is edge.node else ""
        if node.op in CHOICES:
            return replace(
                compose(source.name, ZERO, "masked-branch", node.op, node.where),
                message=f"{_spelt(node)} took the other branch everywhere, so nothing of this one is used{detail}",
                repair="look at the condition: it never takes this branch here (tf.reduce_any(condition) is False)",
            )
        return compose(source.name, ZERO, "flat", node.op, where or node.where, op=_spelt(node), detail=detail)

    def _left(self, number: int, strict: bool) -> Iterator[Reason]:
        """Exits to Python or NumPy whose value came back, as far as the order of events tells."""
        born_here = [k for k in self.walk.paths.leaves() if isinstance(k, int)]
        source = self.sources[number]
        for door in self.log.exits:
            if shown(door.spot) or (strict and discarded(door.spot)):
                continue
            if self.walk.paths.depends(door.key, number) and any(self._came_back(door, k, strict) for k in born_here):
                yield self._exit(source, number, door)

    def _exit(self, source: Source, number: int, door: Exit) -> Reason:
        if door.how == "bool()":
            asked = list(self._whole(number, door.key))
            return asked[0] if asked else compose(source.name, NONE, "integer", None, door.where, op="the test")
        cause = "py-function" if door.how == "a Python function" else "numpy"
        op = "the Python function" if cause == "py-function" else door.how
        return compose(source.name, NONE, cause, door.how, door.where, how=door.how, op=op)

    def _came_back(self, door: Exit, leaf: Key, strict: bool) -> bool:
        if leaf <= door.clock:
            return False
        kind, left = self.kind_of(leaf), self.kind_of(door.key)
        if kind is None or not kind.differentiable:
            return False
        return not strict or bool(left and kind.size and kind.size > 1 and kind.shape == left.shape)

    def _apart(self, number: int) -> Iterator[Reason]:
        """No path at all: something on the way was made where nobody recorded, or the source is not in it."""
        source = self.sources[number]
        where = self.values.outside_line(self.targets, self.walk.paths.leaves(), source)
        if where is not None:
            yield compose(source.name, NONE, "outside-tape", None, where or self.asked, op="a step on the way")
            return
        target = next((self.walk.paths.producer[k] for k in self.targets if k in self.walk.paths.producer), None)
        line = target.where if target is not None else self.asked
        yield compose(source.name, NONE, "unused", None, line)

    def _whole_numbers(self, number: int) -> Reason:
        source = self.sources[number]
        uses = [n.where for n in self.log.nodes if source.key in n.inputs and n.where]
        reason = compose(source.name, NONE, "integer", None, uses[0] if uses else self.asked)
        return replace(
            reason,
            message=f"`{source.name}` itself is {source.kind.dtype}; only floats (and complex numbers) have gradients",
            repair=f"{source.name} = tf.cast({source.name}, tf.float32)  # before the tape watches it",
        )

    def _unexplained(self, source: Source, status: str) -> Reason:
        cause = {ZERO: "flat", NONFINITE: "singular-point"}.get(status, "unused")
        reason = compose(source.name, status, cause, None, self.asked)
        text = {
            ZERO: "the parts that arrive on several paths cancel each other exactly",
            NONFINITE: "each part is finite, but their sum is too large for the dtype",
        }.get(status, "the target was computed without it, as far as the record tells")
        return replace(reason, message=text, repair=None)

    def _ok(self, source: Source, found: list[Reason]) -> Reason:
        lost = [f"the path through {r.op or r.cause} at {r.where} adds nothing" for r in found]
        text = "the gradient is not None, but " + "; ".join(lost) if lost else "the gradient arrives"
        return Reason(source.name, OK, message=text, also=tuple(found))


def _spelt(node: Node) -> str:
    return f"`{node.op}`" if node.op else "this step"
