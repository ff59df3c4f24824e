"""What a function has captured: found by name, and put into a copy of the function.

Users write closures; a framework wants every value that a backward pass uses handed over openly. Cells, defaults,
attributes (`grad.jvp`), partials, plain containers and the functions in them are looked into; other objects are not.
"""

from __future__ import annotations

import copy
import dataclasses
import dis
import functools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gradwright.rule import Rule

# What can lead nowhere, and is met most.
ATOMS = frozenset(
    {int, float, complex, bool, str, bytes, type(None), type, types.ModuleType, types.BuiltinFunctionType}
)
_MENTIONS = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")


@functools.lru_cache(maxsize=1024)
def mentioned(code: types.CodeType) -> tuple[str, ...]:
    """The free variables of a function in the order in which its own lines first read them, then the others."""
    read = [i.argval for i in dis.get_instructions(code) if i.opname in _MENTIONS and i.argval in code.co_freevars]
    return tuple(dict.fromkeys([*read, *code.co_freevars]))


@functools.lru_cache(maxsize=1024)
def names_read(code: types.CodeType) -> tuple[str, ...]:
    """The free variables and globals that a function's own lines read, in order; not those of functions inside it."""
    outer = code.co_freevars
    reads = [i for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL" or i.opname in _MENTIONS]
    return tuple(dict.fromkeys(i.argval for i in reads if i.opname == "LOAD_GLOBAL" or i.argval in outer))


@dataclass(frozen=True)
class Walk:
    """How to look into a function.

    Attributes:
        wanted: which captured values are looked for.
        expand: takes further objects apart, into (path, child) pairs and a function of new children; None for a leaf.
        closed: ids of cells in which containers are left alone, because the caller may be writing to them.
    """

    wanted: Callable[[Any], bool]
    expand: Callable[[Any], tuple[list[tuple[str, Any]], Callable[[list[Any]], Any]] | None] | None = None
    closed: frozenset[int] = frozenset()

    def find(self, value: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
        """Every wanted value once, with the name by which the user knows it, in order of mention."""
        seen = set() if seen is None else seen
        if id(value) in seen:
            return
        if self.wanted(value):
            seen.add(id(value))
            yield path, value
            return
        if type(value) in ATOMS:
            return
        seen.add(id(value))
        for name, child in self.children(value):
            yield from self.find(child, _joined(path, name), seen)

    def holds(self, value: Any) -> bool:
        """Whether anything wanted is reached."""
        if self.wanted(value) or type(value) in ATOMS:
            return self.wanted(value)
        return next(self.find(value), None) is not None

    def children(self, value: Any) -> list[tuple[str, Any]]:
        """What a value leads to."""
        if isinstance(value, types.FunctionType):
            return self._of_function(value)
        if isinstance(value, functools.partial):
            return [("", value.func), *_indexed(value.args), *value.keywords.items()]
        if isinstance(value, Rule):
            return [("", value.pair)]
        if isinstance(value, types.MethodType):
            return [("", value.__func__), ("", value.__self__)]
        if type(value) in (list, tuple) or hasattr(value, "_fields"):
            return _indexed(value)
        if isinstance(value, dict):
            return [(f"[{key!r}]", child) for key, child in value.items()]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return [(f".{f.name}", getattr(value, f.name, None)) for f in dataclasses.fields(value)]
        parts = self.expand(value) if self.expand else None
        return parts[0] if parts else []

    def _of_function(self, function: types.FunctionType) -> list[tuple[str, Any]]:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        captured = [(name, cells[name]) for name in mentioned(function.__code__)] if cells else []
        inside = [(name, cell.cell_contents) for name, cell in captured if self._open(cell)]
        given = [("", child) for child in function.__defaults__ or ()]
        return [*inside, *given, *(function.__kwdefaults__ or {}).items(), *vars(function).items()]

    def _open(self, cell: types.CellType) -> bool:
        """Whether to look into a cell: it is filled, and nobody else writes to the container in it."""
        try:
            content = cell.cell_contents
        except ValueError:
            return False
        return id(cell) not in self.closed or self.wanted(content) or not isinstance(content, list | dict | set)

    def put(self, value: Any, change: Callable[[Any], Any], memo: dict[int, Any] | None = None) -> Any:
        """The same value with every wanted one changed; what holds none stays the very same object."""
        memo = {} if memo is None else memo
        if self.wanted(value):
            return change(value)
        if id(value) in memo:
            return memo[id(value)][1]
        if not self.holds(value):
            return value
        if isinstance(value, types.FunctionType):
            return self._copied(value, change, memo)
        made = self._rebuilt(value, lambda child: self.put(child, change, memo))
        # The old value is kept beside the new one, so that its id stays its own.
        memo[id(value)] = (value, made)
        return made

    def _copied(self, function: types.FunctionType, change: Callable[[Any], Any], memo: dict[int, Any]) -> Any:
        """A copy of a function; cells that lead to nothing wanted are shared, so that writing to them still works."""
        old = function.__closure__ or ()
        moved = [self._open(cell) and self.holds(cell.cell_contents) for cell in old]
        cells = tuple(self._cell(cell, memo) if move else cell for cell, move in zip(old, moved, strict=True))
        code, scope = function.__code__, function.__globals__
        made = types.FunctionType(code, scope, function.__name__, function.__defaults__, cells or None)
        memo[id(function)] = (function, made)
        for cell, new, move in zip(old, cells, moved, strict=True):
            if move:
                new.cell_contents = self.put(cell.cell_contents, change, memo)
        made.__defaults__ = tuple(self.put(d, change, memo) for d in function.__defaults__ or ()) or None
        made.__kwdefaults__ = {k: self.put(d, change, memo) for k, d in (function.__kwdefaults__ or {}).items()} or None
        vars(made).update({k: self.put(v, change, memo) for k, v in vars(function).items()})
        return made

    @staticmethod
    def _cell(cell: types.CellType, memo: dict[int, Any]) -> types.CellType:
        if id(cell) not in memo:
            memo[id(cell)] = (cell, types.CellType())
        return memo[id(cell)][1]

    def _rebuilt(self, value: Any, new: Callable[[Any], Any]) -> Any:
        if isinstance(value, functools.partial):
            return functools.partial(
                new(value.func), *map(new, value.args), **{k: new(v) for k, v in value.keywords.items()}
            )
        if isinstance(value, Rule):
            made = copy.copy(value)
            made.pair = made.__wrapped__ = new(value.pair)
            return made
        if isinstance(value, types.MethodType):
            return types.MethodType(new(value.__func__), new(value.__self__))
        if hasattr(value, "_fields"):
            return type(value)(*map(new, value))
        if type(value) in (list, tuple):
            return type(value)(map(new, value))
        if isinstance(value, dict):
            made = copy.copy(value)
            made.update({key: new(child) for key, child in value.items()})
            return made
        if dataclasses.is_dataclass(value):
            made = copy.copy(value)
            for field in dataclasses.fields(value):
                object.__setattr__(made, field.name, new(getattr(value, field.name, None)))
            return made
        parts = self.expand(value) if self.expand else None
        return value if parts is None else parts[1]([new(child) for _, child in parts[0]])


def _indexed(values: Any) -> list[tuple[str, Any]]:
    return [(f"[{i}]", child) for i, child in enumerate(values)]


def _joined(path: str, name: str) -> str:
    """`params` and `['w']` make `params['w']`; a name of an inner function stands for itself."""
    if not name or name.startswith(("[", ".")):
        return path + name
    return name


def cells_of(function: Any) -> frozenset[int]:
    """The ids of the cells that a function shares with whoever defined it."""
    while isinstance(function, functools.partial | types.MethodType):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    return frozenset(id(cell) for cell in getattr(function, "__closure__", None) or ())
