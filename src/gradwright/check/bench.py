"""The bench a subject is examined on: evaluates it, as precisely as it allows, and counts."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradwright.check.numeric import epsilon, underflow
from gradwright.check.openers import differentiable, open_subject
from gradwright.check.seeds import sow
from gradwright.check.subject import Answer, Opened, Subject, double, wide

Arrays = list[np.ndarray]


class Bench:
    """Evaluates forward, rule and reference of one subject on NumPy arrays."""

    def __init__(self, subject: Subject, reference: Callable[..., Any] | None = None):
        self.subject = subject
        self.other = reference
        self.counts = {"forward": 0, "rule": 0, "reference": 0}
        self.precise = False
        self.precise_rule = False
        self.lifted: Any = None
        self.seed: int | None = None
        self._twin: tuple[Any] | None = None

    @property
    def native_eps(self) -> float:
        """The rounding unit of the coarsest input."""
        return max((epsilon(leaf.dtype) for leaf in self.subject.leaves), default=epsilon("float32"))

    @property
    def rule_eps(self) -> float:
        """The rounding unit the rule computes in."""
        return epsilon("float64") if self.precise_rule else self.native_eps

    @property
    def least(self) -> float:
        """What an output may lose to underflow in the inputs' own precision."""
        return 8 * max((underflow(leaf.dtype) for leaf in self.subject.leaves), default=0.0)

    def floor(self, leaf: int) -> float:
        """What the rule may lose of a leaf's gradient to underflow."""
        return 64 * underflow("float64" if self.precise_rule else self.subject.leaves[leaf].dtype)

    @property
    def forward_eps(self) -> float:
        """The rounding unit of `forward`."""
        return epsilon("float64") if self.precise or self.lifted else self.native_eps

    def open(self, values: Arrays, precise: bool | None = None) -> Opened:
        """Run the subject with its rule; each pull is counted."""
        self.counts["forward"] += 1
        self.reseed()
        precise = self.precise_rule if precise is None else precise
        around = functools.partial(self.subject.backend.context, precise)
        with self._written(values), around():
            opened = open_subject(self.subject, values, precise)
        inner = opened.pull

        def pull(upstreams: Arrays) -> Any:
            self.counts["rule"] += 1
            with self._written(values), around():
                return inner(upstreams)

        return Opened(opened.outputs, opened.dtypes, pull, opened.inputs, opened.pushes)

    def forward(self, values: Arrays) -> Arrays:
        """The differentiable outputs, in the best precision there is."""
        self.counts["forward"] += 1
        self.reseed()
        if self.lifted:
            return self.lifted.forward(values)
        subject = self.subject
        with self._written(values), subject.backend.context(self.precise):
            tensors = subject.tensors(values, self.precise)
            args, kwargs = subject.fill(tensors)
            flat = subject.backend.flatten((subject.forward or subject.apply)(*args, **kwargs))
            return [wide(subject.backend.numpy(t)) for t in flat if _live(subject, t)]

    def forward_complex(self, values: Arrays) -> Arrays:
        """The outputs at complex values of real arguments."""
        self.counts["forward"] += 1
        self.reseed()
        subject, backend = self.subject, self.subject.backend
        with backend.context(True):
            tensors = [
                backend.tensor(v, leaf.like, "complex128") for v, leaf in zip(values, subject.leaves, strict=True)
            ]
            args, kwargs = subject.fill(tensors)
            flat = backend.flatten((subject.forward or subject.apply)(*args, **kwargs))
            return [wide(backend.numpy(t)) for t in flat if _live(subject, t)]

    def reference(self, values: Arrays, upstreams: Arrays) -> list[np.ndarray | None]:
        """The framework's own derivative of the forward (or of the named reference), pulled back."""
        self.counts["reference"] += 1
        self.reseed()
        if self.lifted and self.other is None:
            return self.lifted.gradients(values, upstreams)
        subject, backend = self.subject, self.subject.backend
        fn = subject.over(self.other or subject.forward or subject.apply)
        with self._written(values), backend.context(self.precise):
            outputs, pull = backend.vjp(fn, subject.tensors(values, self.precise), subject.variables)
            given = iter(upstreams)
            full = [backend.tensor(next(given), t, backend.dtype(t)) if _live(subject, t) else None for t in outputs]
            gradients = pull(full)
        return [None if g is None else wide(backend.numpy(g)) for g in gradients]

    def choose_precision(self, values: Arrays, outputs: Arrays, upstreams: Arrays) -> tuple[Opened, Answer] | None:
        """Compute in double precision where the subject allows it; failing that, its forward at least, as a graph.

        Gives the run in double precision that was made to find out, if the rule computes in it too.
        """
        trial = None
        leaves, plain = self.subject.leaves, self.subject.pair is None
        if all(double(leaf.dtype) == leaf.dtype for leaf in leaves):
            self.precise = self.precise_rule = True
        elif all(double(leaf.dtype) == leaf.dtype for leaf in leaves[len(self.subject.slots) :]):
            trial = self._try_precise(values, outputs, upstreams)
        # A plain function may hold other custom gradients: in the graph they are gone, and it judges without them.
        if plain or not self.precise:
            self.lift(values, outputs)
        return trial

    def _try_precise(self, values: Arrays, outputs: Arrays, upstreams: Arrays) -> tuple[Opened, Answer] | None:
        try:
            opened = self.open(values, precise=True)
        except Exception:
            return None
        kept = all(double(dtype) == dtype for dtype in opened.dtypes)
        self.precise = kept and all(map(close, opened.outputs, outputs, [self.native_eps] * len(outputs)))
        answer = self._pulled_precisely(opened, upstreams) if self.precise else None
        self.precise_rule = answer is not None
        return None if answer is None else (opened, answer)

    def _pulled_precisely(self, opened: Opened, upstreams: Arrays) -> Answer | None:
        try:
            answer = opened.pull(upstreams)
        except Exception:
            return None
        return answer if all(dtype is None or double(dtype) == dtype for dtype in answer.dtypes) else None

    def intermediates(self, values: Arrays) -> list[tuple[str, np.ndarray]]:
        """The values inside the forward, where the framework can show them."""
        graph = self._graph()
        return graph.intermediates(values) if graph else []

    def cuts(self, values: Arrays, upstreams: Arrays, leaf: int) -> list[tuple[str, bool, np.ndarray]]:
        """A leaf's gradient with one of the forward's uses cut, where the framework can tell them apart."""
        graph = self._graph()
        return graph.cuts(values, upstreams, leaf) if graph else []

    def lift(self, values: Arrays, outputs: Arrays) -> bool:
        """Evaluate the forward as a double precision graph from now on, if it has one that computes the same."""
        graph = self._graph()
        try:
            same = graph is not None and all(
                map(close, graph.forward(values), outputs, [self.native_eps] * len(outputs))
            )
        except Exception:
            return False
        self.lifted = graph if same else None
        return same

    def _graph(self) -> Any:
        if self._twin is None:
            self._twin = (self._make_graph(),)
        return self._twin[0]

    def _make_graph(self) -> Any:
        subject = self.subject
        make = getattr(subject.backend, "double", None)
        fn = subject.over(subject.forward or subject.apply)
        self.reseed()
        try:
            return make(fn, [leaf.like for leaf in subject.arguments], subject.variables) if make else None
        except Exception:
            return None

    def reseed(self) -> None:
        """Before each evaluation: a layer's own state as it was, and the same random numbers where it draws any."""
        if self.subject.kept:
            self.subject.backend.restore(self.subject.kept)
        if self.seed is not None:
            sow(self.subject.backend, self.seed)

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
    return differentiable(subject.backend.dtype(tensor))


def close(a: np.ndarray, b: np.ndarray, eps: float) -> bool:
    """Whether two evaluations of one function in different precision may be the same function."""
    if a.shape != b.shape:
        return False
    scale = float(np.max(np.abs(a))) if a.size else 0.0
    return not a.size or float(np.max(np.abs(a - b))) <= max(0.05, 100 * eps) * scale or not np.isfinite(b).all()
