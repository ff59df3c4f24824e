"""Is a function linear? Tried once for each kind of call, at random inputs of the same shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwright import tree
from gradwright.backends import backend_of
from gradwright.forms.calls import Call, is_leaf

TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float16": 3e-2, "bfloat16": 1e-1}
STAND_IN = 3  # for a size that is not known yet


class Linearity:
    """What has been found out about one function, by the shapes and dtypes of its arguments."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.known: dict[Any, str | None] = {}

    def broken(self, call: Call) -> str | None:
        """Say how the function fails to be linear, or None where it is, or cannot be tried now."""
        b = backend_of(*(call.leaves[i] for i in call.tensors))
        sizes = [b.static(call.leaves[i]) for i in call.floats]
        others = [leaf for i, leaf in enumerate(call.leaves) if i not in call.floats]
        others += tree.flatten(call.kwargs, is_leaf)[0]
        if not call.floats or None in sizes or any(map(b.is_traced, others)) or not b.can_try(call.leaves):
            return None
        names = [b.dtype_name(call.leaves[i]) for i in call.floats]
        key = (tuple(sizes), tuple(names))
        if key not in self.known:
            if len(self.known) > 64:
                self.known.clear()
            self.known[key] = b.out_of_graph(lambda: self._tried(call, b, sizes, names))
        return self.known[key]

    def _tried(self, call: Call, b: Any, sizes: list[Any], names: list[str]) -> str | None:
        draw = np.random.default_rng(0)
        shapes = [[STAND_IN if n is None else n for n in size] for size in sizes]
        one, two = ([_normal(draw, s, n) for s, n in zip(shapes, names, strict=True)] for _ in range(2))

        def run(values: list[Any]) -> list[Any]:
            tensors = [b.made(v, n) for v, n in zip(values, names, strict=True)]
            leaves = list(call.leaves)
            for place, tensor in zip(call.floats, tensors, strict=True):
                leaves[place] = tensor
            out = tree.flatten(self.function(*tree.unflatten(call.spec, leaves), **call.kwargs), is_leaf)[0]
            return [_wide(o) for o in out if is_leaf(o)]

        zero, first, second = run([0 * v for v in one]), run(one), run(two)
        if any(np.any(z != 0) for z in zero):
            return "it does not map zero to zero"
        both = run([w - 2.5 * v for v, w in zip(one, two, strict=True)])
        tolerance = max(TOLERANCE.get(n, 1e-3) for n in names)
        for got, a, c in zip(both, first, second, strict=True):
            scale = max(np.max(np.abs(v), initial=0.0) for v in (got, a, c))
            if np.max(np.abs(got - (c - 2.5 * a)), initial=0.0) > tolerance * scale:
                return "f(y - 2.5 x) differs from f(y) - 2.5 f(x)"
        return None


def _normal(draw: np.random.Generator, shape: list[int], name: str) -> np.ndarray:
    value = draw.normal(size=shape)
    return value + 1j * draw.normal(size=shape) if "complex" in name else value


def _wide(value: Any) -> np.ndarray:
    value = np.asarray(value)
    return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
