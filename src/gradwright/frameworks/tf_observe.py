"""Watching TensorFlow: statistics where the tensor is, and the way out of compiled functions.

An eager tensor is looked at once. In a graph the pullback is traced one time and run many times, so what is seen
there is put into a queue by an op, and taken out when somebody wants to read. The queue and the switch that opens it
are found by name, never captured, so that a loop, a copy or a saved model of the function still works; in another
process the switch is off. Only XLA, which knows no queues, writes to a variable instead (`tf_observe_xla`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from gradwright.frameworks import tf_graph, tf_lift, tf_observe_pfor, tf_retrace
from gradwright.frameworks import tf_private as private
from gradwright.frameworks import tf_private_graphs as graphs
from gradwright.frameworks.tf_observe_line import Line, emit_to_queue
from gradwright.frameworks.tf_observe_site import Site, replica
from gradwright.frameworks.tf_statistics import statistics_of
from gradwright.observe.hub import Hub
from gradwright.observe.readers import dense, look, place

tf_observe_pfor.install()


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
        if graphs.in_xla(graph):
            from gradwright.frameworks import tf_observe_xla

            graph.deliveries.extend(tf_observe_xla.emit(line, site))
        elif tf_retrace.session_graph(graph):
            site.every = site.frame.thinned = 1
            tf.numpy_function(lambda *message: line.arrived(hub, message), site.message(site.vectors()), [])
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


def rules_in_unwatched_functions() -> list[Any]:
    """The rules of the living functions that were traced while nobody watched."""
    emissions = [e for e in tf_graph.emissions() if isinstance(e, tf_graph.Emission)]
    return [e.pullback.rule for e in emissions if getattr(e.lifted, "unforced", e) is None]
