"""Running the user's own program, unchanged, as `python` would."""

from __future__ import annotations

import builtins
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

OWN_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


@contextmanager
def as_main(target: str, args: Sequence[str], is_module: bool) -> Iterator[None]:
    """The command line and the import path that the program expects; ours come back afterwards, and our streams."""
    before = sys.argv, sys.path[:], sys.modules["__main__"], sys.stdout, sys.stderr
    sys.argv = [target, *args]
    sys.path[0:1] = [os.getcwd() if is_module else os.path.dirname(os.path.realpath(target))]
    try:
        yield
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"], sys.stdout, sys.stderr = before


def run(target: str, is_module: bool) -> int:
    """Run a file as `python file` does, or a module as `python -m` does, and return its exit status."""
    folder = os.getcwd()
    try:
        if is_module:
            return exit_status(lambda: runpy.run_module(target, run_name="__main__", alter_sys=True))
        return exit_status(lambda: execute(os.path.abspath(target)))
    finally:
        os.chdir(folder)  # places in the report are told from where the user stands


def execute(path: str) -> None:
    """Execute a file as the program; it stays `__main__` for as long as its rules may ask for it."""
    main = ModuleType("__main__")
    vars(main).update(__file__=path, __builtins__=builtins, __spec__=None, __cached__=None)
    sys.modules["__main__"] = main
    exec(compiled(path), vars(main))


def compiled(path: str) -> CodeType:
    """A file's code, compiled without this file's own `__future__` features."""
    return compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)


def exit_status(program: Callable[[], Any]) -> int:
    """Run to the end and say with which status Python would have left; a traceback is printed as Python prints it."""
    try:
        program()
        status = 0
    except SystemExit as leaving:
        status = status_of(leaving)
    except BaseException as error:  # also KeyboardInterrupt: the report of what was met is still wanted
        sys.stdout.flush()
        trace = without_us(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        status = 130 if isinstance(error, KeyboardInterrupt) else 1
    join_threads()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return status


def status_of(leaving: SystemExit) -> int:
    """The status that Python makes of what was given to `sys.exit`; a text is printed and means 1."""
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    print(leaving.code, file=sys.stderr)
    return 1


def without_us(trace: TracebackType | None) -> TracebackType | None:
    """A traceback that begins in the user's program."""
    start = trace
    while start and (
        start.tb_frame.f_code.co_filename.startswith(OWN_FOLDER) or "runpy" in start.tb_frame.f_code.co_filename
    ):
        start = start.tb_next
    return start or trace


def join_threads() -> None:
    """Wait for the program's own threads, as Python does before it leaves."""
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread() and thread is not threading.main_thread():
            thread.join()


def syntax_problem(path: str) -> str | None:
    """What Python would say against a file before running a line of it; None if nothing."""
    try:
        compiled(path)
    except (SyntaxError, ValueError) as error:
        return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    return None
