"""What the user's source text tells of tensors that no record tells of: made before the tape, or after it.

A tape sees nothing outside its `with` block. Whether such a tensor came from a source, and on which line, is read
from the assignments of the function that asks: the names that hold the tensors, and what was assigned to them.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from gradwright.explain import lines
from gradwright.explain.record import Key


class Outside:
    """Finds the line outside the tape where the way from a source to the target was left."""

    def __init__(self, frame: Any, sources: list, outside: Callable[[Key], bool]):
        self.frame, self.outside = frame, outside
        self.sources = {source.name: source.value for source in sources}

    def line(self, targets: list[Key], leaves: list[Key], source: Any) -> str | None:
        """A line, "" if there surely is one that cannot be found, None if nothing was made outside."""
        written = _Assignments(self.frame)
        names = self._names(source)
        for key in leaves:
            if self.outside(key):
                found = self._made(key, names, written)
                if found or (key in targets and found is None):
                    return found or ""
        return None

    def _names(self, source: Any) -> set[str]:
        value = self.sources.get(source.name)
        return {name for name, other in self.frame.f_locals.items() if other is value} | {source.name}

    def _made(self, key: Key, names: set[str], written: _Assignments) -> str | None:
        """Where the tensor `key` was assigned from something that depends on the source; "" if from something else."""
        held = [n for n, v in self.frame.f_locals.items() if getattr(v, "_id", None) == key]
        unknown = True
        for name in held:
            line, parts = written.of(name)
            if line and written.reaches(parts, names):
                return lines.spell(self.frame.f_code.co_filename, line)
            unknown = unknown and not line
        return None if unknown else ""


class _Assignments:
    """The last assignment to each name before the asking line, in the asking function."""

    def __init__(self, frame: Any):
        self.found: dict[str, tuple[int, set[str]]] = {}
        linecache.getlines(frame.f_code.co_filename, frame.f_globals)
        tree = _tree(frame.f_code.co_filename)
        first, last = frame.f_code.co_firstlineno, frame.f_lineno
        for node in ast.walk(tree):
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and first <= node.lineno <= last:
                self._note(node)

    def _note(self, node: Any) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        parts = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)} if node.value is not None else set()
        for name in names:
            earlier = self.found.get(name, (0, set()))
            if node.lineno >= earlier[0]:
                self.found[name] = (node.lineno, parts)

    def of(self, name: str) -> tuple[int, set[str]]:
        """Line and used names of the assignment of a name; (0, nothing) if there is none."""
        return self.found.get(name, (0, set()))

    def reaches(self, parts: set[str], names: set[str]) -> bool:
        """Whether names in an expression lead back to one of `names`."""
        pending, seen = list(parts), set()
        while pending:
            name = pending.pop()
            if name in names:
                return True
            if name not in seen:
                seen.add(name)
                pending.extend(self.of(name)[1])
        return False


def discarded(spot: tuple[str, int]) -> bool:
    """Whether a value that was read on this line went nowhere: printed, logged, tested, and not kept."""
    return isinstance(_statement(spot), (ast.Expr, ast.Assert, ast.If, ast.While))


def shown(spot: tuple[str, int]) -> bool:
    """Whether a value that was read on this line was only printed or asserted: it cannot have come back."""
    found = _statement(spot)
    if isinstance(found, ast.Expr) and isinstance(found.value, ast.Call):
        return isinstance(found.value.func, ast.Name) and found.value.func.id == "print"
    return isinstance(found, ast.Assert)


def _statement(spot: tuple[str, int]) -> ast.stmt | None:
    """The innermost statement on a line."""
    statements = [
        node
        for node in ast.walk(_tree(spot[0]))
        if isinstance(node, ast.stmt) and node.lineno <= spot[1] <= (node.end_lineno or node.lineno)
    ]
    return max(statements, key=lambda node: node.lineno, default=None)


@lru_cache(maxsize=64)
def _tree(filename: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return ast.Module([], [])
