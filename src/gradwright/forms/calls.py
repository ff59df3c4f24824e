"""What the forms share: a rule that speaks of the user's own function, and the names of a call's arguments."""

from __future__ import annotations

import inspect
import site
import sys
from collections.abc import Callable
from typing import Any

from gradwright.rule import Options, Rule, place_of

_LIBRARIES = (*(site.getsitepackages() if hasattr(site, "getsitepackages") else ()), sys.prefix + "/lib")


class Form(Rule):
    """A rule whose pair was put together from other functions of the user; it is named and placed by those."""

    def __init__(self, pair: Callable[..., Any], function: Callable[..., Any], options: Options, *others: Any):
        signature = signature_of(function)
        if signature is not None:
            pair.__signature__ = signature  # type: ignore[attr-defined]
        pair.__name__ = pair.__qualname__ = getattr(function, "__name__", type(function).__name__)
        pair.__doc__ = function.__doc__
        pair.__module__ = getattr(function, "__module__", None) or pair.__module__
        super().__init__(pair, options)
        self.where = place_of_first([function, *others])


def place_of_first(functions: list[Any]) -> str:
    """The place of the first function that the user wrote, rather than a library."""
    flat = [f for group in functions for f in (group if isinstance(group, list | tuple) else [group]) if callable(f)]
    own = [f for f in flat if not _of_a_library(f)]
    return place_of((own or flat)[0])


def _of_a_library(function: Any) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is None or code.co_filename.startswith(_LIBRARIES)


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature, where Python knows it."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def named_values(signature: inspect.Signature | None, args: tuple, kwargs: dict, defaults: bool = False) -> dict:
    """The arguments of a call by name and in order; an element of `*xs` is named `xs[0]`."""
    if signature is None:
        return {f"args[{i}]": a for i, a in enumerate(args)} | kwargs
    bound = signature.bind(*args, **kwargs)
    if defaults:
        bound.apply_defaults()
    values: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            values |= {f"{name}[{i}]": v for i, v in enumerate(value)}
        elif kind is inspect.Parameter.VAR_KEYWORD:
            values |= value
        else:
            values[name] = value
    return values
