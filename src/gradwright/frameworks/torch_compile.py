"""torch.compile: a rule leaves the compiled graph, runs as it does outside, and comes back."""

from __future__ import annotations

from typing import Any

import torch

from gradwright.rule import Rule


def leave(rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a call outside the graph that is being compiled."""
    return _outside(rule, args, kwargs)


def _called(rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return rule(*args, **kwargs)


_outside = torch.compiler.disable(_called, reason="a gradwright rule runs outside the compiled graph")
