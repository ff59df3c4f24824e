"""Which reader looks at which framework's tensors; the simple one, for tensors that can be had as arrays at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from gradwright.errors import ModeError, compose
from gradwright.observe.arrays import statistics
from gradwright.observe.hub import Hub, Reader, Seen
from gradwright.observe.records import Stats


def reader_of(framework: str) -> Reader:
    """The reader of a framework."""
    if framework == "tensorflow":
        from gradwright.frameworks.tf_observe import TensorFlowReader

        return TensorFlowReader()
    if framework == "jax":
        from gradwright.frameworks.jax_observe import JaxReader

        return JaxReader()
    if framework == "torch":
        from gradwright.frameworks.torch_observe import TorchReader

        return TorchReader()
    return ArrayReader()


class ArrayReader:
    """Reads each tensor as an array, at once."""

    def watch(self, hub: Hub, channel: int, pullback: Any, upstreams: list[Any], pulled: Any) -> None:
        """See one backward."""
        takers = hub.takers(channel, pullback.rule, source := place(pullback))
        if takers:
            demand = hub.demand()
            everything, values = demand.everything, demand.values  # type: ignore[union-attr]
            seen = look(pullback, upstreams, pulled, lambda t: self.measure(pullback.rule, t, everything, values))
            seen.source = source
            for log in takers:
                log.add(seen)

    def measure(self, rule: Any, tensor: Any, everything: bool, values: bool) -> Stats:
        """The statistics of a tensor; refused where a program is only being drawn and there are no numbers."""
        try:
            array = self.array(tensor)
        except (RuntimeError, TypeError, ValueError) as error:
            fact = f"gw.observe finds no numbers in a {type(tensor).__name__}: {str(error).splitlines()[0]}"
            raise ModeError(compose(rule.name, rule.where, fact, "observe the program before it is compiled")) from None
        return replace(statistics(array, everything, values), dtype=dtype_name(tensor))

    def array(self, tensor: Any) -> np.ndarray:
        """A tensor as an array."""
        return np.asarray(tensor)

    def begin(self, hub: Hub, channels: Iterable[int]) -> None:
        """Nothing is prepared."""

    def drain(self, hub: Hub) -> None:
        """Nothing waits."""


def dtype_name(tensor: Any) -> str:
    """The plain name of a dtype: `float32`."""
    return str(tensor.dtype).removeprefix("torch.")


def place(pullback: Any) -> Any:
    """What tells the rules of eager calls apart, for thinning."""
    return (pullback.rule.name, pullback.rule.where)


def look(pullback: Any, upstreams: list[Any], pulled: Any, measure: Any) -> Seen:
    """Measure every tensor of a backward; one that is handed on unchanged is measured once."""
    known: dict[int, Stats] = {}

    def once(tensor: Any) -> Any:
        if tensor is None:
            return None
        if id(tensor) not in known:
            known[id(tensor)] = measure(tensor)
        return known[id(tensor)]

    ups = dense(pullback, upstreams)
    gradients = [*pulled.gradients, *pulled.variable_gradients]
    seen = frame(pullback, pulled)
    seen.upstream = pullback.outputs.rebuild([once(u) for u in ups])
    seen.gradients = dict(zip(pullback.names(), [once(g) for g in gradients], strict=True))
    return seen


def dense(pullback: Any, upstreams: list[Any]) -> list[Any]:
    """The upstreams as the rule received them, but never sparse."""
    return [pullback.seam.upstream(u, s, False) for u, s in zip(upstreams, pullback.output_spaces, strict=True)]


def frame(pullback: Any, pulled: Any) -> Seen:
    """What is known of a backward without looking at a number."""
    names = pullback.names()
    spaces = [*pullback.spaces, *pullback.variable_spaces]
    return Seen(
        pullback.rule,
        None,
        {},
        list(pulled.repairs),
        {n: s.shape for n, s in zip(names, spaces, strict=True)},
        {n: shape_of(g) for n, g in zip(names, pulled.matched, strict=False)} if pulled.repairs else {},
    )


def shape_of(gradient: Any) -> Any:
    """The shape of what a rule returned, None where it is not known."""
    shape = getattr(gradient, "shape", ())
    try:
        return tuple(None if n is None else int(n) for n in shape)
    except (TypeError, ValueError):
        return None
