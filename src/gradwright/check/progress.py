"""A bar on the terminal while a check takes long; nothing for quick ones, nothing where nobody looks."""

from __future__ import annotations

import sys
import time
from typing import Any

PATIENCE = 1.0  # seconds


class Progress:
    """Advances from stage to stage; the bar appears once patience is over."""

    def __init__(self, name: str, stages: int):
        self.name, self.stages = name, stages
        self.start, self.done = time.monotonic(), 0
        self.bar: Any = None
        self.task: Any = None

    def stage(self, doing: str) -> None:
        """Begin the next stage."""
        self.done += 1
        if self.bar is None and self._late():
            self._open()
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done - 1, description=f"{self.name}: {doing}")

    def _late(self) -> bool:
        return time.monotonic() - self.start > PATIENCE and sys.stderr.isatty()

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        self.bar = Bar(console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task(self.name, total=self.stages)
        self.bar.start()

    def close(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
