"""The recorder of TensorFlow runs: every eager op of one thread with its tensors, its line and its pullback.

Private TensorFlow stands here behind names: `op_callbacks` (each eager op, after it ran), the C entry that puts
custom gradients and function calls on tapes, and the thread's stop flag. Hooks that are module-wide are set while
at least one thread records, pass through in every other thread, and are counted out again.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import ops

from gradwright.explain import lines
from gradwright.explain.record import Kind, Log, Node
from gradwright.frameworks import tf_eager, tf_explain_exits, tf_explain_pull, tf_private
from gradwright.frameworks import tf_explain_places as places

_here = threading.local()  # .log: what this thread records into; .users: how many asked for it
_lock = threading.Lock()
_hooked = 0  # recording threads
_originals: list[tuple[Any, str, Any]] = []
_ENTRIES = (  # by which custom gradients and function calls get onto tapes; our own rules have bound theirs early
    (pywrap_tfe, "TFE_Py_TapeSetRecordOperation"),
    (pywrap_tfe, "TFE_Py_TapeSetRecordOperationBackprop"),
    (tf_private, "record_operation"),
    (tf_private, "record_backprop_only"),
    (tf_eager, "record_operation"),
)
_QUESTIONS = ((tf_private, "no_tapes"), (tf_eager, "no_tapes"))
_ORDERS = ((tf_private, "possible_orders"), (tf_eager, "possible_orders"))

_METADATA = frozenset({"Placeholder", "_Arg", "NoOp"})


def current() -> Log | None:
    """The log that this thread records into, if it does."""
    return getattr(_here, "log", None)


@contextmanager
def recording(keep_values: bool = True) -> Iterator[Log]:
    """Record this thread's eager ops; inside another recording, join it."""
    log = begin(keep_values)
    try:
        yield log
    finally:
        end()


def begin(keep_values: bool = True, sparse: bool = False) -> Log:
    """Start to record (or join); every `begin` needs its `end` in the same thread."""
    if current() is None:
        _here.log, _here.users = Log(keep_values, sparse), 0
        _hook()
    _here.users += 1
    return _here.log


def end() -> None:
    """Leave the recording; the last one to leave takes the hooks away."""
    _here.users -= 1
    if _here.users == 0:
        _here.log = None
        _unhook()


@contextmanager
def into(log: Log | None) -> Iterator[None]:
    """Let this thread record into another log for a while, or into none."""
    before, _here.log = current(), log
    hook_needed = log is not None and before is None
    try:
        if hook_needed:
            _hook()
        yield
    finally:
        if hook_needed:
            _unhook()
        _here.log = before


@contextmanager
def at_rest() -> Iterator[None]:
    """Neither our records nor the user's tapes see what runs in here."""
    with into(None), stopped():
        yield


@contextmanager
def stopped() -> Iterator[None]:
    """No tape of this thread records in here."""
    already = pywrap_tfe.TFE_Py_TapeSetIsStopped()
    if not already:
        pywrap_tfe.TFE_Py_TapeSetStopOnThread()
    try:
        yield
    finally:
        if not already:
            pywrap_tfe.TFE_Py_TapeSetRestartOnThread()


def running(line: str) -> None:
    """Say which line the op is of that is run again now, for what happens inside it without a line of its own."""
    _here.line = line


def _line(frame: Any) -> str:
    return lines.of_frame(frame, getattr(_here, "stop", None), getattr(_here, "line", ""), places.written)


@contextmanager
def again(code: Any) -> Iterator[None]:
    """Ops are run again in here by the function with this code: no line beyond it counts."""
    before = getattr(_here, "stop", None), getattr(_here, "line", "")
    _here.stop = code
    try:
        yield
    finally:
        _here.stop, _here.line = before


def _hook() -> None:
    global _hooked
    with _lock:
        _hooked += 1
        if _hooked == 1:
            # Our own rules ask whether a tape would see them; a recording counts as one.
            stand_ins = (*((e, _on_record) for e in _ENTRIES), *((q, _nobody) for q in _QUESTIONS))
            for (owner, name), stand_in in (*stand_ins, *((o, _orders) for o in _ORDERS)):
                _originals.append((owner, name, getattr(owner, name)))
                setattr(owner, name, partial(stand_in, getattr(owner, name)))
            tf_explain_exits.hook(_on_exit)
        context.context().add_op_callback(_on_op)
        execute.execute = execute.execute_with_callbacks


