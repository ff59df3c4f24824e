"""Rules as they stand in the text of a file, also those that exist only while some function runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Written:
    """A rule in the source: its name, the line of its `def`, the outermost function that makes it ("" if none)."""

    name: str
    line: int
    maker: str


def rules_written(text: str) -> list[Written]:
    """The functions decorated with, or handed to, something called `custom_gradient`.

    >>> rules_written("def make(k):\\n  @tf.custom_gradient\\n  def scaled(x): ...\\n  return scaled")
    [Written(name='scaled', line=3, maker='make')]
    """
    return list(_walk(ast.parse(text), (), ""))


def _walk(node: ast.AST, classes: tuple[str, ...], maker: str) -> Iterator[Written]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any(map(_is_decorator, child.decorator_list)):
                yield Written(child.name, child.lineno, maker)
            # The outermost function is the one that can be called from outside.
            yield from _walk(child, classes, maker or ".".join((*classes, child.name)))
        elif isinstance(child, ast.ClassDef):
            yield from _walk(child, (*classes, child.name), maker)
        else:
            if isinstance(child, ast.Call) and _is_decorator(child) and child.args:
                yield Written(_name(child.args[0]), child.args[0].lineno, maker)
            yield from _walk(child, classes, maker)


def _is_decorator(node: ast.AST) -> bool:
    node = node.func if isinstance(node, ast.Call) else node
    return _name(node) == "custom_gradient"


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else "<lambda>" if isinstance(node, ast.Lambda) else ""


def written_in(file: str) -> list[Written]:
    """The rules in a file's text; none where it has no text that can be read."""
    try:
        return rules_written(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return []
