"""The private corners of TensorFlow that rules need, each behind a name that says what it does.

Every name here has a public fall-back, chosen at import by `_private`; tests take the private half away and run
the same rules.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
import threading
from collections.abc import Callable, Iterator
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


def in_xla(graph: Any) -> bool:
    """Whether what is put into this graph will be compiled by XLA, where asserts and strings have no place."""
    from tensorflow.python.ops import control_flow_util

    return control_flow_util.GraphOrParentsInXlaContext(graph)


def jvps_of(tensors: list[Any]) -> bool:
    """Whether a forward accumulator of this thread has a tangent for any of these tensors."""
    packed = packed_jvps(tensors)
    return bool(packed is not None and packed[1])


def register_gradient(name: str, function: Callable[..., Any]) -> None:
    """Make a gradient function known under a name."""
    ops.RegisterGradient(name)(function)


def forget_gradient(name: str) -> None:
    """Take a gradient function out of the registry, which has no public way to do so."""
    registry = getattr(ops, "gradient_registry", None) or getattr(ops, "_gradient_registry", None)
    getattr(registry, "_registry", {}).pop(name, None)


def enclosing_graphs(graph: Any) -> list[Any]:
    """A graph and the function graphs around it, to which its ops may be copied."""
    graphs = [graph]
    while isinstance(graph, FuncGraph):
        graph = graph.outer_graph
        if isinstance(graph, FuncGraph):
            graphs.append(graph)
    return graphs


def transposing_for_forward_mode() -> bool:
    """Whether TensorFlow is building a JVP from a backward function, which it does by differentiating it.

    Nothing but the call stack tells it from a second derivative; without the frame, no refusal is possible.
    """
    return _frame_named("_wrap_forward_function_with_jvps", "_jvp_helper") is not None


def op_being_recorded() -> int | None:
    """Which op TensorFlow is recording just now; a gradient asked for meanwhile is for that op's JVP."""
    frame = _frame_named("record_gradient")
    return None if frame is None else id(frame)


def _frame_named(*names: str) -> Any:
    """The nearest frame of the call stack with one of these names."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name in names:
            return frame
        frame = frame.f_back
    return None


def gradient_name(op: Any) -> str:
    """The name of the gradient that an op was given, or an empty one."""
    try:
        return op.get_attr("_gradient_op_type").decode()
    except ValueError:
        return ""


def convert_in_pfor(op_type: str, convert: Callable[[Any, Any], Any]) -> bool:
    """Stand before the conversion of an op type in vectorised loops; `convert` gets the native one to fall back on."""
    from tensorflow.python.ops.parallel_for import pfor

    registry = getattr(pfor, "_pfor_converter_registry", None)
    if registry is None or op_type not in registry:
        return False
    native = registry[op_type]
    registry[op_type] = functools.partial(convert, native=native)
    return True


@contextlib.contextmanager
def outside_graphs() -> Iterator[None]:
    """Within it ops run at once, whatever graph is being built, and no tape sees them."""
    with ops.init_scope(), context.eager_mode():
        yield


def variable_handle(name: str, dtype: Any, shape: Any) -> Any:
    """The handle of a variable that is found by name, with what derivatives want to know of a handle."""
    handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=name)
    try:
        from tensorflow.python.ops import handle_data_util

        handle_data_util.set_handle_data(handle, handle_data_util.create_handle_data(tf.TensorShape(shape), dtype))
    except (ImportError, AttributeError):
        pass  # Only a second derivative of a watched function under XLA, taken from outside, needs it.
    return handle


def teach_vectorised_loops(op_type: str, convert: Callable[[Any], Any]) -> bool:
    """Give vectorised loops a form of an op that they do not know; one that TensorFlow has is left alone."""
    from tensorflow.python.ops.parallel_for import pfor

    registry = getattr(pfor, "_pfor_converter_registry", None)
    if registry is None or op_type in registry:
        return False
    registry[op_type] = lambda pfor_input, *rest, **options: convert(pfor_input)
    return True


def for_all_rows(tensor: Any) -> Any:
    """A result of a conversion that is the same for all rows."""
    from tensorflow.python.ops.parallel_for.pfor import wrap

    return wrap(tensor, False)


def in_vectorised_loop() -> bool:
    """Whether the body of a vectorised loop is being traced; its ops are a pattern, run once beside the rows."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_pfor_impl" and "parallel_for" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def attribute(op: Any, name: str) -> Any:
    """An attribute of an op, or None."""
    try:
        return op.get_attr(name)
    except ValueError:
        return None


