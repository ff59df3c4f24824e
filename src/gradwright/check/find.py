"""Finding the rules in files, directories and modules: by importing them and looking at every name they define."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from gradwright.check.found import Found, found, is_inside_framework, rule_in, shortened
from gradwright.check.written import Written, written_in

SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist", "venv", "env"})


@dataclass(frozen=True)
class Problem:
    """What kept a file, a module or a rule from being looked at, and what to do about it."""

    where: str
    message: str
    repair: str | None = None


@dataclass
class Search:
    """What was found and what could not be looked at."""

    rules: list[Found] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    modules: list[ModuleType] = field(default_factory=list)


def search(targets: tuple[str, ...], inside: bool = False) -> Search:
    """Every rule in the files, directories and dotted modules named; what cannot be imported becomes a problem."""
    result = Search()
    for target in targets:
        for source in sources(target, result):
            module = load(source, result)
            if module is not None:
                result.modules.append(module)
    for module in result.modules:
        known = {id(rule.rule) for rule in result.rules}
        result.rules += [
            r for r in rules_of(module) if id(r.rule) not in known and (inside or not is_inside_framework(r))
        ]
    return result


def sources(target: str, result: Search) -> Iterator[str]:
    """The files of a directory, the file itself, or the dotted module with its submodules."""
    path = Path(target)
    if path.is_dir():
        yield from map(str, files_below(path))
    elif path.is_file():
        yield target
    elif path.suffix == ".py" or os.sep in target:
        result.problems.append(Problem(target, "there is no such file", "gradwright check " + _nearest(path)))
    else:
        yield from submodules(target, result)


def files_below(folder: Path) -> list[Path]:
    """The Python files in a folder and below, in the order of their names, without hidden and built ones."""
    below = (p for p in folder.rglob("*.py") if not any(_skipped(part) for part in p.relative_to(folder).parts))
    unwanted = excluded(folder)
    return sorted(p for p in below if p.name not in ("setup.py", "conftest.py") and not unwanted(p))


def excluded(folder: Path) -> Callable[[Path], bool]:
    """What the nearest `pyproject.toml` leaves out: `[tool.gradwright] exclude = ["examples/wrong"]`.

    A folder that is named on the command line is looked at even if it is left out of the folder around it.
    """
    folder = folder.resolve()
    project = next((p for p in (folder, *folder.parents) if (p / "pyproject.toml").is_file()), None)
    if project is None:
        return lambda path: False
    settings = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    names = settings.get("tool", {}).get("gradwright", {}).get("exclude", [])
    left_out = [project / name for name in names if not folder.is_relative_to(project / name)]
    return lambda path: any(path.resolve().is_relative_to(place) for place in left_out)


def _skipped(part: str) -> bool:
    return part.startswith(".") or part in SKIPPED_FOLDERS


def _nearest(path: Path) -> str:
    folder = next((p for p in path.parents if p.is_dir()), Path("."))
    return str(folder)


def submodules(name: str, result: Search) -> Iterator[str]:
    """A dotted module, and if it is a package everything in it."""
    yield name
    package = sys.modules.get(name)
    for info in pkgutil.walk_packages(getattr(package, "__path__", []), name + ".", onerror=lambda _: None):
        if not info.name.endswith("__main__"):
            yield info.name


def load(source: str, result: Search) -> ModuleType | None:
    """Import a file or a dotted module; an error in it is noted with the line it stands at."""
    try:
        with _its_own_argv(source):
            return load_file(Path(source)) if os.path.isfile(source) else _load_dotted(source)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may also leave by sys.exit
        result.problems.append(unimportable(source, error))
        return None


@contextlib.contextmanager
def _its_own_argv(source: str) -> Iterator[None]:
    """A file that reads its arguments when it is imported finds none, not those of the command line that imports it."""
    kept = sys.argv
    sys.argv = [source]
    try:
        yield
    finally:
        sys.argv = kept


def _load_dotted(name: str) -> ModuleType:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)


def load_file(path: Path) -> ModuleType:
    """Import a file: as part of its package if it lies in one, else alone with its folder on the path."""
    path = path.resolve()
    root, name = package_of(path)
    if root is not None:
        _on_path(str(root))
        return importlib.import_module(name)
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    # Files of one name in two folders must not shadow each other, nor a module of the standard library.
    name = name if loaded is None and importlib.util.find_spec(name) is None else f"{name}_{abs(hash(str(path))):x}"
    _on_path(str(path.parent))
    return _execute(name, path)


def _execute(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def package_of(path: Path) -> tuple[Path | None, str]:
    """The folder that must be on the path (None for a file on its own) and the dotted name of a file."""
    parts, folder = [] if path.name == "__init__.py" else [path.stem], path.parent
    while (folder / "__init__.py").exists() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    return (folder if folder != path.parent else None), ".".join(parts)


def _on_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def unimportable(source: str, error: BaseException) -> Problem:
    """The problem of a file that cannot be imported, with the innermost line of the user's that failed."""
    fact = f"cannot be imported: {type(error).__name__}: {first_line(error)}"
    if isinstance(error, SyntaxError):
        return Problem(f"{source}:{error.lineno}", fact)
    if isinstance(error, ModuleNotFoundError) and error.name == source.partition(".")[0]:
        return Problem(source, "there is no such file, directory or module", "gradwright check path/to/file.py")
    lines = [
        f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename and __file__ != f.filename
    ]
    mine = [f for f in lines if os.path.abspath(f.filename) == os.path.abspath(source)] or lines
    return Problem(f"{shortened(mine[-1].filename)}:{mine[-1].lineno}" if mine else source, fact)


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip() or "no message").splitlines()[0]


