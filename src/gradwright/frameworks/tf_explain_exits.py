"""The doors by which an eager tensor leaves TensorFlow: `.numpy()`, `float()`, NumPy functions on tensors, ...

They are methods of a class and functions of a module, so the hooks are process-wide while they are set; whoever sets
them decides per thread what to do. A C function that reads a tensor's buffer directly passes unseen.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from tensorflow.python.framework.ops import EagerTensor

from gradwright.explain import lines
from gradwright.frameworks.tensorflow import is_variable

METHODS = {
    "numpy": ".numpy()",
    "__array__": "np.array()",
    "__float__": "float()",
    "__int__": "int()",
    "__index__": "int()",
    "__complex__": "complex()",
    "__bool__": "bool()",
    "tolist": ".tolist()",
    "item": ".item()",
    "__dlpack__": "dlpack",
}
FUNCTIONS = ("array", "asarray", "asanyarray", "ascontiguousarray")
PYTHON = "a Python function"  # the tensor left inside tf.py_function or tf.numpy_function
_REFLECTED = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "power": "__rpow__",
    "matmul": "__rmatmul__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
    "equal": "__eq__",
    "not_equal": "__ne__",
}
_undo: list[Callable[[], None]] = []
Report = Callable[[Any, str, Any], None]


def hook(report: Report) -> None:
    """From now on call `report(tensor, how, frame)` for each exit that the user's code causes."""
    for name, how in METHODS.items():
        if hasattr(EagerTensor, name):
            _set(EagerTensor, name, _watched(getattr(EagerTensor, name), how, report))
    _set(EagerTensor, "__array_ufunc__", _ufunc_hook(report))
    _set(EagerTensor, "__array_function__", _function_hook(report))
    for name in FUNCTIONS:
        _set(np, name, _watched(getattr(np, name), f"np.{name}()", report))


def unhook() -> None:
    """Put everything back as it was."""
    while _undo:
        _undo.pop()()


def _set(owner: Any, name: str, value: Any) -> None:
    own = vars(owner).get(name)
    setattr(owner, name, value)
    _undo.append((lambda: delattr(owner, name)) if own is None else (lambda: setattr(owner, name, own)))


def _watched(function: Callable, how: str, report: Report) -> Callable:
    @wraps(function)
    def leave(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        _tell(tensor, how, report)
        return function(tensor, *args, **kwargs)

    return leave


def _tell(value: Any, how: str, report: Report) -> None:
    tensors = [value] if isinstance(value, EagerTensor) else value if isinstance(value, (list, tuple)) else ()
    tensors = [t for t in tensors if isinstance(t, EagerTensor)]
    frame = sys._getframe(2)
    if tensors and (how := _allowed(frame, how)):
        for tensor in tensors:
            report(tensor, how, frame)


def _allowed(frame: Any, how: str) -> str:
    """Empty when TensorFlow reads a value for its own ends; `PYTHON` when it does so to run the user's Python."""
    transparent = (__file__, "/numpy/", "/tensorflow/python/autograph/", "__autograph_generated_file")
    while frame is not None:
        if _of_a_variable(frame):
            how = METHODS[frame.f_code.co_name]
        elif not any(part in frame.f_code.co_filename for part in transparent):
            break
        frame = frame.f_back
    if frame is not None and _within(frame, "tensorflow") and not frame.f_code.co_filename.endswith("script_ops.py"):
        return ""
    while frame is not None:
        if frame.f_code.co_filename.endswith("script_ops.py"):
            return PYTHON
        frame = frame.f_back
    return how


def _of_a_variable(frame: Any) -> bool:
    """Whether a variable reads itself here, because somebody asked it for its value."""
    return frame.f_code.co_name in METHODS and _within(frame, "tensorflow") and is_variable(frame.f_locals.get("self"))


def _within(frame: Any, package: str) -> bool:
    return lines.rank(frame.f_code.co_filename) == lines.INSIDE and f"/{package}/python/" in frame.f_code.co_filename


def _ufunc_hook(report: Report) -> Callable:
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        frame = sys._getframe(1)
        if method == "__call__" and _by_operator(frame) and ufunc.__name__ in _REFLECTED:
            return getattr(inputs[1], _REFLECTED[ufunc.__name__])(inputs[0])
        for tensor in (t for t in inputs if isinstance(t, EagerTensor)):
            _tell(tensor, f"np.{ufunc.__name__}()", report)
        return getattr(ufunc, method)(*map(_plain, inputs), **{k: _plain(v) for k, v in kwargs.items()})

    return __array_ufunc__


def _by_operator(frame: Any) -> bool:
    """Whether NumPy was entered by `array * tensor`, which TensorFlow answers, and not by `np.multiply(...)`."""
    name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return name.startswith(("BINARY_", "INPLACE_", "COMPARE_"))


def _function_hook(report: Report) -> Callable:
    def __array_function__(self, function, types, args, kwargs):
        _tell_all((args, kwargs), f"np.{function.__name__}()", report)
        return function(*_plain(list(args)), **{k: _plain(v) for k, v in kwargs.items()})

    return __array_function__


def _tell_all(value: Any, how: str, report: Report) -> None:
    if isinstance(value, EagerTensor):
        _tell(value, how, report)
    elif isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            _tell_all(part, how, report)


def _plain(value: Any) -> Any:
    if isinstance(value, EagerTensor):
        return value._numpy()
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value
