"""Where a function is written, as messages and tables name it."""

from __future__ import annotations

import functools
import gc
import inspect
import os
import sys
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any


def place_of(function: Callable[..., Any]) -> str:
    """Where a function is written: "file.py:12" with the line of `def`, past its decorators."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    if code is None:
        return "builtin"
    if GENERATED in code.co_filename:
        return place_before_autograph(code) or "generated"
    return f"{os.path.basename(code.co_filename)}:{line_of(code)}"


# TensorFlow's AutoGraph rewrites a function into a file of this name and runs that instead.
GENERATED = "__autograph_generated_file"


def place_before_autograph(code: types.CodeType) -> str | None:
    """Where the user wrote code that AutoGraph has rewritten, by the source map of the rewritten function that runs."""
    for line in (line_of(code), *range(code.co_firstlineno, code.co_firstlineno + 12)):
        for (file, number), origin in source_map(code.co_filename).items():
            if number == line and file == code.co_filename:
                return f"{os.path.basename(origin.loc.filename)}:{origin.loc.lineno}"
    return None


# Source maps already found, by generated file; finding one means asking the garbage collector.
_maps: OrderedDict[str, dict[Any, Any]] = OrderedDict()
_MAPS_KEPT = 64


def source_map(generated: str) -> dict[Any, Any]:
    """The source map of a generated file: that of the function out of it which is running now."""
    if generated not in _maps:
        found = running_source_map(generated)
        if not found:
            return {}
        _maps[generated] = found
        while len(_maps) > _MAPS_KEPT:
            _maps.popitem(last=False)
    return _maps[generated]


def running_source_map(generated: str) -> dict[Any, Any]:
    """Find the source map at the function of a generated file that is running now."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == generated:
            for holder in gc.get_referrers(frame.f_code):
                found = getattr(holder, "ag_source_map", None)
                if found:
                    return found
        frame = frame.f_back  # type: ignore[assignment]
    return {}


def line_of(code: types.CodeType) -> int:
    """The line of `def` itself; `co_firstlineno` is the first decorator's."""
    first = code.co_firstlineno
    if code.co_name == "<lambda>":
        return first
    import linecache

    for number in range(first, first + 60):
        text = linecache.getline(code.co_filename, number).lstrip()
        if text.startswith(("def ", "async def ")):
            return number
    return first
