"""One entry: a rule, the arguments to prove it on, and what must be said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Entry:
    """`make()` gives the rule, `args(rng)` its arguments; `labels` must all be named, of `argument` if given."""

    name: str
    make: Callable[[], Any]
    args: Callable[[np.random.Generator], tuple[Any, ...]]
    labels: tuple[str, ...] = ()
    argument: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


WRONG: list[Entry] = []
RIGHT: list[Entry] = []


def wrong(args: Callable[..., Any], *labels: str, argument: str | None = None, **options: Any) -> Callable[..., Any]:
    """Enter a function that makes a wrong rule."""

    def enter(make: Callable[[], Any]) -> Callable[[], Any]:
        WRONG.append(Entry(make.__name__, make, args, labels, argument, options))
        return make

    return enter


def right(args: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Enter a function that makes a right rule."""

    def enter(make: Callable[[], Any]) -> Callable[[], Any]:
        RIGHT.append(Entry(make.__name__, make, args, (), None, options))
        return make

    return enter


def floats(*shapes: tuple[int, ...], dtype: str = "float32", positive: bool = False) -> Callable[..., Any]:
    """Arguments of these shapes, normally distributed or positive."""

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        import tensorflow as tf

        kind = tf.as_dtype(dtype).as_numpy_dtype
        values = [rng.uniform(0.3, 2.0, s) if positive else rng.standard_normal(s) for s in shapes]
        return tuple(tf.constant(np.asarray(v).astype(kind)) for v in values)

    return draw


def complexes(*shapes: tuple[int, ...], dtype: str = "complex64") -> Callable[..., Any]:
    """Complex arguments of these shapes."""

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        import tensorflow as tf

        return tuple(tf.constant((rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(dtype)) for s in shapes)

    return draw
