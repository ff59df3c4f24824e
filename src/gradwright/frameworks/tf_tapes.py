"""What is known of this thread's tapes and variable reads.

TensorFlow tells neither how many tapes and accumulators are active nor in which order variables are read (its
watcher keeps a set). Both are learnt by standing in front of four functions of `tensorflow.python.eager`, which
are called unchanged, and behind one attribute of variables; where they are missing, a rule takes the slower way that
needs neither.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tensorflow.python.eager import forwardprop, record, tape
from tensorflow.python.ops import resource_variable_ops

from gradwright.frameworks import tf_private as private


class _Thread(threading.local):
    def __init__(self) -> None:
        self.depth: int | None = None
        self.readers: list[list[Any]] = []


thread = _Thread()


def _counted(function: Callable[..., Any], step: int) -> Callable[..., Any]:
    """The function, with the number of active tapes of this thread kept."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        # An empty set of tapes is a known beginning; before that, tapes may be active that were never counted.
        if private.no_tapes():
            thread.depth = 0
        result = function(*args, **kwargs)
        if thread.depth is not None:
            thread.depth += step
        return result

    counted.__wrapped__ = function  # type: ignore[attr-defined]
    return counted


def _heard(function: Callable[..., Any]) -> Callable[..., Any]:
    """`variable_accessed`, with the reading told to the rules whose forward is running."""

    def heard(variable: Any) -> Any:
        if thread.readers:
            _tell(variable)
        return function(variable)

    heard.__wrapped__ = function  # type: ignore[attr-defined]
    return heard


def _tell(variable: Any) -> None:
    """Tell the rules whose forward is running that a variable is read."""
    for reads in thread.readers:
        for one in _resolved(variable):
            if all(one is not other for other in reads):
                reads.append(one)


class _Asked:
    """The attribute that TensorFlow's C++ code looks at when an eager op (`x @ w`) reads a variable by itself.

    That is the only sign of such a reading; python code asks by the property `trainable`, which goes round it.
    """

    def __get__(self, variable: Any, owner: type | None = None) -> Any:
        if variable is None:
            return self
        if thread.readers:
            _tell(variable)
        return _own_trainable(variable)

    def __set__(self, variable: Any, value: Any) -> None:
        variable.__dict__["_trainable"] = value


def _own_trainable(variable: Any) -> Any:
    try:
        return variable.__dict__["_trainable"]
    except KeyError:
        raise AttributeError("_trainable") from None


def _resolved(variable: Any) -> list[Any]:
    """The variables that tapes know for this one: its mirrored container under a distribution strategy."""
    override = getattr(tape, "_variables_override", None)
    return list(override(variable)) if override is not None else [variable]


def _install() -> bool:
    """Stand in front of the functions, once a process; False if TensorFlow has moved them."""
    accumulator = forwardprop.ForwardAccumulator
    places = [
        (tape, "push_new_tape", 1),
        (tape, "push_tape", 1),
        (tape, "pop_tape", -1),
        (accumulator, "_push_accumulator", 1),
        (accumulator, "_pop_accumulator", -1),
    ]
    if not all(hasattr(owner, name) for owner, name, _ in places):
        return False
    if not hasattr(resource_variable_ops, "variable_accessed"):
        return False
    for owner, name, step in places:
        setattr(owner, name, _counted(getattr(owner, name), step))
    resource_variable_ops.variable_accessed = _heard(resource_variable_ops.variable_accessed)
    variable = resource_variable_ops.BaseResourceVariable
    variable._trainable = _Asked()
    variable.trainable = property(_own_trainable, doc=variable.trainable.__doc__)
    return True


installed = _install()


def only_one_tape() -> bool:
    """Whether exactly one tape or accumulator is active, so that no higher order is possible."""
    return thread.depth == 1


class Reads:
    """Within it, the variables that are read, in order of first use.

    Where the hook could not be installed, TensorFlow's own watcher serves: trainable ones, oldest first.
    """

    __slots__ = ("_watcher", "variables")

    def __enter__(self) -> list[Any]:
        self.variables: list[Any] = []
        self._watcher = None
        if installed:
            thread.readers.append(self.variables)
        else:
            self._watcher = record.VariableWatcher()
            self._watcher.__enter__()
        return self.variables

    def __exit__(self, *error: Any) -> None:
        if self._watcher is None:
            thread.readers.pop()
        else:
            self._watcher.__exit__(*error)
            self.variables.extend(self._watcher.watched_variables())


def run(rule: Any, bound: Any, first_order: bool, pair: Any = None) -> tuple[Any, Any, list[Any]]:
    """Run the user's function: output, grad and the variables read, without recording if only a first order is."""
    born = private.newest_id()
    with Reads() as reads:
        if first_order:
            private.stop_recording_now()
        try:
            result = (pair or rule.pair)(*bound.args, **bound.kwargs)
        finally:
            if first_order:
                private.restart_recording()
    output, grad = rule.unpack(result)
    return output, grad, Heard(reads, born)


class Heard(list[Any]):
    """Variables in order of first use; `young` are those that the forward itself made.

    A young one may be a temporary, which nobody asks about, or the weight of a layer that is built at its first call:
    a rule may answer for it and need not.
    """

    def __init__(self, variables: list[Any], moment: int):
        super().__init__(variables)
        self.young = frozenset(id(v) for v in variables if born_after(v, moment))


def older(variables: list[Any], moment: int) -> list[Any]:
    """The variables that were there before a moment; one made by the forward itself is nobody else's."""
    return [v for v in variables if not born_after(v, moment)]


def born_after(variable: Any, moment: int) -> bool:
    """Whether a variable was made after a moment."""
    handle = getattr(variable, "_handle", None)
    return isinstance(handle, private.EagerTensor) and private.tensor_id(handle) > moment
