"""Whose tensor is this? One small table of functions a framework, imported when its first tensor arrives."""

from __future__ import annotations

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


def root_of(x: Any) -> str | None:
    """Give the framework's package that made x, or None for plain Python and numpy values."""
    roots = (kind.__module__.partition(".")[0] for kind in type(x).__mro__)
    return next((root for root in roots if root in HOMES), None)


def backend_of(*values: Any) -> ModuleType:
    """Give the table of the first framework met; plain values go to TensorFlow, the home ground."""
    root = next((root for root in map(root_of, values) if root), "tensorflow")
    return importlib.import_module(f"{__name__}.{HOMES[root]}")
