"""Which framework a function itself speaks of, when its arguments do not say: by what it has captured and names.

The nearest evidence counts. A tensor that the function holds, also inside containers, says more than a module that it
names; functions and objects that it leads to are looked into after that.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gradwright import frameworks

DEPTH, LIMIT = 4, 2000  # how far from the function, and at how many values in all, to look
_PLAIN = (int, float, complex, str, bytes, type(None))


def named_in(function: Callable[..., Any]) -> str | None:
    """The framework that a function's captured values and names lead to, or else the first that is loaded.

    >>> from gradwright.frameworks.named import named_in
    >>> named_in(lambda x: x) in (None, "tensorflow", "jax", "torch")
    True
    """
    loaded = [name for name in frameworks.NAMES if name in sys.modules]
    if len(loaded) < 2:
        return loaded[0] if loaded else None
    seen: set[int] = set()
    layer = [function]
    for _ in range(DEPTH):
        layer = list(_flat((part for value in layer for part in _parts(value)), seen))
        for evidence in (frameworks.owner, _module_of):
            found = next((name for value in layer if (name := evidence(value)) in loaded), None)
            if found:
                return found
    return loaded[0]


def _flat(values: Iterable[Any], seen: set[int]) -> Iterator[Any]:
    """Values that were not met before, with what containers hold in the containers' place."""
    for value in values:
        if isinstance(value, _PLAIN) or id(value) in seen or len(seen) > LIMIT:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            yield from _flat(list(value.values()), seen)
        elif isinstance(value, list | tuple | set | frozenset):
            yield from _flat(list(value), seen)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from _flat([getattr(value, f.name, None) for f in dataclasses.fields(value)], seen)
        else:
            yield value


def _parts(value: Any) -> list[Any]:
    """What a function or object leads to."""
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, types.FunctionType):
        return _of_function(value)
    if isinstance(value, types.ModuleType | type) or frameworks.owner(value):
        return []
    return [getattr(value, "__dict__", None), *_slots(value)]


def _of_function(function: types.FunctionType) -> list[Any]:
    held = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    names, imports = _mentioned(function.__code__)
    scope = function.__globals__
    modules = [sys.modules.get(name.partition(".")[0]) for name in imports]
    used = [scope[name] for name in names if name in scope]
    return [held, function.__defaults__, function.__kwdefaults__, used, modules, vars(function)]


def _slots(value: Any) -> list[Any]:
    names = getattr(type(value), "__slots__", ())
    return [getattr(value, name, None) for name in ([names] if isinstance(names, str) else names)]


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


@functools.lru_cache(maxsize=1024)
def _mentioned(code: types.CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The globals that a function's lines read and the modules that they import, those of functions inside it too."""
    read = list(dis.get_instructions(code))
    names = [i.argval for i in read if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    imports = [i.argval for i in read if i.opname == "IMPORT_NAME"]
    for inner in (c for c in code.co_consts if isinstance(c, types.CodeType)):
        more, others = _mentioned(inner)
        names, imports = [*names, *more], [*imports, *others]
    return tuple(dict.fromkeys(names)), tuple(dict.fromkeys(imports))


def _module_of(value: Any) -> str | None:
    """The framework that a module is, or that a function or class of it comes from."""
    if isinstance(value, types.ModuleType):
        name = value.__name__
    else:
        name = getattr(value, "__module__", None) if callable(value) else type(value).__module__
    root = (name if isinstance(name, str) else "").partition(".")[0]
    if root == "keras":
        return frameworks._keras_backend() or "tensorflow"
    return "jax" if root == "jaxlib" else root
