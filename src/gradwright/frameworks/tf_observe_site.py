"""One place in a graph where a backward is watched: what is known when it is traced, and what travels at each run."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import tensorflow as tf

from gradwright.errors import ModeError, compose
from gradwright.frameworks.tf_statistics import COLUMNS, Measure, measured, vector
from gradwright.observe.hub import Hub, Seen
from gradwright.observe.readers import frame

_numbers = itertools.count()


class Site:
    """One place in a graph where a rule's backward is watched: all that is known when it is traced."""

    def __init__(self, hub: Hub, channel: int, pullback: Any, pulled: Any, ups: list[Any], gradients: list[Any]):
        demand = hub.demand()
        assert demand is not None
        self.number, self.channel = next(_numbers), channel
        self.everything, self.values, self.every = demand.everything, demand.values, demand.every
        self.frame = frame(pullback, pulled)
        self.frame.replica, self.frame.thinned = replica(), demand.every
        self.frame.source = (self.frame.rule.name, self.frame.rule.where, self.number)
        self.outputs, self.names = pullback.outputs, pullback.names()
        # Each tensor is measured once, though it may be upstream and gradient at once.
        self.tensors: list[Any] = []
        self.ups = [self.index(u) for u in ups]
        self.gradients = [None if g is None else self.index(g) for g in gradients]
        self.facts = [(t.shape.as_list() if t.shape.rank is not None else None, t.dtype.name) for t in self.tensors]

    def index(self, tensor: Any) -> int:
        """The place of a tensor among those that are measured."""
        for i, known in enumerate(self.tensors):
            if known is tensor:
                return i
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def width(self, i: int) -> int:
        """How many numbers tell of a tensor."""
        shape = self.facts[i][0]
        if shape is None:
            raise refuse_unknown_rank(self)
        return len(COLUMNS[self.everything]) + (1 + len(shape) if None in shape else 0)

    def measures(self) -> list[Measure]:
        """The tensors, ready to be measured."""
        return [Measure(tensor, self.everything) for tensor in self.tensors]

    def numbers(self, rows: list[Any]) -> Any:
        """The statistics of all tensors as one vector, behind the number of the site."""
        parts: list[Any] = [[float(self.number)]]
        for tensor, row, (shape, _) in zip(self.tensors, rows, self.facts, strict=True):
            parts.append(row)
            if shape is None or None in shape:
                sizes = tf.cast(tf.shape(tensor), tf.float64)
                parts += [tf.cast(tf.reshape(tf.size(sizes), [1]), tf.float64), sizes]
        return tf.concat(parts, 0)

    def message(self, rows: list[Any]) -> list[Any]:
        """What travels: the numbers, and the tensors themselves where they are wanted."""
        value = tf.constant("")
        if self.values:
            parts = [tf.io.serialize_tensor(tf.convert_to_tensor(t)) for t in self.tensors]
            value = tf.io.serialize_tensor(tf.stack(parts))
        return [tf.io.serialize_tensor(self.numbers(rows)), value]

    def vectors(self) -> list[Any]:
        """The statistics of each tensor."""
        return [vector(tensor, self.everything) for tensor in self.tensors]

    def forget(self) -> None:
        """Let go of the symbolic tensors."""
        self.tensors = []

    def seen(self, numbers: np.ndarray, values: list[Any]) -> Seen:
        """A backward, from the numbers that have arrived."""
        stats, at = [], 1
        for i, (shape, dtype) in enumerate(self.facts):
            row = numbers[at : at + len(COLUMNS[self.everything])]
            at += len(row)
            if shape is None or None in shape:
                rank = int(numbers[at])
                shape = [int(n) for n in numbers[at + 1 : at + 1 + rank]]
                at += 1 + rank
            stats.append(measured(tuple(shape), dtype, row, values[i] if values else None))
        made = Seen(**{name: getattr(self.frame, name) for name in Seen.__slots__})
        made.upstream = self.outputs.rebuild([stats[i] for i in self.ups])
        made.gradients = {n: None if i is None else stats[i] for n, i in zip(self.names, self.gradients, strict=True)}
        return made


def replica() -> int | None:
    """The number of the replica that this thread works for."""
    context = tf.distribute.get_replica_context() if tf.distribute.has_strategy() else None
    if context is None:
        return None
    number = tf.get_static_value(context.replica_id_in_sync_group)
    return None if number is None else int(number)


def refusal(site: Site, fact: str, repair: str) -> ModeError:
    """What gw.observe cannot do in a function that XLA compiles, of this rule."""
    rule = site.frame.rule
    return ModeError(
        compose(rule.name, rule.where, f"in a function compiled by XLA (jit_compile=True), {fact}", repair)
    )


def refuse_values(site: Site) -> ModeError:
    """Whole tensors cannot leave."""
    fact = "gw.observe(values=True) cannot bring whole tensors out"
    return refusal(site, fact, "gw.observe(values=False), which brings statistics, or jit_compile=False while you look")


def refuse_unknown_rank(site: Site) -> ModeError:
    """A row of a ring has a fixed width."""
    fact = "gw.observe cannot watch a tensor of unknown rank"
    return refusal(site, fact, "tf.ensure_shape(x, [None, 8]) before the rule, or jit_compile=False while you look")


def refuse_rows(site: Site) -> ModeError:
    """A ring cannot take the rows of a vectorised loop."""
    fact = "gw.observe cannot watch inside a vectorised loop (vectorized_map, jacobian)"
    return refusal(site, fact, "experimental_use_pfor=False, tf.map_fn, or jit_compile=False while you look")
