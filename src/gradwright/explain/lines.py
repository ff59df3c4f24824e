"""Whose line is this? Frames and stack traces read for the user's own file and line."""

from __future__ import annotations

import ast
import inspect
import os
import sysconfig
import textwrap
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import CodeType, FrameType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = tuple({os.path.realpath(sysconfig.get_path(k)) + os.sep for k in ("stdlib", "platstdlib")})
_FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "numpy", "gradwright", "wrapt", "absl")
GENERATED = "__autograph_generated_file"
INSIDE, LIBRARY, USER = 0, 1, 2


@lru_cache(maxsize=4096)
def rank(filename: str) -> int:
    """How near a file is to the user: 2 their own, 1 some library, 0 the machinery (framework, Python, us).

    >>> from gradwright.explain.lines import rank
    >>> rank("/home/ada/train.py"), rank(__import__("contextlib").__file__)
    (2, 0)
    """
    if filename.startswith(("<frozen", "<__array_function__")) or GENERATED in filename:
        return INSIDE
    if filename.startswith("<"):  # typed at a prompt, or compiled from a string
        return USER
    path = os.path.realpath(filename)
    for site in ("site-packages" + os.sep, "dist-packages" + os.sep):
        if site in path:
            top = path.split(site, 1)[1].split(os.sep, 1)[0].removesuffix(".py")
            return INSIDE if top in _FRAMEWORKS else LIBRARY
    return INSIDE if path.startswith((_PACKAGE, *_STDLIB)) else USER


def spell(filename: str, line: int) -> str:
    """A place as it is written in every message.

    >>> from gradwright.explain.lines import spell
    >>> spell("/home/ada/train.py", 12)
    'train.py:12'
    """
    return f"{os.path.basename(filename)}:{line}"


Origin = Callable[[FrameType], tuple[str, int] | None]


def of_frame(
    frame: FrameType | None, stop: CodeType | None = None, otherwise: str = "", origin: Origin = lambda frame: None
) -> str:
    """The innermost line of the user's that led to `frame`; `otherwise` if the walk reaches the code `stop`.

    `origin` tells for a frame of rewritten code which line it was written on.
    """
    library = ""
    while frame is not None:
        code = frame.f_code
        if code is stop:
            return otherwise
        if GENERATED in code.co_filename and (written := origin(frame)) and rank(written[0]) == USER:
            return spell(*written)
        nearness = rank(code.co_filename)
        if nearness == USER:
            return spell(code.co_filename, frame.f_lineno)
        if nearness == LIBRARY and not library:
            library = spell(code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return library or otherwise


def of_trace(trace: Iterable | None) -> str:
    """The same for a stored stack trace (outermost frame first), as graph operations keep it; loaded ones have none."""
    library = ""
    for entry in reversed(list(trace or ())):
        nearness = rank(entry.filename)
        if nearness == USER:
            return spell(entry.filename, entry.lineno)
        if nearness == LIBRARY and not library:
            library = spell(entry.filename, entry.lineno)
    return library


def of_function(function: object) -> str:
    """The line where a Python function is defined; empty if it has none."""
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    return spell(code.co_filename, code.co_firstlineno) if code is not None else ""


def of_return(function: object) -> str:
    """The line on which a function returns, if there is only one; else where it is defined."""
    place = of_function(function)
    try:
        text, first = inspect.getsourcelines(function)  # type: ignore[arg-type]
        tree = ast.parse(textwrap.dedent("".join(text)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return place
    returns = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
    if len(returns) != 1 or getattr(function, "__name__", "") == "<lambda>":
        return place
    return spell(place.rsplit(":", 1)[0], first + returns[0].lineno - 1)
