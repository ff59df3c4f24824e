"""The bench a subject is examined on: evaluates it, as precisely as it allows, and counts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradwright.check.numeric import epsilon
from gradwright.check.openers import open_subject
from gradwright.check.subject import Opened, Subject, double, wide

Arrays = list[np.ndarray]


class Bench:
    """Evaluates forward, rule and reference of one subject on NumPy arrays."""

    def __init__(self, subject: Subject, reference: Callable[..., Any] | None = None):
        self.subject = subject
        self.other = reference
        self.counts = {"forward": 0, "rule": 0, "reference": 0}
        self.precise = False
        self.lifted: Any = None
        self.seed: int | None = None

    @property
    def native_eps(self) -> float:
        """The rounding unit of the coarsest input."""
        return max((epsilon(leaf.dtype) for leaf in self.subject.leaves), default=epsilon("float32"))

    @property
    def rule_eps(self) -> float:
        """The rounding unit the rule computes in."""
        return epsilon("float64") if self.precise else self.native_eps

    @property
    def forward_eps(self) -> float:
        """The rounding unit of `forward`."""
        return epsilon("float64") if self.precise or self.lifted else self.native_eps

    def open(self, values: Arrays, precise: bool | None = None) -> Opened:
        """Run the subject with its rule; each pull is counted."""
        self.counts["forward"] += 1
        self._reseed()
        with self._written(values):
            opened = open_subject(self.subject, values, self.precise if precise is None else precise)
        inner = opened.pull

        def pull(upstreams: Arrays) -> Any:
            self.counts["rule"] += 1
            with self._written(values):
                return inner(upstreams)

        return Opened(opened.outputs, opened.dtypes, pull)

    def forward(self, values: Arrays) -> Arrays:
        """The differentiable outputs, in the best precision there is."""
        self.counts["forward"] += 1
        self._reseed()
        if self.lifted:
            return self.lifted.forward(values)
        subject = self.subject
        with self._written(values):
            tensors = subject.tensors(values, self.precise)
            args, kwargs = subject.fill(tensors)
            flat = subject.backend.flatten((subject.forward or subject.apply)(*args, **kwargs))
            return [wide(subject.backend.numpy(t)) for t in flat if _live(subject, t)]

    def reference(self, values: Arrays, upstreams: Arrays) -> list[np.ndarray | None]:
        """The framework's own derivative of the forward (or of the named reference), pulled back."""
        self.counts["reference"] += 1
        self._reseed()
        if self.lifted:
            return self.lifted.gradients(values, upstreams)
        subject, backend = self.subject, self.subject.backend
        fn = subject.over(self.other or subject.forward or subject.apply)
        with self._written(values):
            outputs, pull = backend.vjp(fn, subject.tensors(values, self.precise), subject.variables)
            given = iter(upstreams)
            full = [backend.tensor(next(given), t, backend.dtype(t)) if _live(subject, t) else None for t in outputs]
            gradients = pull(full)
        return [None if g is None else wide(backend.numpy(g)) for g in gradients]

    def choose_precision(self, values: Arrays, outputs: Arrays) -> str | None:
        """Use double precision if the subject computes in it; say why not, if not."""
        leaves = self.subject.leaves
        if all(double(leaf.dtype) == leaf.dtype for leaf in leaves):
            self.precise = True
            return None
        if any(double(v.dtype) != v.dtype for v in leaves[len(self.subject.slots) :]):
            return "it reads variables of lower precision"
        return self._try_precise(values, outputs)

    def _try_precise(self, values: Arrays, outputs: Arrays) -> str | None:
        try:
            opened = self.open(values, precise=True)
        except Exception as error:
            return f"it does not run in float64 ({type(error).__name__})"
        if any(double(dtype) != dtype for dtype in opened.dtypes):
            return "its outputs stay in lower precision when the inputs are float64"
        if not all(close(a, b, self.native_eps) for a, b in zip(opened.outputs, outputs, strict=True)):
            return "it computes something else in float64"
        self.precise = True
        return None

    def intermediates(self, values: Arrays) -> list[tuple[str, np.ndarray]]:
        """The values inside the forward, where the framework can show them."""
        return self._graph(values).intermediates(values) if self._graph(values) else []

    def branches(self, values: Arrays, upstreams: Arrays, leaf: int) -> list[tuple[str, np.ndarray]]:
        """The gradient through each use that the forward makes of a leaf, where the framework can tell them apart."""
        return self._graph(values).branches(values, upstreams, leaf) if self._graph(values) else []

    def _graph(self, values: Arrays) -> Any:
        return None

    def _reseed(self) -> None:
        if self.seed is not None:
            self.subject.backend.seed(self.seed)

    @contextlib.contextmanager
    def _written(self, values: Arrays) -> Iterator[None]:
        """Captured variables hold their part of `values` inside; their own values come back in any case."""
        subject = self.subject
        wanted = values[len(subject.slots) :]
        changed = [
            (variable, subject.backend.numpy(leaf_value).copy(), value)
            for variable, leaf_value, value in zip(subject.variables, subject.variables, wanted, strict=True)
            if not np.array_equal(wide(subject.backend.numpy(leaf_value)), value, equal_nan=True)
        ]
        try:
            for variable, _, value in changed:
                subject.backend.write(variable, value)
            yield
        finally:
            for variable, old, _ in changed:
                subject.backend.write(variable, old)


def _live(subject: Subject, tensor: Any) -> bool:
    from gradwright.frameworks.check_tf import differentiable

    return differentiable(subject.backend.dtype(tensor))


def close(a: np.ndarray, b: np.ndarray, eps: float) -> bool:
    """Whether two evaluations of one function in different precision may be the same function."""
    if a.shape != b.shape:
        return False
    scale = float(np.max(np.abs(a))) if a.size else 0.0
    return not a.size or float(np.max(np.abs(a - b))) <= max(0.05, 100 * eps) * scale or not np.isfinite(b).all()
