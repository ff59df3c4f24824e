"""Watching TensorFlow: statistics where the tensor is, and the way out of compiled functions.

An eager tensor is looked at once. In a graph the pullback is traced one time and run many times, so what is seen
there is put into a queue by an op, and taken out when somebody wants to read. The queue and the switch that opens it
are found by name, never captured, so that a loop, a copy or a saved model of the function still works; in another
process the switch is off. Only XLA, which knows no queues, writes to a variable instead (`tf_observe_xla`).
"""

from __future__ import annotations

import itertools
import uuid
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from gradwright.errors import ModeError, compose
from gradwright.frameworks import tf_lift, tf_observe_pfor, tf_retrace
from gradwright.frameworks import tf_private as private
from gradwright.frameworks.tf_statistics import COLUMNS, measured, statistics_of, vector
from gradwright.observe.hub import Hub, Seen
from gradwright.observe.readers import dense, frame, look, place

tf_observe_pfor.install()

_PROCESS = uuid.uuid4().hex[:12]
_numbers = itertools.count()


class TensorFlowReader:
    """How TensorFlow's tensors are looked at, in every mode."""

    def __init__(self) -> None:
        self.lines: dict[int, Line] = {}
        self.retraces = False

    def watch(self, hub: Hub, channel: int, pullback: Any, upstreams: list[Any], pulled: Any) -> None:
        """See one backward: now, or at each run of the graph that is being built."""
        if private.executing_eagerly():
            return self.now(hub, channel, pullback, upstreams, pulled)
        graph = tf.compat.v1.get_default_graph()
        if getattr(graph, "deliveries", None) is None:
            return self.around(hub, channel, pullback, upstreams, pulled)
        with private.record.stop_recording(), tf.name_scope("observe"):
            ups = dense(pullback, upstreams)
            gradients = [*pulled.gradients, *pulled.variable_gradients]
            site = Site(hub, channel, pullback, pulled, ups, gradients)
            self.emit(hub, graph, site)

    def now(self, hub: Hub, channel: int, pullback: Any, upstreams: list[Any], pulled: Any) -> None:
        """Look at eager tensors."""
        takers = hub.takers(channel, pullback.rule, source := place(pullback))
        if not takers:
            return
        demand = hub.demand()
        with private.record.stop_recording():
            seen = look(
                pullback,
                upstreams,
                pulled,
                lambda t: statistics_of(t, demand.everything, demand.values),  # type: ignore[union-attr]
            )
        seen.source, seen.replica = source, replica()
        for log in takers:
            log.add(seen)

    def around(self, hub: Hub, channel: int, pullback: Any, upstreams: list[Any], pulled: Any) -> None:
        """Watch a pullback that is put into a graph as it is: its gradients go through a function that watches."""
        ups = dense(pullback, upstreams)
        gradients = [*pulled.gradients, *pulled.variable_gradients]
        where = [i for i, g in enumerate(gradients) if isinstance(g, tf.Tensor)]
        flat = [*ups, *(gradients[i] for i in where)]

        def watching(places: list[Any]) -> list[Any]:
            new = list(gradients)
            for i, tensor in zip(where, places[len(ups) :], strict=True):
                new[i] = tensor
            kept = type(pulled)(pulled.raw, new[: len(pulled.gradients)], new[len(pulled.gradients) :], pulled.repairs,
                                pulled.matched)  # fmt: skip
            self.watch(hub, channel, pullback, places[: len(ups)], kept)
            return [tf.identity(p) for p in places[len(ups) :]]

        lifted = tf_lift.trace(watching, flat, f"watch_{pullback.rule.__name__}")
        for i, tensor in zip(where, lifted(flat, lifted.captured), strict=True):
            if i < len(pulled.gradients):
                pulled.gradients[i] = tensor
            else:
                pulled.variable_gradients[i - len(pulled.gradients)] = tensor

    def emit(self, hub: Hub, graph: Any, site: Site) -> None:
        """Put the delivery of one backward into the graph of its pullback."""
        line = self.line(hub, site.channel)
        if private.in_xla(graph):
            from gradwright.frameworks import tf_observe_xla

            graph.deliveries.extend(tf_observe_xla.emit(line, site))
        elif tf_retrace.session_graph(graph):
            site.every = site.frame.thinned = 1
            tf.numpy_function(lambda *message: line.arrived(hub, message), site.message(), [])
            site.forget()
            line.know(site)
        else:
            graph.deliveries.extend(emit_to_queue(line, site))
        graph.gradwright_site = site

    def line(self, hub: Hub, channel: int) -> Line:
        """The way out for a channel, made when the first function needs it."""
        with hub.lock:
            if channel not in self.lines:
                self.lines[channel] = Line(channel)
                self.lines[channel].switch(channel in hub.open_channels())
            return self.lines[channel]

    def begin(self, hub: Hub, channels: Iterable[int]) -> None:
        """Know which channels are open."""
        channels = set(channels)
        self.retraces = tf_retrace.install(hub.token, hub.drain) if channels else tf_retrace.uninstall()
        for channel, line in self.lines.items():
            line.switch(channel in channels)

    def drain(self, hub: Hub) -> None:
        """Bring what compiled functions have left."""
        with hub.lock:
            for line in list(self.lines.values()):
                line.drain(hub)


