"""Whatever is to be proven, as one thing: named inputs, a forward, and the gradients its rule gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwright.check.code import Code
from gradwright.check.fitted import Fitted, Leaf, fit, no_tensor
from gradwright.check.leaves import Call
from gradwright.check.report import Fault


@dataclass
class Answer:
    """What a rule returned for one upstream: a gradient per leaf, and what was wrong with their form."""

    gradients: list[np.ndarray | None]
    raw: list[np.ndarray | None]
    faults: list[Fault] = field(default_factory=list)
    repairs: list[Fault] = field(default_factory=list)
    dtypes: list[str | None] = field(default_factory=list)


@dataclass
class Opened:
    """One forward run: the differentiable outputs as NumPy arrays, and their pullback."""

    outputs: list[np.ndarray]
    dtypes: list[str]
    pull: Callable[[list[np.ndarray]], Answer]
    inputs: list[Any] = field(default_factory=list)
    pushes: bool = False


class Refused(Exception):
    """The rule could not be applied; carries the fault that says why."""

    @property
    def fault(self) -> Fault:
        """What the report says of it."""
        return self.args[0]


@dataclass
class Subject:
    """The thing to be proven.

    `apply` is the function with its rule, `forward` without; `pair` gives (output, grad) where the rule has that form.
    """

    name: str
    where: str | None
    backend: Any
    call: Call
    apply: Callable[..., Any]
    forward: Callable[..., Any] | None
    pair: Callable[..., Any] | None = None
    rule: Any = None
    strict: bool = True
    surrogate: Any = None
    slots: list[int] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    variables: list[Any] = field(default_factory=list)
    kept: list[tuple[Any, Any]] = field(default_factory=list)
    state: Callable[[], list[tuple[Any, Any]]] = lambda: []

    @property
    def code(self) -> Code:
        """Writes repairs in this subject's framework."""
        return Code(self.backend.name)

    @property
    def arguments(self) -> list[Leaf]:
        """The leaves that are arguments, not variables."""
        return self.leaves[: len(self.slots)]

    def values(self) -> list[np.ndarray]:
        """The user's own point, in double precision."""
        return [wide(self.backend.numpy(leaf.like)) for leaf in self.leaves]

    def tensors(self, values: list[np.ndarray], precise: bool) -> list[Any]:
        """The arguments' leaves as tensors, in their own dtype or in double precision."""
        return [
            self.backend.tensor(value, leaf.like, double(leaf.dtype) if precise else leaf.dtype)
            for leaf, value in zip(self.arguments, values, strict=False)
        ]

    def fill(self, tensors: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The user's call with these tensors in the differentiable slots."""
        values = [slot.value for slot in self.call.slots]
        for index, tensor in zip(self.slots, tensors, strict=True):
            values[index] = tensor
        return self.call.fill(values)

    def over(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """`fn` as a function of the differentiable leaves alone."""

        def of_leaves(*tensors: Any) -> Any:
            args, kwargs = self.fill(list(tensors))
            return fn(*args, **kwargs)

        return of_leaves

    def fitted(self, gradients: list[Any]) -> Answer:
        """Raw gradients, one a leaf, brought into their inputs' shapes; faults are marked with their rule's place."""
        rows = [self._fit(leaf, raw) for leaf, raw in zip(self.leaves, gradients, strict=True)]
        faults = [row.fault for row in rows if row.fault] + [r.repair for r in rows if r.repair and self.strict]
        repairs = [row.repair for row in rows if row.repair and not self.strict]
        dtypes = [None if raw is None else _dtype_name(self.backend, raw) for raw in gradients]
        return Answer([row.value for row in rows], [row.raw for row in rows], faults, repairs, dtypes)

    def _fit(self, leaf: Leaf, raw: Any) -> Fitted:
        if raw is None:
            return Fitted(None, None)
        try:
            array = self.backend.numpy(raw)
        except Exception:
            array = None
        if array is None or array.dtype.kind not in "fciubV":
            raise Refused(no_tensor(leaf, raw))
        return fit(leaf, array, _dtype_name(self.backend, raw) or leaf.dtype, self.code)


def _dtype_name(backend: Any, raw: Any) -> str | None:
    # A python number has no dtype of its own: it takes the input's.
    return backend.dtype(raw) if hasattr(raw, "dtype") else None


def wide(array: np.ndarray) -> np.ndarray:
    """`array` in double precision, real or complex."""
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def double(dtype: str) -> str:
    """The double precision dtype of the same kind."""
    return "complex128" if dtype.startswith("complex") else "float64"