def set_attribute(op: Any, name: str, value: Any) -> None:
    """Write an attribute into an op; without the private way, saved rules are TensorFlow's own affair."""
    setter = getattr(op, "_set_attr", None)
    if setter is not None:
        setter(name, value)


def stand_before_function_loader(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
    """Wrap the loader of a saved model's functions."""
    from tensorflow.python.saved_model import function_deserialization

    native = getattr(function_deserialization, "load_function_def_library", None)
    if native is None:
        return False
    function_deserialization.load_function_def_library = wrap(native)
    return True


def choose_gradients_to_save(chosen: Callable[[Any], bool]) -> bool:
    """Let `chosen` say which ops' gradients TensorFlow may trace when it saves a model."""
    from tensorflow.python.saved_model import save

    native = getattr(save, "_iterate_op_types", None)
    if native is None:
        return False

    def iterate(function: Any) -> Any:
        return ((op_type, op) for op_type, op in native(function) if chosen(op))

    iterate.__wrapped__ = native  # type: ignore[attr-defined]
    save._iterate_op_types = iterate
    return True


def is_control_flow(graph: Any) -> bool:
    """Whether a graph is the body of a loop or branch."""
    from tensorflow.python.ops import control_flow_v2_func_graphs as bodies

    kinds = tuple(getattr(bodies, n) for n in ("CondBranchFuncGraph", "WhileCondFuncGraph", "WhileBodyFuncGraph"))
    return isinstance(graph, kinds)


def constant_type(value: Any) -> Any:
    """The type under which `tf.function` treats an argument as a constant of python."""
    from tensorflow.core.function.trace_type import default_types

    return default_types.Literal(value)


def converted_by_autograph(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose python control flow on tensors has become graph control flow."""
    return tf.autograph.to_graph(function)


class SideEffects:
    """The ops of a graph that must run though no result needs them, in the order in which they were written.

    TensorFlow's own bookkeeping looks at every op; a graph without a stateful one is spared it.
    """

    def __init__(self, graph: Any):
        from tensorflow.python.framework import auto_control_deps

        self._graph = graph
        self._control = auto_control_deps.AutomaticControlDependencies()
        with graph.as_default():
            self._control.__enter__()

    def settle(self) -> set[Any]:
        """Order the ops that have effects; they are to be the control outputs of the function."""
        if any(op._is_stateful for op in self._graph.get_operations()):
            self._control.__exit__(None, None, None)
            return self._control.ops_which_must_run
        self._graph._add_control_dependencies = False
        return set()


def placeholder(dtype: Any, shape: Any) -> Any:
    """A place for a value in the function graph that is being built."""
    from tensorflow.python.eager import graph_only_ops

    return graph_only_ops.graph_placeholder(dtype, shape)


def outside_of(graph: Any, tensor: Any) -> Any:
    """The tensor that a place of a function graph was captured from; tapes know variables by that handle."""
    for external, internal in getattr(graph, "captures", ()):
        if internal is tensor:
            return external
    return tensor


def is_branch_gradient(graph: Any) -> bool:
    """Whether a graph is the gradient of a branch of tf.cond."""
    return type(graph).__name__ == "_CondGradFuncGraph"


def leave_unconverted(module: str) -> bool:
    """Tell AutoGraph that a module's functions are to be called as they are."""
    from tensorflow.python.autograph.core import config

    rules = getattr(config, "CONVERSION_RULES", None)
    if rules is None or not hasattr(config, "DoNotConvert"):
        return False
    config.CONVERSION_RULES = (config.DoNotConvert(module), *rules)
    return True
