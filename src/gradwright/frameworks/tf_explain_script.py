"""Listening to a whole program: every tape that the user's code or Keras opens, and every None it gives back.

The methods of `tf.GradientTape` are wrapped for the time of one program, act for the thread that runs it only, and
are put back afterwards, whatever happened.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import tensorflow as tf

from gradwright.errors import GradwrightError
from gradwright.explain import lines
from gradwright.explain.causes import Reason
from gradwright.frameworks import tf_explain as recorder
from gradwright.frameworks.tf_explain_tape import Companion, ExplainingTape

Report = Callable[[str, Reason], None]  # the asking line, and why there is no gradient


@contextmanager
def listening(report: Report) -> Iterator[None]:
    """In here, call `report(line, reason)` for each source that a tape gives None for."""
    listener = _Listener(report)
    recorder.begin(sparse=True)
    undo = listener.install()
    try:
        yield
    finally:
        for name, original in undo.items():
            setattr(tf.GradientTape, name, original)
        recorder.end()


class _Listener:
    def __init__(self, report: Report):
        self.report, self.thread = report, threading.get_ident()
        self.companions: weakref.WeakKeyDictionary[Any, Companion] = weakref.WeakKeyDictionary()
        self.unspent: weakref.WeakSet[Any] = weakref.WeakSet()
        self.busy = False

    def install(self) -> dict[str, Any]:
        wraps_of = {
            "__enter__": self.enter,
            "__exit__": self.leave,
            "watch": self.watch,
            "stop_recording": self.stop_recording,
            "reset": self.reset,
            "gradient": self.gradient,
        }
        undo = {name: getattr(tf.GradientTape, name) for name in wraps_of}
        for name, wrap in wraps_of.items():
            setattr(tf.GradientTape, name, wraps(undo[name])(wrap(undo[name])))
        return undo

    def companion(self, tape: Any) -> Companion | None:
        """What is known of a tape; None for another thread's, and for TensorFlow's own."""
        if self.busy or threading.get_ident() != self.thread:
            return None
        return self.companions.get(tape)

    def enter(self, original: Callable) -> Callable:
        def __enter__(tape: Any) -> Any:
            entered = original(tape)
            if isinstance(tape, ExplainingTape):
                self.companions[tape] = tape._companion
            elif threading.get_ident() == self.thread and not self.busy and _asked_for(sys._getframe(1)):
                self.make_room()
                companion = self.companions[tape] = Companion(tape, tape._watch_accessed_variables, True)
                self.unspent.add(tape)
                companion.open()
            return entered

        return __enter__

    def make_room(self) -> None:
        """Before the first tape of a step, let go what earlier steps have left."""
        log = recorder.current()
        if log is not None and not log.open_tapes and not len(self.unspent):
            log.strip()

    def leave(self, original: Callable) -> Callable:
        def __exit__(tape: Any, *error: Any) -> Any:
            companion = self.companion(tape)
            if companion is not None and not isinstance(tape, ExplainingTape):
                companion.close()
            return original(tape, *error)

        return __exit__

    def watch(self, original: Callable) -> Callable:
        def watch(tape: Any, tensor: Any) -> None:
            original(tape, tensor)
            companion = self.companion(tape)
            if companion is not None and not isinstance(tape, ExplainingTape):
                companion.watch(tensor)

        return watch

    def stop_recording(self, original: Callable) -> Callable:
        @contextmanager
        def stop_recording(tape: Any) -> Iterator[None]:
            companion = self.companion(tape)
            with original(tape):
                if companion is None or isinstance(tape, ExplainingTape):
                    yield
                else:
                    with companion.pause():
                        yield

        return stop_recording

    def reset(self, original: Callable) -> Callable:
        def reset(tape: Any) -> None:
            original(tape)
            companion = self.companion(tape)
            if companion is not None and not isinstance(tape, ExplainingTape):
                companion.reset()

        return reset

    def gradient(self, original: Callable) -> Callable:
        def gradient(tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
            companion = self.companion(tape)
            if companion is not None and not tape._persistent:
                companion.ended()
            found = original(tape, target, sources, *args, **kwargs)
            if companion is not None:
                self.look(companion, target, sources, found, sys._getframe(1))
                if not tape._persistent:
                    self.unspent.discard(tape)
            return found

        return gradient

    def look(self, companion: Companion, target: Any, sources: Any, found: Any, frame: Any) -> None:
        """Explain each None among the gradients; what cannot be explained is left to the program's own error."""
        flat = [s for s, g in zip(tf.nest.flatten(sources), _flat(found), strict=False) if g is None]
        if not flat:
            return
        self.busy = True
        try:
            for reason in companion.explain(target, flat, frame):
                self.report(lines.of_frame(frame), reason)
        except GradwrightError:
            pass
        finally:
            self.busy = False


def _flat(found: Any) -> list:
    return tf.nest.flatten(found) if found is not None else [None]


def _asked_for(frame: Any) -> bool:
    """Whether a tape is the user's or Keras's, and not one that TensorFlow opens for its own ends."""
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame is not None and "/tensorflow/python/" not in frame.f_code.co_filename
