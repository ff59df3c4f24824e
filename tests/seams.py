"""A seam to nothing: numbers in a class of their own stand for tensors, so that pure code is tested purely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


class T:
    """A tensor of the toy framework."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name


class V:
    """A variable of the toy framework."""

    def __init__(self, name: str, trainable: bool = True):
        self.name, self.trainable = name, trainable

    def ref(self) -> Ref:
        return Ref(self)


@dataclass(frozen=True)
class Ref:
    variable: Any

    def __hash__(self) -> int:
        return id(self.variable)


class Toy:
    """What signature, matching, captured and outputs ask of a framework."""

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, T | V)

    def is_leaf(self, value: Any) -> bool:
        return isinstance(value, T | V | np.ndarray)

    def to_tensor_argument(self, value: Any) -> Any:
        return T(f"tensor of {value.tolist()}") if isinstance(value, np.ndarray) else value

    def to_output(self, value: Any) -> Any:
        return T(f"tensor of {value}") if isinstance(value, float) else value

    def is_trainable(self, variable: Any) -> bool:
        return variable.trainable

    def variable_name(self, variable: Any) -> str:
        return variable.name

    def variable_of_key(self, key: Any) -> Any:
        key = key.variable if isinstance(key, Ref) else key
        return key if isinstance(key, V) else None


seam = Toy()
