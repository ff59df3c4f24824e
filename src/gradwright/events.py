"""Where watchers stand: what happens to a rule is told to whoever listens.

Empty when nobody watches, so that a rule pays one truth test.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Listener(Protocol):
    """Somebody who wants to see backward passes."""

    def watch(self, pullback: Any, upstreams: list[Any], pulled: Any) -> Any:
        """See one backward: the pullback, the upstreams it got, what came of them.

        In a graph this is told once, while the pullback is traced: what is to happen at each run is put into the
        graph here, and gradients in `pulled` may be replaced by ones that wait for it.
        """


listeners: list[Listener] = []


class _Thread(threading.local):
    unwatched = 0


_thread = _Thread()


@contextmanager
def unwatched() -> Iterator[None]:
    """Within it pullbacks are called for other reasons than a backward pass (forward mode), and nobody is told."""
    _thread.unwatched += 1
    try:
        yield
    finally:
        _thread.unwatched -= 1


def is_unwatched() -> bool:
    """Whether a pullback is called for another reason than a backward pass."""
    return bool(_thread.unwatched)


def watched() -> bool:
    """Whether somebody listens, and this is a backward pass."""
    return bool(listeners) and not _thread.unwatched
