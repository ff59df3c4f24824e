"""The drop-in `tf.GradientTape` that remembers enough to say why a gradient is missing."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from gradwright.explain import lines, sourcing
from gradwright.explain.causes import Reason
from gradwright.explain.judge import Source
from gradwright.explain.record import Key, Log, Node
from gradwright.frameworks import tf_explain as recorder
from gradwright.frameworks import tf_explain_run as run
from gradwright.frameworks import tf_explain_symbolic as symbolic
from gradwright.frameworks.tf_values import component, is_variable


class History:
    """When one tape recorded, and what it watched since when; moments are counted in nodes of the log."""

    def __init__(self, auto: bool):
        self.auto = auto
        self.spans: list[list] = []  # [first node, node after the last or None, tensor clock at begin, at end]
        self.pauses: list[list] = []
        self.watched: dict[Key, int] = {}
        self.variables: tuple = ()

    def begin(self, moment: int) -> None:
        """The tape records from now on."""
        self.spans.append([moment, None, recorder.now(), None])

    def stop(self, moment: int) -> None:
        """The tape no longer records."""
        if self.spans and self.spans[-1][1] is None:
            self.spans[-1][1], self.spans[-1][3] = moment, recorder.now()

    def refuses(self, node: Node) -> str:
        """The cause why the tape has no record of a node; empty if it has."""
        if node.kind == "link":
            return ""
        if any(first <= node.index < (last or 0) for first, last in self.pauses) or node.stopped:
            return "recording-stopped"
        inside = any(s[0] <= node.index and (s[1] is None or node.index < s[1]) for s in self.spans)
        return "" if inside else "outside-tape"

    def outside(self, key: Key) -> bool:
        """Whether a tensor was made before the tape began, or after it ended."""
        ended = self.spans[-1][3] if self.spans else None
        return isinstance(key, int) and bool(self.spans) and (key < self.spans[0][2] or bool(ended and key > ended))

    def unwatched(self, tensor: Any, key: Key, log: Log) -> tuple[str, int]:
        """Why the tape does not watch a source, and since which moment it does."""
        if is_variable(tensor):
            if key in self.watched or any(tensor is v for v in self.variables):
                return "", 0
            return ("not-trainable", 0) if self.auto and not tensor.trainable else ("not-watched", 0)
        if key in self.watched:
            return "", self.watched[key]
        return ("", 0) if key in self._followed(log) else ("not-watched", 0)

    def _followed(self, log: Log) -> set[Key]:
        """Everything that the tape came to know: what was watched, and what was computed from it on record."""
        known = set(self.watched) | {v.handle._id for v in self.variables if not isinstance(v.handle, str)}
        for node in log.nodes:
            if known.intersection(node.inputs) and not self.refuses(node):
                known.update(node.outputs)
        return known


# AutoGraph would rewrite these methods where a traced function calls them.
_as_it_is = tf.autograph.experimental.do_not_convert


class Companion:
    """What goes along with one tape: the log of its thread or the graph it records, and its history."""

    def __init__(self, tape: tf.GradientTape, auto: bool, keep_values: bool):
        self.tape, self.keep_values = weakref.ref(tape), keep_values
        self.history = History(auto)
        self.log: Log | None = None
        self.graph: Any = None

    def open(self) -> None:
        """The tape's `with` block begins."""
        if tf.executing_eagerly():
            self.log = recorder.begin(self.keep_values)
            self.log.open_tapes += 1
        else:
            self.graph = tf.compat.v1.get_default_graph()
        self.history.begin(self.moment())

    def close(self) -> None:
        """The tape's `with` block ends."""
        self.ended()
        if self.log is not None and recorder.current() is self.log:
            self.log.open_tapes -= 1
            recorder.end()

    def ended(self) -> None:
        """The tape records no more; what it watched stays known."""
        tape = self.tape()
        if tape is not None:
            self.history.variables = tuple(tape.watched_variables()) or self.history.variables
        self.history.stop(self.moment())

    def moment(self) -> int:
        """The number of the next node."""
        if self.graph is not None:
            return len(self.graph.get_operations())
        return self.log.count if self.log is not None else 0

    def watch(self, tensor: Any) -> None:
        """The tape watches a tensor, or several, from now on."""
        for part in tf.nest.flatten(tensor):
            self.history.watched.setdefault(run.key_of(part), self.moment())

    @contextmanager
    def pause(self) -> Iterator[None]:
        """The tape does not record in here."""
        pause: list = [self.moment(), None]
        self.history.pauses.append(pause)
        try:
            yield
        finally:
            pause[1] = self.moment()

    def reset(self) -> None:
        """The tape has forgotten everything, and goes on."""
        self.history.stop(self.moment())
        self.history.spans.clear()
        self.history.watched.clear()
        self.history.begin(self.moment())

    def explain(self, target: Any, sources: Any, frame: Any) -> list[Reason]:
        """One reason per source."""
        named = run.sources_of(sources, frame)
        targets = run.targets_of(target, "the target")
        history, tape = self.history, self.tape()
        if not history.spans:
            raise run.never_entered()
        if tape is not None:
            history.variables = tuple(tape.watched_variables()) or history.variables
        if self.graph is not None:
            return symbolic.explain(self.graph, targets, named, history, lines.of_frame(frame))
        assert self.log is not None
        known = [self._source(self.log, source) for source in named]
        outside = sourcing.Outside(run.users_frame(frame), named, history.outside)
        return run.judge(self.log, targets, known, history, lines.of_frame(frame), outside.line)

    def _source(self, log: Log, source: run.Named) -> Source:
        cause, since = self.history.unwatched(component(source.value), run.key_of(source.value), log)
        return run.source_of(log, source, cause, since)


