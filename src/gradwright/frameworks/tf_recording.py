"""Recording on tapes where a rule's forward or a pushforward has it switched off."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from gradwright.frameworks import tf_private as private

try:
    from tensorflow.python.eager.forwardprop_util import push_forwardprop_state
except ImportError:  # pragma: no cover - another TensorFlow
    push_forwardprop_state: Any = contextlib.nullcontext


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Within it, tapes and accumulators record, whatever holds around it.

    The forward of a rule runs unrecorded where nothing but a first order is possible, and an accumulator that asks
    for a pushforward hears nothing until it has it; a tape inside of either would stay empty. Where TensorFlow does
    not tell whether recording is stopped, nothing is changed.
    """
    stopped = private.recording_is_stopped()
    if stopped:
        private.restart_recording()
    try:
        with push_forwardprop_state():
            yield
    finally:
        if stopped:
            private.stop_recording_now()
