"""Whose tensor is this? A framework is touched only if it is already imported."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

NAMES = ("tensorflow", "jax", "torch")


def adapter(name: str) -> Any:
    """The seam to one framework, loaded when first needed."""
    if name == "tensorflow":
        from gradwright.frameworks import tensorflow as module
    elif name == "jax":
        from gradwright.frameworks import jax as module
    elif name == "torch":
        from gradwright.frameworks import torch as module
    else:
        from gradwright.frameworks import numpy as module
    return module.seam


def owner(value: Any) -> str | None:
    """The framework a value belongs to, by the module of its type: "tensorflow", "jax", "torch" or None.

    >>> owner(3.0) is None
    True
    """
    root = type(value).__module__.partition(".")[0]
    if root in ("tensorflow", "keras"):
        return "tensorflow" if "tensorflow" in sys.modules else _keras_backend()
    if root in ("jax", "jaxlib"):
        return "jax"
    return root if root == "torch" else None


def _keras_backend() -> str | None:
    keras = sys.modules.get("keras")
    return keras.backend.backend() if keras is not None else None


def of(values: Iterable[Any]) -> Any:
    """The seam to the framework of the first value that has one; numpy's where none has."""
    for value in _flat(values):
        name = owner(value)
        if name in NAMES:
            return adapter(name)
    return adapter("numpy")


def of_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The seam for a call: the framework of its arguments, or else the one that the function itself speaks of."""
    for value in _flat([*args, *kwargs.values()]):
        name = owner(value)
        if name in NAMES:
            return adapter(name)
    from gradwright.frameworks.named import named_in

    return adapter(named_in(function) or "numpy")


def _flat(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, dict):
            yield from _flat(value.values())
        elif isinstance(value, list | tuple):
            yield from _flat(value)
        elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
            yield from _flat(getattr(value, name, None) for name in value.__dataclass_fields__)
        else:
            yield value


def with_variables_by_autodiff(function: Callable[..., Any]) -> Callable[..., Any]:
    """A rule that answers for its inputs only, made into one whose captured variables get the framework's gradient."""

    @functools.wraps(function)
    def pair(*args: Any, **kwargs: Any) -> Any:
        seam = of_call(function, args, kwargs)
        return seam.variables_by_autodiff(function, args, kwargs)

    return pair
