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

    def modes(self) -> dict[str, tuple[str, Callable[..., list[Any]]]]:
        """There is one way to call a NumPy function."""
        return {"eager": ("a plain call", self._no_mode)}

    def _no_mode(self, *given: Any) -> list[Any]:
        raise TypeError("NumPy has no autodiff")

    def second(self, fn: Any, xs: list[Any], upstreams: list[Any], tangents: list[Any]) -> tuple[list[Any], list[Any]]:
        """There is no second order without autodiff."""
        raise TypeError("NumPy has no autodiff")

    def forward(self, fn: Any, xs: list[Any], tangents: list[Any]) -> list[Any]:
        """There is no forward mode without autodiff."""
        raise TypeError("NumPy has no autodiff")

    def variable_name(self, variable: Any) -> str:
        """No variables."""
        return ""

    def write(self, variable: Any, value: np.ndarray) -> None:
        """No variables."""

    def seed(self, seed: int) -> None:
        """NumPy's own generator is seeded for every framework."""

    def state_of(self, f: Any) -> Callable[[], list[tuple[Any, Any]]]:
        """A function that gives what a layer changes by being called: pairs of a variable and its value."""
        return list

    def restore(self, state: list[tuple[Any, Any]]) -> None:
        """Put such a state back."""

    def random_state(self) -> Any:
        """What `restore_random_state` needs."""

    def restore_random_state(self, state: Any) -> None:
        """Let random numbers go on as before the check."""