def replica() -> int | None:
    """The number of the replica that this thread works for."""
    context = tf.distribute.get_replica_context() if tf.distribute.has_strategy() else None
    if context is None:
        return None
    number = tf.get_static_value(context.replica_id_in_sync_group)
    return None if number is None else int(number)


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

    def numbers(self) -> Any:
        """The statistics of all tensors as one vector, behind the number of the site."""
        parts = [[float(self.number)]]
        for tensor, (shape, _) in zip(self.tensors, self.facts, strict=True):
            parts.append(vector(tf.convert_to_tensor(tensor), self.everything))
            if shape is None or None in shape:
                sizes = tf.cast(tf.shape(tensor), tf.float64)
                parts += [tf.cast(tf.reshape(tf.size(sizes), [1]), tf.float64), sizes]
        return tf.concat(parts, 0)

    def message(self) -> list[Any]:
        """What travels: the numbers, and the tensors themselves where they are wanted."""
        value = tf.constant("")
        if self.values:
            value = tf.io.serialize_tensor(
                tf.stack([tf.io.serialize_tensor(tf.convert_to_tensor(t)) for t in self.tensors])
            )
        return [tf.io.serialize_tensor(self.numbers()), value]

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


def emit_to_queue(line: Line, site: Site) -> list[Any]:
    """Put the statistics and their delivery into the graph; gives the ops that do it."""
    with tf.device("CPU:0"):
        on = tf.raw_ops.VarIsInitializedOp(resource=line.switch_handle())
    before = len(tf.compat.v1.get_default_graph().get_operations())

    def put() -> Any:
        message = site.message()
        with tf.device("CPU:0"):
            tf.raw_ops.QueueEnqueueV2(handle=line.queue_handle(), components=message)
        return True

    def counted() -> Any:
        with tf.device("CPU:0"):
            passed = tf.raw_ops.ResourceCountUpTo(resource=line.counter_handle(site), limit=2**62, T=tf.int64)
        return tf.cond(tf.equal(passed % site.every, 0), put, lambda: False)

    tf.cond(on, counted if site.every > 1 else put, lambda: False)
    made = tf.compat.v1.get_default_graph().get_operations()[before:]
    site.forget()
    line.know(site)
    return made


class Line:
    """The way out of compiled functions for one channel: a queue and a switch, known by name."""

    def __init__(self, channel: int):
        self.channel = channel
        self.name = f"gradwright_observe_{_PROCESS}_{channel}"
        self.sites: weakref.WeakValueDictionary[int, Site] = weakref.WeakValueDictionary()
        self.kept: dict[int, Site] = {}
        self.rings: Any = weakref.WeakSet()
        self.on, self.counter = False, None
        with private.outside_graphs(), tf.device("CPU:0"):
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

            with private.outside_graphs():
                self.counter = counter(f"{self.name}_order")
        return self.counter

    def know(self, site: Site) -> None:
        """Keep a site findable, as long as its graph lives or a log is open; start its counter."""
        self.sites[site.number] = site
        if self.on:
            self.kept[site.number] = site
        if site.every > 1:
            with private.outside_graphs(), tf.device("CPU:0"):
                counter = self.counter_handle(site)
                tf.raw_ops.AssignVariableOp(resource=counter, value=tf.constant(0, tf.int64))
            weakref.finalize(site, destroy, counter).atexit = False

    def switch(self, on: bool) -> None:
        """Open or close; a closed line lets nothing in and keeps no site alive."""
        if on == self.on:
            return
        self.on = on
        with private.outside_graphs(), tf.device("CPU:0"):
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
        with private.outside_graphs(), tf.device("CPU:0"):
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
    with private.outside_graphs():
        tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)


def refuse_values(site: Site) -> ModeError:
    """Values cannot leave a function that XLA compiles."""
    rule = site.frame.rule
    return ModeError(
        compose(
            rule.name,
            rule.where,
            "gw.observe(values=True) cannot bring whole tensors out of a function compiled by XLA (jit_compile=True)",
            "gw.observe(values=False), which brings their statistics, or jit_compile=False while you look",
        )
    )


def refuse_unknown_rank(site: Site) -> ModeError:
    """A row of a ring has a fixed width."""
    rule = site.frame.rule
    return ModeError(
        compose(
            rule.name,
            rule.where,
            "gw.observe cannot watch a tensor of unknown rank in a function compiled by XLA (jit_compile=True)",
            "tf.ensure_shape(x, [None, 8]) before the rule, or jit_compile=False while you look",
        )
    )
