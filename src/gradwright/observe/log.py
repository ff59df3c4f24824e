"""The log: what a `with gw.observe()` gives, and everything that can be made of its records."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from gradwright.observe.hub import Seen, hub
from gradwright.observe.records import Record
from gradwright.observe.table import Table
from gradwright.observe.wishes import Wish

_serials = itertools.count()


class Log:
    """The records of what flowed while the log was open. Made by `gw.observe`.

    Attributes:
        records: the records so far, in the order in which the backwards ran.
        notes: what the records cannot tell: functions that could not be seen, records that were lost.
    """

    def __init__(self, watch: Any = None, live: bool = False, **wish: Any):
        self.wish = Wish(next(_serials), **wish)
        self.channel = -1
        self._watch, self._live = watch, live
        self._records: list[Record] = []
        self._calls: Counter[Any] = Counter()
        self._passed: Counter[Any] = Counter()
        self._notes: list[str] = []
        self._open = False
        self._display: Any = None

    def __enter__(self) -> Log:
        if self._open:
            raise RuntimeError("this log is open already; call gw.observe() for another one")
        if self._watch is not None:
            self._watch.watch(self)
        try:
            hub.open(self)
            self._open = True
            if self._live:
                from gradwright.observe.live import Display

                self._display = Display(self)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self._end()

    def _end(self) -> None:
        """Leave everything as it was before, whatever fails on the way."""
        try:
            if self._open:
                self._open = False
                hub.close(self)
        finally:
            if self._watch is not None:
                self._watch.leave(self)
            if self._display is not None:
                self._display.stop()

    @property
    def records(self) -> list[Record]:
        """The records so far, oldest first."""
        if self._open:
            hub.drain()
        return self._records

    @property
    def notes(self) -> list[str]:
        """What the records cannot tell."""
        from gradwright.observe.notes import unseen

        return [*self._notes, *unseen(self)]

    def note(self, text: str) -> None:
        """Keep a remark for the table, once."""
        if text not in self._notes:
            self._notes.append(text)

    def takes(self, rule: Any, source: Any, thinned: int) -> bool:
        """Whether a backward passes the filter and is the one that thinning keeps."""
        if not self.wish.accepts(rule):
            return False
        every = self.wish.every // thinned
        if every == 1:
            return True
        number = self._passed[source]
        self._passed[source] += 1
        return number % every == 0

    def add(self, seen: Seen) -> None:
        """Make a record of a backward."""
        with hub.lock:
            key = (seen.rule.name, seen.rule.where)
            self._records.append(
                Record(
                    *key,
                    self._calls[key],
                    seen.upstream,
                    dict(seen.gradients),
                    list(seen.repairs),
                    seen.inputs,
                    seen.returned,
                    seen.replica,
                )
            )
            self._calls[key] += 1

    def table(self) -> Table:
        """A table, one row a rule: print it, or hand it to rich.

        >>> import gradwright as gw
        >>> with gw.observe() as log:
        ...     pass
        >>> print(log.table())
        no gradient flowed through a rule, probe or layer while this log was open
        """
        return Table(self.records, self.notes)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The records as flat dicts, ready for `pandas.DataFrame`."""
        return [record.to_dict() for record in self.records]

    def to_html(self, path: Any) -> str:
        """Write the table and the course of every norm as one page that needs nothing else; gives its path."""
        from gradwright.observe.page import write

        return write(path, self.records, self.notes)

    def to_tensorboard(self, directory: Any) -> str:
        """Write event files for TensorBoard: scalars of every rule, histograms of the values; gives the directory."""
        from gradwright.observe.board import write

        return write(directory, self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<log of {len(self._records)} records{', open' if self._open else ''}>"
