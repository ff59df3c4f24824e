"""torch.compile: a rule leaves the compiled graph, runs as it does outside, and comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def leave(call: Callable[..., Any], *args: Any) -> Any:
    """Run a call outside the graph that is being compiled."""
    return _outside(call, args)


def _called(call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return call(*args)


_outside = torch.compiler.disable(_called, reason="a gradwright rule runs outside the compiled graph")
