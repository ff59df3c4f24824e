"""Watching functions that XLA compiles: they know no queues, so what is seen is written into a ring of rows.

The ring is a variable; its handle is captured and travels with the rule's op. Rows carry a number that counts over
all rings of a channel, so that their order is known. Rows that are overwritten before anybody has read them are lost,
and counted.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import tensorflow as tf

from gradwright.frameworks import tf_private_graphs as graphs

ROWS = 1024
"""How many backwards of one place are kept between two readings."""


def emit(line: Any, site: Any) -> list[Any]:
    """Put the statistics and their way out into the graph; gives the ops that do it."""
    from gradwright.frameworks.tf_observe_site import refuse_rows, refuse_values

    if site.values:
        raise refuse_values(site)
    graph = tf.compat.v1.get_default_graph()
    graph.refusal_in_loops = refuse_rows(site)
    before = len(graph.get_operations())
    ring = Ring(line, site)
    passed = count_up(ring.passed)

    def write() -> Any:
        row = site.numbers(site.vectors())
        number, order = count_up(ring.count), count_up(line.order())
        row = tf.concat([[tf.cast(order, tf.float64)], row], 0)
        tf.raw_ops.ResourceScatterUpdate(resource=ring.rows, indices=[number % ROWS], updates=row[None])
        return True

    if site.every > 1:
        tf.cond(tf.equal(passed % site.every, 0), write, lambda: False)
    else:
        write()
    made = graph.get_operations()[before:]
    site.forget()
    line.know(site)
    line.rings.add(ring)
    graph.gradwright_ring = ring
    return made


def count_up(handle: Any) -> Any:
    """The value of a counter before it is raised by one."""
    number = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.int64)
    tf.raw_ops.AssignAddVariableOp(resource=handle, value=tf.ones([], tf.int64))
    return number


def counter(name: str) -> Any:
    """A counter that begins at zero."""
    handle = graphs.variable_handle(name, tf.int64, [])
    tf.raw_ops.AssignVariableOp(resource=handle, value=tf.zeros([], tf.int64))
    return handle


class Ring:
    """The rows of one site, and how far they have been read."""

    def __init__(self, line: Any, site: Any):
        self.line, self.site, self.read, self.lost = line, site, 0, 0
        width = 2 + sum(site.width(i) for i in range(len(site.facts)))
        name = f"{line.name}_ring_{site.number}"
        with graphs.outside_graphs():
            self.count, self.passed = counter(name + "_count"), counter(name + "_passed")
            self.rows = graphs.variable_handle(name, tf.float64, [ROWS, width])
            tf.raw_ops.AssignVariableOp(resource=self.rows, value=tf.zeros([ROWS, width], tf.float64))
        from gradwright.frameworks.tf_observe_line import destroy

        for handle in (self.count, self.passed, self.rows):
            weakref.finalize(self, destroy, handle).atexit = False

    def written(self) -> int:
        """How many rows have been written."""
        return int(tf.raw_ops.ReadVariableOp(resource=self.count, dtype=tf.int64))

    def skip(self) -> None:
        """Pass over what was written while nobody watched."""
        with graphs.outside_graphs():
            self.read = self.written()

    def take(self) -> list[np.ndarray]:
        """The rows that have come since the last reading."""
        with graphs.outside_graphs():
            count = self.written()
            if count == self.read:
                return []
            rows = tf.raw_ops.ReadVariableOp(resource=self.rows, dtype=tf.float64).numpy()
        first = max(self.read, count - ROWS)
        self.lost, self.read = self.lost + first - self.read, count
        return [rows[i % ROWS] for i in range(first, count)]


def drain(line: Any, hub: Any) -> None:
    """Deliver the rows of all rings of a channel, in the order in which they were written."""
    rows = []
    for ring in list(line.rings):
        rows += [(row[0], ring.site, row[1:]) for row in ring.take()]
        if ring.lost:
            tell(ring, line, hub)
    for _, site, numbers in sorted(rows, key=lambda row: row[0]):
        hub.deliver(line.channel, site.seen(numbers, []))


def tell(ring: Any, line: Any, hub: Any) -> None:
    """Say how many rows were overwritten."""
    rule = ring.site.frame.rule
    for log in hub.hearers(line.channel):
        log.note(
            f"{ring.lost} records of `{rule.name}` ({rule.where}) were overwritten in a function compiled by XLA, "
            f"which keeps {ROWS} between two readings; read log.records more often, or take every=10"
        )
    ring.lost = 0
