"""TensorFlow's random state, put aside while rules are proven in the middle of somebody else's program."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradwright.frameworks.tf_audit import eager_context, loaded


@contextmanager
def random_state_kept() -> Iterator[None]:
    """TensorFlow's random numbers go on afterwards as if nothing had been drawn in between."""
    if not loaded():
        yield
        return
    import tensorflow as tf

    generator = _global_generator()
    state = tf.identity(generator.state) if generator else None
    try:
        with _other_seeds():
            yield
    finally:
        if generator:
            generator.state.assign(state)


@contextmanager
def _other_seeds() -> Iterator[None]:
    # Each pair of seeds has a kernel of its own, which counts its draws and cannot be set back. So the seeds that the
    # program uses are not touched at all: in between there are others.
    context = eager_context()
    if context is None or not hasattr(context, "_rng"):
        yield
        return
    before = context._seed, context._rng
    context._seed, context._rng = 0x5EED, random.Random(0x5EED)
    try:
        yield
    finally:
        context._seed, context._rng = before


def _global_generator() -> Any:
    # The public getter would make one, and where it is made decides which numbers it gives.
    return getattr(sys.modules.get("tensorflow.python.ops.stateful_random_ops"), "global_generator", None)
