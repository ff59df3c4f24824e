"""Where watchers stand: what happens to a rule is told to whoever listens on this thread's process.

Empty when nobody watches, so that a rule pays one truth test.
"""

from __future__ import annotations

from typing import Any, Protocol


class Listener(Protocol):
    """Somebody who wants to see backward passes."""

    def watch(self, pullback: Any, upstreams: list[Any], pulled: Any) -> Any:
        """See one backward: the pullback, the upstreams it got, what came of them."""


listeners: list[Listener] = []
