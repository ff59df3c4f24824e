"""What a watched run keeps of a rule it met: which rule, which signature, and inputs to prove it on later.

A training loop calls one rule a million times, and may make it anew each time. Two rules count as the same when their
code, the plain values they closed over and the object they are bound to are the same; two calls have the same
signature when shapes, dtypes and plain arguments agree.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwright.check.guess import Spec, make
from gradwright.frameworks import tf_audit

PLAIN = (str, bytes, bool, int, float, complex, types.NoneType)
PLAIN_TYPES = frozenset(PLAIN)


def facts(value: Any, depth: int = 4) -> Any:
    """What makes a rule the rule it is, as something hashable."""
    if isinstance(value, PLAIN):
        return (type(value), value)
    if depth == 0:
        return type(value)
    if isinstance(value, types.MethodType):
        return (facts(value.__func__, depth - 1), id(value.__self__))
    if isinstance(value, types.FunctionType):
        return (
            value.__code__,
            tuple(_cell(c, depth - 1) for c in value.__closure__ or ()),
            _defaults(value, depth - 1),
        )
    if isinstance(value, functools.partial):
        return (facts(value.func, depth - 1), tuple(facts(a, depth - 1) for a in value.args))
    if tf_audit.is_variable(value):
        return id(value)
    return _tensor_fact(value) or (type(value), id(value))


def _cell(cell: Any, depth: int) -> Any:
    try:
        return facts(cell.cell_contents, depth)
    except ValueError:  # a name that is not set yet
        return None


def _defaults(function: types.FunctionType, depth: int) -> Any:
    return tuple(facts(v, depth) for v in function.__defaults__ or ())


def _tensor_fact(value: Any) -> Any:
    # A tensor that a rule closes over may be a fresh one at each step: it counts by its shape, not by itself.
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return (str(value.dtype), tf_audit.static_shape(value))
    return None


def signature(value: Any) -> Any:
    """The signature of one argument, of a tuple of them or of any structure: hashable."""
    kind = type(value)  # the common cases first: this runs at each call of a rule
    if kind is tuple:
        return tuple([signature(v) for v in value])
    if kind.__name__ == tf_audit.EAGER:
        return tf_audit.eager_signature(value)
    if kind in PLAIN_TYPES:
        return value
    if isinstance(value, (tuple, list)):
        return (type(value), *map(signature, value))
    if isinstance(value, dict):
        return (dict, *((k, signature(v)) for k, v in value.items()))
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return (tf_audit.static_shape(value), value.dtype)
    if dataclasses.is_dataclass(value):
        return (type(value), *(signature(getattr(value, f.name)) for f in dataclasses.fields(value)))
    return type(value)


def frozen(value: Any, keep: Callable[[Any], Any] | None = None) -> Any:
    """A copy that later changes by the program do not reach; a tensor without a value becomes its `Spec`."""
    again = functools.partial(frozen, keep=keep)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(again, value))
    if isinstance(value, (tuple, list)):
        return type(value)(map(again, value))
    if isinstance(value, dict):
        return {k: again(v) for k, v in value.items()}
    return _frozen_leaf(value)


def _frozen_leaf(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if tf_audit.is_tensor(value) and not tf_audit.is_variable(value):
        return _spec(value, "tensorflow") if tf_audit.is_symbolic(value) else value
    if tf_audit.is_variable(value):
        return tf_audit.frozen_value(value)
    kind = f"{type(value).__module__}.{type(value).__name__}"
    if kind.startswith("jax") and "Tracer" in kind:
        return _spec(value, "jax")
    return value.detach().clone() if kind.startswith("torch") and hasattr(value, "detach") else value


def _spec(value: Any, framework: str) -> Spec:
    return Spec(tf_audit.static_shape(value), tf_audit.dtype_name(value), framework)


def size_in_bytes(value: Any) -> int:
    """How much memory the frozen inputs hold."""
    if isinstance(value, (tuple, list)):
        return sum(map(size_in_bytes, value))
    if isinstance(value, dict):
        return sum(map(size_in_bytes, value.values()))
    if isinstance(value, Spec) or not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return 0
    sizes = [size for size in tf_audit.static_shape(value) or () if size is not None]
    return math.prod(sizes) * getattr(value.dtype, "size", getattr(value.dtype, "itemsize", 4))


def specs_only(value: Any) -> Any:
    """The same structure with each tensor replaced by its `Spec`: for inputs too big to keep."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(specs_only, value))
    if isinstance(value, (tuple, list)):
        return type(value)(map(specs_only, value))
    if isinstance(value, dict):
        return {k: specs_only(v) for k, v in value.items()}
    return _spec(value, "tensorflow") if tf_audit.is_tensor(value) else value


def described(value: Any) -> str:
    """Inputs in words: `float32 (2, 3), 'same'`."""
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(described, value))
        return inner if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {described(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Spec):
        return str(value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return str(Spec(tf_audit.static_shape(value), tf_audit.dtype_name(value).replace("torch.", "")))
    return repr(value) if isinstance(value, PLAIN) else type(value).__name__


def described_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The inputs of a call in words."""
    named = [f"{name}={described(value)}" for name, value in kwargs.items()]
    return ", ".join([described(value) for value in args] + named)


def has_spec(value: Any) -> bool:
    """Whether some input has no value."""
    if isinstance(value, (tuple, list)):
        return any(map(has_spec, value))
    if isinstance(value, dict):
        return any(map(has_spec, value.values()))
    return isinstance(value, Spec)


def filled(value: Any, span: str, seed: int = 7) -> Any:
    """The same structure with a tensor made for each `Spec`."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(filled(v, span, seed + i) for i, v in enumerate(value)))
    if isinstance(value, (tuple, list)):
        return type(value)(filled(v, span, seed + i) for i, v in enumerate(value))
    if isinstance(value, dict):
        return {k: filled(v, span, seed + i) for i, (k, v) in enumerate(value.items())}
    return make(value, span, seed) if isinstance(value, Spec) else value


def closed_over(function: Any) -> str:
    """The plain values a function closed over, which tell apart the rules that a loop or a factory made."""
    if getattr(function, "__module__", None) == tf_audit.HOME:
        return ""
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    named = zip(code.co_freevars, cells, strict=True) if code else ()
    plain = [
        (name, cell.cell_contents) for name, cell in named if _is_set(cell) and isinstance(cell.cell_contents, PLAIN)
    ]
    return "with " + ", ".join(f"{name}={value!r}" for name, value in plain) if plain else ""


def _is_set(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
