"""A function without the values it had captured, to be filled again with others: so nothing is kept alive by it."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

from gradwright.frameworks.closures import ATOMS, Walk


class Held:
    """Stands in a closure for a value that is kept elsewhere."""

    __slots__ = ("index",)

    def __init__(self, index: int):
        self.index = index


_HELD = Walk(lambda value: isinstance(value, Held))


class Emptied:
    """A function, emptied.

    Attributes:
        captured: what it had captured, each value once; the caller takes these away.
    """

    __slots__ = ("_cells", "_code", "_name", "_scope", "_template", "captured")

    def __init__(self, function: Any, walk: Walk):
        self._template: Any = None
        places = plain(function, walk)
        if places is not None:
            # The common closure, values in cells and nothing else: no need to walk.
            self._code, self._scope, self._name = function.__code__, function.__globals__, function.__name__
            self.captured = unique([cell.cell_contents for cell, wanted in places if wanted])
            index = {id(value): i for i, value in enumerate(self.captured)}
            self._cells = [(None, index[id(c.cell_contents)]) if wanted else (c, 0) for c, wanted in places]
            return
        self.captured = [value for _, value in walk.find(function)]
        index = {id(value): i for i, value in enumerate(self.captured)}
        self._template = walk.put(function, lambda value: Held(index[id(value)])) if index else function

    def filled(self, values: Sequence[Any]) -> Any:
        """The function again, with these in place of what it had captured."""
        if self._template is not None:
            return _HELD.put(self._template, lambda held: values[held.index])
        cells = tuple(types.CellType(values[i]) if cell is None else cell for cell, i in self._cells)
        return types.FunctionType(self._code, self._scope, self._name, None, cells)


def plain(function: Any, walk: Walk) -> list[tuple[types.CellType, bool]] | None:
    """The cells of a function that has wanted values and plain ones in cells, and nothing else; None for any other."""
    if type(function) is not types.FunctionType or not function.__closure__:
        return None
    if function.__defaults__ or function.__kwdefaults__ or vars(function):
        return None
    places = []
    for cell in function.__closure__:
        try:
            content = cell.cell_contents
        except ValueError:
            return None
        wanted = walk.wanted(content)
        if not wanted and type(content) not in ATOMS:
            return None
        places.append((cell, wanted))
    return places


def unique(values: list[Any]) -> list[Any]:
    """Each value once."""
    return list({id(value): value for value in values}.values())