def rules_of(module: ModuleType) -> list[Found]:
    """The rules that a module defines: bare, in lists and dicts, in classes and on their instances."""
    seen: dict[int, Found] = {}
    for name, value in list(vars(module).items()):
        if not name.startswith("__") and not _imported(module, name, value):
            for rule in _rules_in(value, module):
                seen.setdefault(id(rule.rule), rule)
    bound = {r.function.__func__ for r in seen.values() if inspect.ismethod(r.function)}
    mine = [r for r in seen.values() if not (r.owner and r.function in bound)]
    return sorted(mine, key=lambda r: (r.file != getattr(module, "__file__", ""), r.line))


def _imported(module: ModuleType, name: str, value: Any) -> bool:
    """Whether a name only came from another module, where it will be found if that one is asked for."""
    if inspect.ismodule(value):
        return True
    home = getattr(value, "__module__", None)
    return home != module.__name__ and getattr(sys.modules.get(home or ""), name, None) is value


def _rules_in(value: Any, module: ModuleType, depth: int = 3) -> Iterator[Found]:
    rule = rule_in(value)
    if rule is not None:
        yield found(rule)
    elif inspect.isclass(value):
        yield from _rules_of_class(value) if value.__module__ == module.__name__ else ()
    elif isinstance(value, (list, tuple, set, frozenset, dict)) and depth:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _rules_in(item, module, depth - 1)
    elif type(value).__module__ == module.__name__:
        yield from _rules_of_instance(value)


def _rules_of_class(kind: type) -> Iterator[Found]:
    for value in vars(kind).values():
        rule = rule_in(value)
        if rule is not None:
            yield found(rule, None if isinstance(value, staticmethod) else kind)


def _rules_of_instance(value: Any) -> Iterator[Found]:
    for name, attribute in vars(type(value)).items():
        if rule_in(attribute) is not None:
            yield found(rule_in(getattr(value, name)))
    for attribute in list(getattr(value, "__dict__", {}).values()):
        rule = rule_in(attribute) if callable(attribute) else None
        if rule is not None:
            yield found(rule)


def unreached(result: Search) -> list[tuple[ModuleType, Written]]:
    """Rules that stand in a searched file's text but are made only when some function runs: not found yet."""
    known = {(os.path.abspath(rule.file), rule.line) for rule in result.rules}
    return [
        (module, rule)
        for module in result.modules
        for rule in written_in(getattr(module, "__file__", None) or "")
        if rule.maker and (os.path.abspath(module.__file__ or ""), rule.line) not in known
    ]
