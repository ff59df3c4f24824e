"""The few functions that the formulas of `gw.ops` are written in, under one name in every framework."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from gradwright.backends import table_of


def maths_of(*values: Any) -> ModuleType:
    """Give the table of the first framework met; plain values go to TensorFlow, the home ground."""
    return table_of(__name__, *values)
