"""Who hears whom: the open logs, the threads they belong to, and the readers that look at tensors.

A thread that has opened logs of its own is heard by these alone; a thread without one (a worker, a replica) is heard
by all open logs. Compiled functions keep this: each such group of logs is a channel, and a function that is
traced while a channel is open delivers to that channel, if it is still open when the function runs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from gradwright import events
from gradwright.observe.wishes import Demand

EVERYONE = -1
"""The channel of threads that have no log of their own."""


@dataclass(slots=True)
class Seen:
    """One backward as a reader saw it; a log makes its record of it.

    `source` tells the places of one rule apart, for thinning; `thinned` is the thinning that was done already.
    """

    rule: Any
    upstream: Any
    gradients: dict[str, Any]
    repairs: list[tuple[str, str]] = field(default_factory=list)
    inputs: dict[str, Any] = field(default_factory=dict)
    returned: dict[str, Any] = field(default_factory=dict)
    replica: int | None = None
    source: Any = None
    thinned: int = 1


class Reader(Protocol):
    """How one framework's tensors are looked at."""

    def watch(self, hub: Hub, channel: int, pullback: Any, upstreams: list[Any], pulled: Any) -> None:
        """See one backward."""

    def begin(self, hub: Hub, channels: Iterable[int]) -> None:
        """Know which channels are open."""

    def drain(self, hub: Hub) -> None:
        """Bring what compiled functions have left for us."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.logs: list[Any] = []
        self.channel = EVERYONE


class Hub:
    """The one listener, present while any log is open."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.logs: list[Any] = []
        self.thread = _Thread()
        self.readers: dict[str, Reader] = {}
        self.channels: dict[int, list[Any]] = {}
        self.demands: dict[int, Demand] = {}
        self.tokens: dict[int, Any] = {}

    def open(self, log: Any) -> None:
        """Let a log hear this thread, and the threads that have no log."""
        if "tensorflow" in sys.modules:
            self.reader("tensorflow")
        self.drain()
        with self.lock:
            if not self.thread.logs:
                self.thread.channel = next(i for i in range(len(self.channels) + 1) if i not in self.channels)
            self.thread.logs.append(log)
            self.logs.append(log)
            log.channel = self.thread.channel
            self.channels[log.channel] = self.thread.logs
            if self not in events.listeners:
                events.listeners.append(self)
            self.changed()

    def close(self, log: Any) -> None:
        """Bring what is still on its way, and hear no more."""
        try:
            self.drain()
        finally:
            with self.lock:
                self.logs.remove(log)
                own = self.channels[log.channel]
                own.remove(log)
                if not own:
                    del self.channels[log.channel]
                if not self.logs:
                    events.listeners.remove(self)
                self.changed()

    def changed(self) -> None:
        """Work out anew what each channel asks for, and tell the readers."""
        self.demands = {c: Demand(tuple(log.wish for log in self.hearers(c))) for c in self.open_channels()}
        self.tokens = {channel: (channel, demand.key) for channel, demand in self.demands.items()}
        for reader in self.readers.values():
            reader.begin(self, self.open_channels())

    def open_channels(self) -> list[int]:
        """The channels that somebody hears."""
        return [*self.channels, EVERYONE] if self.logs else []

    def hearers(self, channel: int) -> list[Any]:
        """The logs that hear a channel."""
        return list(self.logs if channel == EVERYONE else self.channels.get(channel, ()))

    def channel(self) -> int:
        """The channel of this thread."""
        return self.thread.channel if self.thread.logs else EVERYONE

    def demand(self) -> Demand | None:
        """What is asked of this thread, None while nothing is."""
        return self.demands.get(self.channel())

    def token(self) -> Any:
        """What a function traced now is made for; None while nobody watches."""
        return self.tokens.get(self.channel())

    def watch(self, pullback: Any, upstreams: list[Any], pulled: Any) -> None:
        """See one backward of a rule."""
        demand = self.demand()
        if demand is not None and demand.accepts(pullback.rule):
            self.reader(pullback.seam.name).watch(self, self.channel(), pullback, upstreams, pulled)

    def reader(self, framework: str) -> Reader:
        """The reader of a framework, loaded when its first tensor comes or a log opens with it there."""
        from gradwright.observe.readers import reader_of

        with self.lock:
            if framework not in self.readers:
                self.readers[framework] = reader_of(framework)
                self.readers[framework].begin(self, self.open_channels())
            return self.readers[framework]

    def takers(self, channel: int, seen_rule: Any, source: Any, thinned: int = 1) -> list[Any]:
        """The logs that take this backward, each by its own filter and thinning."""
        return [log for log in self.hearers(channel) if log.takes(seen_rule, source, thinned)]

    def deliver(self, channel: int, seen: Seen) -> None:
        """Give a backward to the logs that take it."""
        for log in self.takers(channel, seen.rule, seen.source, seen.thinned):
            log.add(seen)

    def drain(self) -> None:
        """Bring what compiled functions have left for us.

        Without the lock: a reader may wait for threads that deliver.
        """
        for reader in list(self.readers.values()):
            reader.drain(self)


hub = Hub()
