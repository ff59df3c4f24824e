"""Inputs for a rule that names none: made to a known signature, or guessed by trying simple ones.

Planning is pure: which shapes to try for how many parameters, and the numbers for one shape. Only `tensor` touches a
framework, the one the rule's own module has loaded.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

UNKNOWN_SIZE = 3
UNKNOWN_RANK = (2, 3)
RANGES = ("signed", "positive", "unit")
"""Tried in this order: numbers of both signs away from zero, then positive ones, then ones inside (0, 1)."""


@dataclass(frozen=True)
class Spec:
    """What is known of a tensor that has no value: its shape (None where unknown), dtype and framework."""

    shape: tuple[int | None, ...] | None
    dtype: str = "float32"
    framework: str = "tensorflow"

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype} of unknown rank"
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.dtype} ({sizes},)" if len(self.shape) == 1 else f"{self.dtype} ({sizes})"


def numbers(shape: tuple[int, ...], dtype: str, span: str, seed: int) -> Any:
    """Numbers of a shape and dtype inside a span, the same for the same seed, never at a kink such as 0 or 1."""
    draw = np.random.default_rng(seed)
    size = draw.uniform(0.15, 0.85, shape) if span == "unit" else draw.uniform(0.3, 1.7, shape)
    sign = draw.choice([-1.0, 1.0], shape) if span == "signed" else 1.0
    if dtype == "bool":
        return draw.uniform(size=shape) < 0.5
    if dtype in ("string", "str", "object"):
        return np.full(shape, "text")
    if "int" in dtype:
        return draw.integers(0, 2, shape)
    if dtype.startswith("complex"):
        return size * sign + 1j * draw.uniform(0.3, 1.7, shape)
    return size * sign


def filled(spec: Spec) -> tuple[int, ...]:
    """A full shape for a spec: unknown sizes are all the same number, since they mostly are one batch."""
    return UNKNOWN_RANK if spec.shape is None else tuple(UNKNOWN_SIZE if s is None else s for s in spec.shape)


def make(spec: Spec, span: str, seed: int) -> Any:
    """A tensor that fits a spec."""
    return tensor(numbers(filled(spec), spec.dtype, span, seed), spec.dtype, spec.framework)


def tensor(values: Any, dtype: str, framework: str) -> Any:
    """A tensor of the framework with these values."""
    if framework == "jax":
        import jax.numpy as jnp

        return jnp.asarray(values, dtype=dtype)
    if framework == "torch":
        import torch

        return torch.as_tensor(np.asarray(values)).to(getattr(torch, dtype))
    from gradwright.frameworks import tf_audit

    return tf_audit.tensor(values, dtype)


def framework_of(function: Any) -> str:
    """The framework whose tensors a function wants: the one its module imports, else one that is loaded."""
    found = {
        getattr(v, "__name__", "").partition(".")[0] for v in vars_of_module(function).values() if inspect.ismodule(v)
    }
    for names in (found, sys.modules):
        for module, framework in (
            ("tensorflow", "tensorflow"),
            ("keras", "tensorflow"),
            ("jax", "jax"),
            ("torch", "torch"),
        ):
            if module in names:
                return framework
    return "tensorflow"


def vars_of_module(function: Any) -> dict[str, Any]:
    """The global names a function sees."""
    return getattr(inspect.unwrap(function), "__globals__", {})


def shape_plans(count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Shapes to try for `count` tensors, simplest first: all alike, then products of matrices, pictures, sequences."""
    for shape in ((2, 3), (3,), (), (3, 3), (2, 3, 4), (1, 8, 8, 3)):
        yield (shape,) * count
    if count == 2:
        yield from (((2, 3), (3, 4)), ((2, 3), (3,)), ((1, 8, 8, 2), (3, 3, 2, 2)), ((3, 3), (3, 2)))
    if count == 3:
        yield from (((2, 3), (3, 4), (4,)), ((2, 3), (3,), (3,)), ((1, 8, 8, 2), (3, 3, 2, 2), (2,)))


