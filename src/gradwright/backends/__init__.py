"""Whose tensor is this? One small table of functions a framework, imported when its first tensor arrives."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any

HOMES = {
    "tensorflow": "_tensorflow",
    "keras": "_tensorflow",
    "jax": "_jax",
    "jaxlib": "_jax",
    "torch": "_torch",
}


@functools.lru_cache(maxsize=256)
def root_of(kind: type) -> str | None:
    """Give the framework's package that a type comes from, or None for plain Python and numpy types."""
    roots = (base.__module__.partition(".")[0] for base in kind.__mro__)
    return next((root for root in roots if root in HOMES), None)


@functools.lru_cache(maxsize=16)
def _table(package: str, root: str) -> ModuleType:
    return importlib.import_module(f"{package}.{HOMES[root]}")


def table_of(package: str, *values: Any) -> ModuleType:
    """Give a package's table for the first framework met; plain values go to TensorFlow, the home ground."""
    for value in values:
        root = root_of(type(value))
        if root:
            return _table(package, root)
    return _table(package, "tensorflow")


def backend_of(*values: Any) -> ModuleType:
    """Give the table of array functions of the first framework met."""
    return table_of(__name__, *values)
