"""Plain NumPy functions as the prover sees them: no autodiff, differences alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gradwright.check.leaves import walk


class NumPy:
    """The part of a framework that needs no framework; the others differ from it where they must."""

    name = "numpy"

    def context(self, precise: bool) -> AbstractContextManager[Any]:
        """What must hold while the function runs in double precision: nothing."""
        return nullcontext()

    def is_tensor(self, value: Any) -> bool:
        """Whether a value can be a differentiable input."""
        return isinstance(value, (np.ndarray, np.floating, np.complexfloating))

    def dtype(self, value: Any) -> str:
        """The dtype's plain name."""
        return np.asarray(value).dtype.name

    def numpy(self, value: Any) -> np.ndarray:
        """The numbers of a tensor."""
        return np.asarray(value)

    def tensor(self, value: np.ndarray, like: Any, dtype: str) -> Any:
        """An array of its own, so that a function that writes into its input writes into nothing of ours."""
        return np.array(value, dtype=dtype)

    def scalar(self, value: Any) -> Any:
        """A python number as an array."""
        return np.asarray(value)

    def flatten(self, output: Any) -> list[Any]:
        """The outputs, in order."""
        return [slot.value for slot in walk("", output) if slot.value is not None]

    def spy(self, fn: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """Run `fn`; nothing is captured."""
        return fn(), []

    def vjp(self, fn: Callable[..., Any], tensors: list[Any], variables: list[Any]) -> tuple[list[Any], Callable]:
        """There is none."""
        raise TypeError("NumPy has no autodiff; give a function that returns (output, grad)")

    def variable_name(self, variable: Any) -> str:
        """No variables."""
        return ""

    def write(self, variable: Any, value: np.ndarray) -> None:
        """No variables."""

    def seed(self, seed: int) -> None:
        """Make the legacy global random numbers repeat."""
        np.random.seed(seed)
