"""Where a function is written, as messages and tables name it."""

from __future__ import annotations

import functools
import inspect
import os
import types
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
    return f"{os.path.basename(code.co_filename)}:{line_of(code)}"


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
