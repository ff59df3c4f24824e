"""Functions that draw random numbers: made to draw the same ones each time, and the user's generators put back."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np


@contextlib.contextmanager
def kept(backend: Any) -> Iterator[None]:
    """Whatever is seeded inside, the generators go on afterwards as if nothing had been drawn."""
    python, legacy, own = random.getstate(), np.random.get_state(), backend.random_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)
        backend.restore_random_state(own)


def sow(backend: Any, seed: int) -> None:
    """Make the next random numbers of Python, NumPy and the framework repeat."""
    random.seed(seed)
    np.random.seed(seed)
    backend.seed(seed)
