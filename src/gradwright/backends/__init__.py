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


@functools.lru_cache(maxsize=8)
def _table(root: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{HOMES[root]}")


def backend_of(*values: Any) -> ModuleType:
    """Give the table of the first framework met; plain values go to TensorFlow, the home ground."""
    for value in values:
        root = root_of(type(value))
        if root:
            return _table(root)
    return _table("tensorflow")