class ExplainingTape(tf.GradientTape):
    """A `tf.GradientTape` in every respect, with `explain`; made by `gw.GradientTape(...)`."""

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True, keep_values: bool = True):
        super().__init__(persistent=persistent, watch_accessed_variables=watch_accessed_variables)
        self._single = not persistent
        self._companion = Companion(self, watch_accessed_variables, keep_values)

    def __enter__(self) -> ExplainingTape:
        super().__enter__()
        try:
            self._companion.open()
        except BaseException:
            super().__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            self._companion.close()
        finally:
            super().__exit__(*error)

    @_as_it_is
    def watch(self, tensor: Any) -> None:
        """Watch a tensor or variable, as `tf.GradientTape.watch` does."""
        super().watch(tensor)
        self._companion.watch(tensor)

    @_as_it_is
    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Stop recording for a while, as `tf.GradientTape.stop_recording` does."""
        with super().stop_recording(), self._companion.pause():
            yield

    @_as_it_is
    def reset(self) -> None:
        """Forget everything recorded, as `tf.GradientTape.reset` does."""
        super().reset()
        self._companion.reset()

    @_as_it_is
    def gradient(self, *args: Any, **kwargs: Any) -> Any:
        """The gradient, as `tf.GradientTape.gradient` gives it."""
        if self._single:
            self._companion.ended()
        return super().gradient(*args, **kwargs)

    @_as_it_is
    def explain(self, target: Any, sources: Any) -> list[Reason]:
        """Why the gradient of each source is what it is: one `Reason` each, in order.

        >>> import gradwright as gw, tensorflow as tf
        >>> w = tf.Variable([1.0, 2.0])
        >>> with gw.GradientTape() as tape:
        ...     y = tf.reduce_sum(tf.floor(w))
        >>> tape.explain(y, w)[0].cause
        'no-gradient'

        Inside a traced function there are no values yet: a missing gradient is explained, and a zero that the
        graph itself shows; other zeros and NaN are not.

        Raises:
            GradwrightError: the target or a source is no tensor, or the tape never recorded.
        """
        return self._companion.explain(target, sources, sys._getframe(1))
