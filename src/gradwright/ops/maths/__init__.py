"""The few functions that the formulas of `gw.ops` are written in, under one name in every framework."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any

from gradwright.backends import HOMES, root_of


@functools.lru_cache(maxsize=8)
def _table(root: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{HOMES[root]}")


def maths_of(*values: Any) -> ModuleType:
    """Give the table of the first framework met; plain values go to TensorFlow, the home ground."""
    for value in values:
        root = root_of(type(value))
        if root:
            return _table(root)
    return _table("tensorflow")
