"""The way out of compiled functions: a queue and a switch, found by name from whatever graph a delivery is in."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from gradwright.frameworks import tf_private_graphs as graphs
from gradwright.frameworks.tf_observe_site import Site
from gradwright.observe.hub import Hub

_PROCESS = uuid.uuid4().hex[:12]


def emit_to_queue(line: Line, site: Site) -> list[Any]:
    """Put the statistics and their delivery into the graph; gives the ops that do it."""
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    with tf.device("CPU:0"):
        on = tf.raw_ops.VarIsInitializedOp(resource=line.switch_handle())
    if site.every > 1:
        tf.cond(on, lambda: thinned(line, site), nothing)
    else:
        deliver(line, site, on)
    site.forget()
    line.know(site)
    return graph.get_operations()[before:]


def deliver(line: Line, site: Site, on: Any) -> Any:
    """Measure and put into the queue; an ordinary step meets one condition only, for each costs as much as a norm."""
    measures = site.measures()
    healthy = on
    for measure in measures:
        healthy = healthy & measure.healthy

    def careful() -> Any:
        return tf.cond(on, lambda: put(line, site.message([m.careful() for m in measures])), nothing)

    return tf.cond(healthy, lambda: put(line, site.message([m.short() for m in measures])), careful)


def thinned(line: Line, site: Site) -> Any:
    """Measure and deliver each n-th time."""
    with tf.device("CPU:0"):
        passed = tf.raw_ops.ResourceCountUpTo(resource=line.counter_handle(site), limit=2**62, T=tf.int64)
    return tf.cond(tf.equal(passed % site.every, 0), lambda: put(line, site.message(site.vectors())), nothing)


def put(line: Line, message: list[Any]) -> Any:
    """Put a message into the queue."""
    with tf.device("CPU:0"):
        tf.raw_ops.QueueEnqueueV2(handle=line.queue_handle(), components=message)
    return True


def nothing() -> Any:
    """The other branch of a condition."""
    return False


class Line:
    """The way out of compiled functions for one channel: a queue and a switch, known by name."""

    def __init__(self, channel: int):
        self.channel = channel
        self.name = f"gradwright_observe_{_PROCESS}_{channel}"
        self.sites: weakref.WeakValueDictionary[int, Site] = weakref.WeakValueDictionary()
        self.kept: dict[int, Site] = {}
        self.rings: Any = weakref.WeakSet()
        self.on, self.counter = False, None
        with graphs.outside_graphs(), tf.device("CPU:0"):
            self.queue = self.queue_handle()

    def queue_handle(self) -> Any:
        """The queue, in whatever graph or eager scope this is."""
        return tf.raw_ops.FIFOQueueV2(
            component_types=[tf.string, tf.string], shapes=[(), ()], capacity=-1, shared_name=self.name
        )

    def switch_handle(self) -> Any:
        """The switch: a variable that has a value while the channel is open."""
        return tf.raw_ops.VarHandleOp(dtype=tf.bool, shape=[], shared_name=f"{self.name}_switch")

    def counter_handle(self, site: Site) -> Any:
        """The counter of a site that thins."""
        return tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=[], shared_name=f"{self.name}_{site.number}")

    def order(self) -> Any:
        """The counter over all rings of the channel."""
        if self.counter is None:
            from gradwright.frameworks.tf_observe_xla import counter

            with graphs.outside_graphs():
                self.counter = counter(f"{self.name}_order")
        return self.counter

    def know(self, site: Site) -> None:
        """Keep a site findable, as long as its graph lives or a log is open; start its counter."""
        self.sites[site.number] = site
        if self.on:
            self.kept[site.number] = site
        if site.every > 1:
            with graphs.outside_graphs(), tf.device("CPU:0"):
                counter = self.counter_handle(site)
                tf.raw_ops.AssignVariableOp(resource=counter, value=tf.constant(0, tf.int64))
            weakref.finalize(site, destroy, counter).atexit = False

    def switch(self, on: bool) -> None:
        """Open or close; a closed line lets nothing in and keeps no site alive."""
        if on == self.on:
            return
        self.on = on
        with graphs.outside_graphs(), tf.device("CPU:0"):
            handle = self.switch_handle()
            if on:
                tf.raw_ops.AssignVariableOp(resource=handle, value=True)
            else:
                tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)
        self.kept = dict(self.sites) if on else {}
        for ring in list(self.rings):
            ring.skip()

    def drain(self, hub: Hub) -> None:
        """Take out what has arrived."""
        with graphs.outside_graphs(), tf.device("CPU:0"):
            waiting = int(tf.raw_ops.QueueSizeV2(handle=self.queue))
            arrived = []
            if waiting:
                arrived = tf.raw_ops.QueueDequeueManyV2(
                    handle=self.queue, n=waiting, component_types=[tf.string, tf.string]
                )
                arrived = list(zip(*(part.numpy() for part in arrived), strict=True))
        for message in arrived:
            self.arrived(hub, message)
        if self.rings:
            from gradwright.frameworks import tf_observe_xla

            tf_observe_xla.drain(self, hub)

    def arrived(self, hub: Hub, message: Iterable[Any]) -> None:
        """Make a record of one message."""
        numbers, values = message
        numbers = array_of(numbers)
        site = self.sites.get(int(numbers[0]))
        if site is not None:
            with hub.lock:
                hub.deliver(self.channel, site.seen(numbers, [array_of(v) for v in array_of(values)] if values else []))


def array_of(serialized: bytes) -> np.ndarray:
    """The array in a serialized tensor."""
    return tf.make_ndarray(tensor_pb2.TensorProto.FromString(serialized))


def destroy(handle: Any) -> None:
    """Free a resource that only we know by name."""
    with graphs.outside_graphs():
        tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)
