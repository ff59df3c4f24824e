"""Recording on tapes where a rule's forward has it switched off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gradwright.frameworks import tf_private as private


@contextmanager
def recording() -> Iterator[None]:
    """Within it, tapes record, whatever holds around it.

    The forward of a rule runs unrecorded where nothing but a first order is possible; a tape inside of it would
    stay empty. Where TensorFlow does not tell whether recording is stopped, nothing is changed.
    """
    stopped = private.recording_is_stopped()
    if stopped:
        private.restart_recording()
    try:
        yield
    finally:
        if stopped:
            private.stop_recording_now()