def _unhook() -> None:
    global _hooked
    with _lock:
        _hooked -= 1
        context.context().remove_op_callback(_on_op)
        if _hooked == 0:
            while _originals:
                setattr(*_originals.pop())
            tf_explain_exits.unhook()
            if not context.context().op_callbacks:
                execute.execute = execute.quick_execute


def _nobody(original: Callable) -> bool:
    return original() and current() is None


def _orders(original: Callable, tensors: Any) -> int:
    return original(tensors) or int(current() is not None)


def _eager(tensors: Any) -> list:
    tensors = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    return [t for t in tensors if isinstance(t, ops.EagerTensor)]


def _on_op(op_type, inputs, attrs, outputs, op_name=None, graph=None):
    log = current()
    if log is not None and graph is None:
        name = op_type.decode() if isinstance(op_type, bytes) else op_type
        frame = sys._getframe(1)
        if not (name.startswith("__") or name in _METADATA) or _called(frame) is not None:
            where = _line(frame)
            unseen = [t for t in inputs if isinstance(t, ops.EagerTensor) and not log.knows(t._id)]
            if unseen and name != "ReadVariableOp":
                _note_silent_reads(log, unseen, frame, where)
            node = note(log, name, attrs, list(inputs), _eager(outputs), where, frame)
            node.direct = name not in places.CLOSED or places.direct(name, places.callers(frame))
    return outputs


def _note_silent_reads(log: Log, unseen: list, frame: Any, where: str) -> None:
    """An op that is given a variable reads it in C, without a word: find it among the arguments of the op's wrapper."""
    arguments = list(_flat(frame.f_locals.values()))
    given = {t._id for t in arguments if isinstance(t, ops.EagerTensor)}
    made = [t for t in unseen if t._id not in given]
    for variable in (v for v in arguments if isinstance(getattr(v, "handle", None), ops.EagerTensor)):
        match = next((t for t in made if t.dtype == variable.dtype and t.shape == variable.shape), None)
        if match is not None:
            made.remove(match)
            note(log, "ReadVariableOp", (), [variable.handle], [match], where)


def _flat(arguments: Any) -> Iterator[Any]:
    for value in arguments:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def note(log: Log, name: str, attrs: tuple, inputs: list, outputs: list, where: str, frame: Any = None) -> Node:
    """Add the node of one eager op that has just run."""
    remember(log, [t for t in inputs if isinstance(t, ops.EagerTensor)] + outputs)
    keys = tuple(t._id if isinstance(t, ops.EagerTensor) else None for t in inputs)
    node = Node(name, where, keys, tuple(t._id for t in outputs), stopped=pywrap_tfe.TFE_Py_TapeSetIsStopped())
    function = _called(frame) if frame is not None else None
    if function is not None:
        return _note_call(log, node, function.graph, inputs, outputs)
    if name.startswith("Assign") and name.endswith("VariableOp"):
        _note_assignment(log, node)
    elif name == "ReadVariableOp":
        _note_read(log, node)
    if name == "EagerPyFunc":
        _note_python(log, node, attrs, inputs, outputs)
    if node.pull is None:
        node.pull = partial(tf_explain_pull.native, node, name, attrs, inputs, outputs)
    return _added(log, node, outputs)


def _added(log: Log, node: Node, outputs: list) -> Node:
    if log.asleep:
        node.pull = node.rule = None
    elif not log.keep_values:
        forget(node, outputs)
    return log.add(node)


def forget(node: Node, outputs: list) -> None:
    """Try a node's pullback now, keep the states that come of it, and let its tensors go."""
    if node.pull is not None:
        with at_rest():
            node.pull = tf_explain_pull.flags(node.pull, outputs, len(node.inputs))
    node.rule = lines.of_function(node.rule) if node.rule is not None else None


def remember(log: Log, tensors: list, asked: bool = False) -> None:
    """Keep the tensors, or only what kind they are; what is asked for is kept even by a log that is asleep."""
    if log.keep_values and (asked or not log.asleep):
        log.values.update((t._id, t) for t in tensors)
        return
    for t in tensors:
        if t._id not in log.kinds:
            log.kinds[t._id] = tf_explain_pull.kind(t)


