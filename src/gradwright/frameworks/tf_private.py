"""The private corners of TensorFlow that rules need, each behind a name that says what it does.

Every name here has a public fall-back, chosen at import by `_private`; tests take the private half away and run
the same rules.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context, record, tape
from tensorflow.python.framework import func_graph, ops

EagerTensor = ops.EagerTensor
FuncGraph = func_graph.FuncGraph


def _private(owner: Any, name: str, fallback: Callable[..., Any]) -> Callable[..., Any]:
    """The private function if TensorFlow still has it, else the fall-back."""
    return getattr(owner, name, None) or fallback


class _Stopped(threading.local):
    """The public way to stop recording is a context manager; here it is as two functions."""

    def __init__(self) -> None:
        self.entered: list[Any] = []

    def stop(self) -> None:
        self.entered.append(record.stop_recording())
        self.entered[-1].__enter__()

    def restart(self) -> None:
        self.entered.pop().__exit__(None, None, None)


_stopped = _Stopped()

# What the tapes of this thread watch: 0 nothing, 1 first order only, 2 a higher order is possible.
possible_orders = _private(pywrap_tfe, "TFE_Py_TapeSetPossibleGradientTypes", lambda tensors: 2)
no_tapes = _private(pywrap_tfe, "TFE_Py_TapeSetIsEmpty", lambda: False)
stop_recording_now = _private(pywrap_tfe, "TFE_Py_TapeSetStopOnThread", _stopped.stop)
restart_recording = _private(pywrap_tfe, "TFE_Py_TapeSetRestartOnThread", _stopped.restart)
recording_is_stopped = _private(pywrap_tfe, "TFE_Py_TapeSetIsStopped", lambda: False)
record = record
record_operation = _private(pywrap_tfe, "TFE_Py_TapeSetRecordOperation", record.record_operation)
record_backprop_only = _private(
    pywrap_tfe, "TFE_Py_TapeSetRecordOperationBackprop", record.record_operation_backprop_only
)
tell_tapes_of = _private(pywrap_tfe, "TFE_Py_TapeVariableAccessed", tape.variable_accessed)
newest_id = _private(pywrap_tfe, "TFE_Py_UID", ops.uid)
packed_jvps = _private(pywrap_tfe, "TFE_Py_PackJVPs", lambda tensors: None)


def copy_without_record(tensor: Any) -> Any:
    """The same value as a new tensor, with nothing recorded on any tape."""
    return tensor._copy_nograd()


def _copy_by_identity(tensor: Any) -> Any:
    with tf.autodiff.ForwardAccumulator([], []), record.stop_recording():
        return tf.identity(tensor)


if not hasattr(EagerTensor, "_copy_nograd"):  # pragma: no cover
    copy_without_record = _copy_by_identity

shape_tuple: Callable[[Any], tuple[int, ...]] = _private(EagerTensor, "_shape_tuple", lambda t: tuple(t.shape))
dtype_number: Callable[[Any], int] = _private(EagerTensor, "_datatype_enum", lambda t: t.dtype.as_datatype_enum)


# The number of an eager tensor; later tensors have larger ones.
tensor_id: Callable[[Any], int] = operator.attrgetter("_id")


def executing_eagerly() -> bool:
    """Whether ops run now, on this thread, rather than being put into a graph."""
    return context.context().executing_eagerly()


_thread_state = getattr(context.context(), "_thread_local_data", None)
if _thread_state is not None and hasattr(_thread_state, "is_eager"):

    def executing_eagerly() -> bool:
        """Whether ops run now: the same answer in a tenth of a microsecond."""
        return context.context()._thread_local_data.is_eager


def jvps_of(tensors: list[Any]) -> bool:
    """Whether a forward accumulator of this thread has a tangent for any of these tensors."""
    packed = packed_jvps(tensors)
    return bool(packed is not None and packed[1])
