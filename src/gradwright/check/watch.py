"""Meeting the rules that a running program calls, without changing what it computes.

Nothing is imported before the program imports it, no operation is added to a graph, no random number is drawn. What
is kept of each rule and signature are the inputs of its first call; they are proven when the program has ended.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from gradwright.check import met
from gradwright.check.found import Found, found, is_inside_framework, pair_of
from gradwright.frameworks import tf_audit

LIBRARIES = (os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ""),)

PER_PLACE = 24
"""How many rules and signatures of one place in the source are kept; a program may make a new rule at each step."""

MEMORY = 512 * 2**20
"""How many bytes of inputs are kept; of later ones only shape and dtype are."""


@dataclass
class Meeting:
    """The first call of a rule with a signature."""

    rule: Found
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass
class Watch:
    """The rules a program has met so far; safe to use from many threads."""

    inside: bool = False
    meetings: list[Meeting] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    _known: dict[int, tuple[Any, set[Any]]] = field(default_factory=dict)
    _seen: set[Any] = field(default_factory=set)
    _per_place: dict[Any, int] = field(default_factory=dict)
    _bytes: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _paused: threading.local = field(default_factory=threading.local)

    def met(self, rule: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], None] | None:
        """Take note of a call; returns how to forget it. Never raises: the program must not suffer from it."""
        if getattr(self._paused, "on", False):
            return None
        try:
            shape = (met.signature(args), met.signature(kwargs)) if kwargs else met.signature(args)
            known = self._known.get(identity(rule.__wrapped__))
            return self._remember(rule, shape, args, kwargs) if known is None or shape not in known[1] else None
        except Exception:  # an argument with a hostile __eq__, shape or dtype: the call goes on unwatched
            return None

    def _remember(
        self, rule: Any, shape: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[], None] | None:
        with self._lock:
            key = (met.facts(pair_of(rule)), shape)
            if key in self._seen:
                return None
            place = located(rule)
            if is_inside_framework(place) and not self.inside:
                return None
            self._seen.add(key)
            meeting = self._admitted(place, shape, args, kwargs)
        return functools.partial(self._forget, meeting, key, shape) if meeting else None

    def _admitted(self, rule: Found, shape: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Meeting | None:
        count = self._per_place[rule.where] = self._per_place.get(rule.where, 0) + 1
        if count > PER_PLACE:
            self.left_out[rule.where] = count - PER_PLACE
            return None
        meeting = Meeting(rule, *self._kept(args, kwargs))
        function = rule.rule.__wrapped__
        # Keeping the function keeps its id from being given to another one.
        self._known.setdefault(identity(function), (function, set()))[1].add(shape)
        self.meetings.append(meeting)
        return meeting

    def _forget(self, meeting: Meeting, key: Any, shape: Any) -> None:
        """The call raised: these inputs are not ones that the rule takes."""
        with self._lock:
            self._seen.discard(key)
            self._known[identity(meeting.rule.rule.__wrapped__)][1].discard(shape)
            self._per_place[meeting.rule.where] -= 1
            self.meetings = [other for other in self.meetings if other is not meeting]

    def _kept(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        size = met.size_in_bytes((args, kwargs))
        if self._bytes + size > MEMORY:
            return met.specs_only(args), met.specs_only(kwargs)
        self._bytes += size
        return met.frozen(args), met.frozen(kwargs)

    def take(self) -> list[Meeting]:
        """The meetings since the last time, each once."""
        with self._lock:
            taken, self.meetings = self.meetings, []
            return taken

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Calls from this thread do not count: for proving a rule while the program goes on."""
        self._paused.on = True
        try:
            yield
        finally:
            self._paused.on = False


def identity(function: Any) -> Any:
    """The same for each look at one method of one object, although Python makes a new object each time."""
    if type(function) is types.MethodType:
        return (id(function.__func__), id(function.__self__))
    return id(function)


def located(rule: Any) -> Found:
    """The rule with its place. What the user made of a function of a library's stands where the user calls it."""
    place = found(rule)
    ready = place.kind == "gradwright" or "(" in place.name
    if not ready or not place.file.startswith(LIBRARIES + tf_audit.framework_folders()):
        return place
    frame = sys._getframe()
    while frame and frame.f_code.co_filename.startswith(LIBRARIES + tf_audit.framework_folders()):
        frame = frame.f_back
    return replace(place, file=frame.f_code.co_filename, line=frame.f_lineno) if frame else place


@contextmanager
def watching(watch: Watch) -> Iterator[Watch]:
    """Let `watch` meet each rule that is called in this scope, also of frameworks that are imported within it."""
    with ExitStack() as stack:
        for module, hook in (("tensorflow", tf_audit.rules_called), ("gradwright.rule", own_rules_called)):
            stack.enter_context(_when_loaded(module, lambda hook=hook: stack.enter_context(hook(watch.met))))
        yield watch


@contextmanager
def compiled_run_eagerly() -> Iterator[None]:
    """From the moment TensorFlow is loaded, its compiled functions run op by op."""
    with ExitStack() as stack:
        stack.enter_context(_when_loaded("tensorflow", lambda: stack.enter_context(tf_audit.functions_run_eagerly())))
        yield


@contextmanager
def own_rules_called(noted: tf_audit.Met) -> Iterator[None]:
    """Tell of every call of gradwright's own rules."""
    kind = getattr(sys.modules["gradwright.rule"], "Rule", None)
    with tf_audit.class_watched(kind, noted) if kind is not None else nullcontext():
        yield


@contextmanager
def _when_loaded(module: str, act: Callable[[], Any]) -> Iterator[None]:
    """Act now if the module is there, else at the end of its import, whoever imports it."""
    if module in sys.modules:
        act()
        yield
        return
    finder = _AfterImport(module, act)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds nothing itself: it lets the others find one module and acts once that has been executed."""

    def __init__(self, module: str, act: Callable[[], Any]) -> None:
        self.module, self.act, self.busy = module, act, False

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != self.module or self.busy:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.busy = False
        if spec is not None and spec.loader is not None:
            spec.loader = _ActingLoader(spec.loader, self.act)
        return spec


class _ActingLoader(importlib.abc.Loader):
    def __init__(self, loader: Any, act: Callable[[], Any]) -> None:
        self.loader, self.act = loader, act

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.loader.exec_module(module)
        module.__loader__ = module.__spec__.loader = self.loader
        self.act()

    def __getattr__(self, name: str) -> Any:  # resources, source for tracebacks: the true loader answers
        return getattr(self.loader, name)