def _called(frame: Any) -> Any:
    """The traced function that an eager call runs, found on the stack a few frames above the op's own."""
    for _ in range(8):
        if frame is None:
            return None
        if frame.f_code.co_name == "call_flat" and frame.f_code.co_filename.endswith("atomic_function.py"):
            return frame.f_locals["self"]
        frame = frame.f_back
    return None


def _note_call(log: Log, node: Node, graph: Any, inputs: list, outputs: list) -> Node:
    from gradwright.frameworks import tf_explain_unfold

    node.op, node.kind, node.stopped = getattr(graph, "name", node.op), "call", False
    states = {} if log.asleep else tf_explain_unfold.variables_before(log, graph, inputs)
    run = partial(tf_explain_unfold.unfold, log, graph, inputs, outputs, states)
    if log.asleep:
        return log.add(node)
    if log.keep_values:
        node.unfold = run
    else:
        node.unfolded = run()
    return log.add(node)


def _note_assignment(log: Log, node: Node) -> None:
    handle, value = node.inputs[:2]
    earlier = log.states.get(handle, []) if node.op != "AssignVariableOp" else []
    log.states[handle] = [*earlier, (value, node.where)]


def _note_read(log: Log, node: Node) -> None:
    """What was assigned to the variable reaches the read value, but no gradient goes that way."""
    stored = log.states.get(node.inputs[0], ())
    node.causes = {slot: ("assigned", where) for slot, (_, where) in enumerate(stored, 1)}
    node.inputs += tuple(key for key, _ in stored)
    node.pull = partial(_read_back, len(stored))


def _read_back(stored: int, upstreams: list) -> list:
    return [upstreams[0], *[None] * stored]


def _note_python(log: Log, node: Node, attrs: tuple, inputs: list, outputs: list) -> None:
    """A differentiable Python function has left its own tape behind: tie what it ran inside to the outside."""
    node.kind = "pyfunc"
    inside = tf_explain_pull.ran_inside(attrs)
    if inside is None:
        return
    began, ended = inside
    remember(log, began + ended)
    node.unfolded = [link(a, b) for a, b in zip(ended, outputs, strict=False)]
    entry = [link(a, b) for a, b in zip([t for t in inputs if isinstance(t, ops.EagerTensor)], began, strict=False)]
    received = {t._id for t in began}
    place = next((i for i, n in enumerate(log.nodes) if received.intersection(n.inputs)), len(log.nodes))
    for each in entry:  # before the first op that ran inside, and counted to the same moment
        each.index = log.nodes[place].index if place < len(log.nodes) else log.count
        log.producer[each.outputs[0]] = each
    log.nodes[place:place] = entry


def link(source: Any, target: Any) -> Node:
    """A node that says: these two tensors are one."""
    return Node("", "", (source._id,), (target._id,), pull=list, kind="link")


def _on_record(original: Callable, name: Any, outputs: Any, inputs: Any, backward: Callable, *rest: Any) -> None:
    original(name, outputs, inputs, backward, *rest)
    log = current()
    made, given = _eager(outputs), _eager(inputs)
    if log is None or not made or len(made) != len(outputs):
        return
    last = log.producer.get(made[0]._id)
    if last is not None and last.kind == "call":
        last.pull = last.pull or tf_explain_pull.recorded(last, backward, made)
        return
    remember(log, made + given)
    where = _line(sys._getframe(1))
    keys = tuple(getattr(t, "_id", None) for t in inputs)
    node = Node(str(name), where, keys, tuple(t._id for t in made), stopped=pywrap_tfe.TFE_Py_TapeSetIsStopped())
    node.rule = tf_explain_pull.users_function(backward)
    node.kind = "op" if node.rule is None else "rule"
    node.pull = tf_explain_pull.recorded(node, backward, made)
    _added(log, node, made)


def _on_exit(tensor: Any, how: str, frame: Any) -> None:
    log = current()
    if log is not None and isinstance(tensor, ops.EagerTensor):
        from gradwright.explain.record import Exit

        log.exits.append(Exit(tensor._id, how, _line(frame), log.count, now(), places.spot(frame)))


def now() -> int:
    """A moment on the clock that numbers tensors: every later tensor has a larger id."""
    return ops.uid()


def kind_of(log: Log, key: Any) -> Kind | None:
    """What is known of a tensor of the log."""
    tensor = log.values.get(key)
    return log.kinds.get(key) if tensor is None else tf_explain_pull.kind(tensor)
