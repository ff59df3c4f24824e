"""Watching JAX: the seam tells what flowed with values, at once or from inside a compiled program."""

from __future__ import annotations

import jax

from gradwright.observe.hub import Hub
from gradwright.observe.readers import ArrayReader


class JaxReader(ArrayReader):
    """Reads arrays; what compiled programs tell arrives after they have returned."""

    def drain(self, hub: Hub) -> None:
        """Wait until all that runs has told what it saw."""
        jax.effects_barrier()
