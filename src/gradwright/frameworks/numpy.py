"""The seam where no framework is involved: arrays and numbers, for `gw.fit` and rules called on plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwright.fit import AtRunTime, plan
from gradwright.pullback import Fitted
from gradwright.rule import Rule
from gradwright.space import Space, narrows


class NumPy:
    """Arrays: shapes and sums, no recording."""

    name = "numpy"

    def is_leaf(self, value: Any) -> bool:
        """Whether a value is an array."""
        return isinstance(value, np.ndarray)

    is_tensor = is_leaf

    def to_tensor_argument(self, value: Any) -> Any:
        """Arrays stay arrays."""
        return value

    to_output = to_tensor_argument

    def space(self, value: Any) -> Space:
        """The facts about an array."""
        value = np.asarray(value)
        return Space(value.shape, value.dtype.name)

    def shape_at_run_time(self, value: Any) -> Any:
        """The shape, which is always known."""
        return np.shape(value)

    def fit(
        self,
        gradient: Any,
        space: Space,
        complex: str = "refuse",
        strict: bool = False,
        at: AtRunTime | None = None,
    ) -> Fitted:
        """Carry out the plan on arrays."""
        if gradient is None or space.kind == "none":
            return Fitted(None)
        gradient = np.asarray(gradient, space.dtype if isinstance(gradient, float) else None)
        made = plan(self.space(gradient), space, complex, strict)
        if made.real_part:
            gradient = gradient.real
        if made.cast and not narrows(gradient.dtype.name, made.cast):
            gradient = gradient.astype(made.cast)
        if made.axes:
            gradient = gradient.sum(axis=made.axes).reshape(made.shape)
        return Fitted(gradient.astype(made.cast, copy=False) if made.cast else gradient, made.repairs)

    def call(self, rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the forward; nobody differentiates arrays."""
        rule._seam = None
        return rule.forward(*args, **kwargs)


seam = NumPy()
