"""The table of a log, shown in the terminal while it fills."""

from __future__ import annotations

from typing import Any


class Display:
    """Shows a log until it is stopped."""

    def __init__(self, log: Any):
        from rich.live import Live

        self._live = Live(get_renderable=lambda: log.table().__rich__(), refresh_per_second=4, transient=False)
        self._live.start()

    def stop(self) -> None:
        """Show the last state, and let go of the terminal."""
        self._live.stop()