@dataclass(frozen=True)
class Guess:
    """Inputs that the rule took, and how to tell the user about them."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    text: str


class NoGuess(Exception):
    """Nothing that was tried fits; the message says what happened with the simplest try."""


def guess(rule: Callable[..., Any], function: Callable[..., Any], bound: bool = False) -> Guess:
    """Inputs that `rule` takes, found by trying; `function` is the user's own, whose parameters are read."""
    wanted, fixed = parameters(function, skip_first=bound)
    framework = framework_of(function)
    first = ""
    for shapes in shape_plans(len(wanted)):
        for span in RANGES:
            values = [tensor(numbers(s, "float32", span, 7 + i), "float32", framework) for i, s in enumerate(shapes)]
            args, kwargs = place(wanted, values, fixed)
            problem = trouble(rule, args, kwargs)
            if problem is None:
                named = ", ".join(f"{p.name} float32 {s}" for p, s in zip(wanted, shapes, strict=True))
                return Guess(args, kwargs, named or "no inputs")
            first = first or problem
    raise NoGuess(first)


def parameters(function: Callable[..., Any], skip_first: bool) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    """The parameters that want a tensor, and values for those whose annotation or name says they want a plain value."""
    found = list(inspect.signature(function).parameters.values())[int(skip_first) :]
    needed = [p for p in found if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    plain = {p.name: plain_value(p) for p in needed}
    return [p for p in needed if plain[p.name] is None], {n: v for n, v in plain.items() if v is not None}


PLAIN_VALUES = {"int": 1, "float": 0.5, "bool": True}
PLAIN_NAMES = {"axis": -1, "dim": -1, "training": True}
NOT_GUESSED = frozenset({"str", "bytes", "Path", "Callable", "type"})
NAMES_NOT_GUESSED = frozenset(
    {"mode", "method", "padding", "reduction", "dtype", "shape", "perm", "fn", "func", "path"}
)


def plain_value(parameter: inspect.Parameter) -> Any:
    """A plain value for a parameter; None if it wants a tensor. Words and functions cannot be guessed."""
    note = parameter.annotation
    kind = note if isinstance(note, str) else "" if note is parameter.empty else getattr(note, "__name__", str(note))
    kind = kind.rpartition(".")[2].partition("[")[0]
    if kind in NOT_GUESSED or (not kind and parameter.name in NAMES_NOT_GUESSED):
        raise NoGuess(f"`{parameter.name}`{f' ({kind})' if kind else ''} cannot be guessed")
    return PLAIN_VALUES.get(kind, PLAIN_NAMES.get(parameter.name) if not kind else None)


def instance(kind: type) -> tuple[Any, str]:
    """An object of a class, and the call that made it: without arguments, or with plain values for those it needs."""
    try:
        needed = [p for p in inspect.signature(kind).parameters.values() if _is_needed(p)]
    except ValueError:  # no signature to read
        needed = []
    values = {p.name: 0.5 if (value := plain_value(p)) is None else value for p in needed}
    text = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return kind(**values), f"{kind.__name__}({text})"


def _is_needed(parameter: inspect.Parameter) -> bool:
    varying = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in varying


def place(
    wanted: list[inspect.Parameter], values: list[Any], fixed: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional values stay positional; keyword-only ones and those that follow a fixed value go by name."""
    args = tuple(v for p, v in zip(wanted, values, strict=True) if p.kind is not p.KEYWORD_ONLY and not fixed)
    if not fixed:
        return args, {p.name: v for p, v in zip(wanted, values, strict=True) if p.kind is p.KEYWORD_ONLY}
    return (), fixed | {p.name: v for p, v in zip(wanted, values, strict=True)}


def trouble(rule: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Why these inputs do not fit, or None when the rule gives finite numbers for them."""
    try:
        output = rule(*args, **kwargs)
    except Exception as error:  # any error of the user's function means only: not these inputs
        return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"
    return None if all(map(_finite, _leaves(output))) else "its output is not finite"


def _leaves(output: Any) -> list[Any]:
    if isinstance(output, dict):
        return [leaf for value in output.values() for leaf in _leaves(value)]
    if isinstance(output, (list, tuple)):
        return [leaf for value in output for leaf in _leaves(value)]
    return [output]


def _finite(leaf: Any) -> bool:
    try:
        leaf = leaf.detach() if hasattr(leaf, "detach") else leaf
        return bool(np.all(np.isfinite(np.asarray(leaf).astype(complex))))
    except Exception:  # a string, a ragged or sparse tensor, one without a value: nothing to say against it
        return not (isinstance(leaf, float) and math.isnan(leaf))
