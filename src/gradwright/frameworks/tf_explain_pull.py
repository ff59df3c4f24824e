"""Pullbacks of single TensorFlow ops, and the two algebras in which a walk can add them up: values, or bare states.

Private TensorFlow: the gradient registry, the mock operation that eager gradients are called with, the table of
tapes that differentiable Python functions leave behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import backprop, backprop_util
from tensorflow.python.framework import ops

from gradwright.errors import GradientCountError
from gradwright.explain import lines
from gradwright.explain.record import Key, Kind, Log, Node
from gradwright.explain.walk import NONE, NONFINITE, OK, ZERO


def kind(tensor: Any) -> Kind:
    """Dtype, shape and size of a tensor, and whether its dtype can carry a gradient."""
    shape = tensor.shape
    known = shape.is_fully_defined()
    size = shape.num_elements() if known else None
    return Kind(tensor.dtype.name, tuple(shape.as_list()) if known else None, differentiable(tensor), size)


def differentiable(tensor: Any) -> bool:
    """Whether gradients can have this tensor's dtype (floats, complex, and the handles that stand for them)."""
    return backprop_util.IsTrainable(tensor)


def registered(op_type: str) -> Callable | None:
    """The gradient function of an op type; None where it is declared to have none, LookupError where it is unknown."""
    try:
        registry = ops._gradient_registry
    except AttributeError:  # renamed: the public face of the same registry
        from tensorflow.python.framework.ops import get_gradient_function

        return get_gradient_function(_Named(op_type))
    return registry.lookup(op_type)


class _Named:
    """As much of an operation as the public look-up of a gradient function asks for."""

    def __init__(self, op_type: str):
        self.type, self.inputs, self._gradient_function = op_type, (True,), None

    def get_attr(self, name: str) -> str:
        raise ValueError(name)


def native(node: Node, op_type: str, attrs: tuple, inputs: list, outputs: list, upstreams: list) -> Sequence:
    """The gradients of one eager op by TensorFlow's own gradient function; all None where there is none."""
    nothing = [None] * len(inputs)
    try:
        function = registered(op_type)
        if function is None:
            return nothing
        operation = backprop._MockOp(attrs, inputs, outputs, op_type, ())
        found = function(operation, *_filled(upstreams, outputs))
    except (LookupError, NotImplementedError, AttributeError, ValueError, TypeError) as error:
        node.lost = str(error).splitlines()[0] if str(error) else type(error).__name__
        return nothing
    return _listed(found, len(inputs))


def recorded(node: Node, backward: Callable, outputs: list) -> Callable[[list], Sequence]:
    """The pullback that somebody put on the tapes: a custom gradient, or a whole function's."""

    def pull(upstreams: list) -> Sequence:
        try:
            return _listed(backward(*_filled(upstreams, outputs)), 0)
        except GradientCountError as error:  # a rule of ours that returned nothing where a gradient was due
            node.lost = str(error).splitlines()[0].split(": ", 1)[-1]
            return [None] * len(node.inputs)

    return pull


def _listed(found: Any, length: int) -> list:
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    return found + [None] * (length - len(found))


def _filled(upstreams: list, outputs: list) -> list:
    """Zeros where no upstream arrived, as a tape fills them in; dense, as rules expect them."""
    return [
        (tf.zeros_like(out) if differentiable(out) and out.dtype not in (tf.resource, tf.variant) else None)
        if up is None
        else dense(up)
        for up, out in zip(upstreams, outputs, strict=False)
    ]


def dense(gradient: Any) -> Any:
    """IndexedSlices as one tensor; everything else as it is."""
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def ran_inside(attrs: tuple) -> tuple[list, list] | None:
    """What a `tf.py_function` that has just run received and returned inside, if it left a tape behind."""
    from tensorflow.python.ops import script_ops

    token = dict(zip(attrs[::2], attrs[1::2], strict=True)).get("token")
    token = token.encode() if isinstance(token, str) else token
    entry = getattr(script_ops, "tape_cache", {}).get(token)
    if entry is None:
        return None
    _, received, returned = entry
    eager = [[t for t in tf.nest.flatten(part) if isinstance(t, ops.EagerTensor)] for part in (received, returned)]
    return eager[0], eager[1]


def users_function(pullback: Callable, depth: int = 6) -> Callable | None:
    """The function of the user's inside a pullback that wrappers of TensorFlow or gradwright have closed over."""
    code = getattr(pullback, "__code__", None)
    if code is not None and lines.rank(code.co_filename) == lines.USER:
        return pullback
    candidates = (users_function(f, depth - 1) for f in _held(pullback) if depth and not isinstance(f, type))
    return next((f for f in candidates if f is not None), None)


def _held(function: Any) -> list:
    """What a callable has closed over, bound or stored: where a wrapper keeps the function that it wraps."""
    held = [c.cell_contents for c in getattr(function, "__closure__", None) or () if _filled_cell(c)]
    held += [getattr(function, name, None) for name in ("func", "__wrapped__", "__self__")]
    held += [*getattr(function, "args", ()), *getattr(function, "__dict__", {}).values()]
    slots = [name for cls in type(function).__mro__ for name in getattr(cls, "__slots__", ()) if name[:2] != "__"]
    return [f for f in held + [getattr(function, name, None) for name in slots] if callable(f)]


def closed_over(function: Any, name: str) -> Any:
    """The value of a closure's variable; None if it has none of that name."""
    code = getattr(function, "__code__", None)
    cells = zip(code.co_freevars, function.__closure__ or (), strict=False) if code is not None else ()
    return next((cell.cell_contents for free, cell in cells if free == name and _filled_cell(cell)), None)


def _filled_cell(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def state(value: Any, near: str) -> str:
    """`none`, `zero`, `nonfinite` or `ok` of an upstream that has a value."""
    if value is None:
        return NONE
    if isinstance(value, tf.IndexedSlices):
        value = value.values
    value = tf.convert_to_tensor(value)
    if not isinstance(value, ops.EagerTensor) or value.dtype in (tf.variant, tf.resource):
        return near
    array = np.asarray(value.numpy())
    if array.dtype.kind not in "fc":
        array = array.astype(np.float32)  # bfloat16 and its kin
    if not np.isfinite(array).all():
        return NONFINITE
    return OK if array.size == 0 or array.any() else ZERO


class Values:
    """Upstreams are tensors: nothing is guessed."""

    def __init__(self, log: Log):
        self.log = log

    def start(self, key: Key) -> Any:
        """Ones, as a tape starts with."""
        target = self.log.values.get(key)
        fits = target is not None and differentiable(target) and target.dtype not in (tf.resource, tf.variant)
        return tf.ones_like(target) if fits else None

    def add(self, parts: list, key: Key) -> Any:
        """The sum; of variants too."""
        return tf.add_n([dense(p) for p in parts])

    def state(self, value: Any, near: str) -> str:
        """Looked up in the value itself."""
        return state(value, near)


class States:
    """Upstreams are their own states: for records that keep no values, and for graphs that have none yet."""

    def __init__(self, kind_of: Callable[[Key], Kind | None]):
        self.kind_of = kind_of

    def start(self, key: Key) -> str | None:
        """A target's upstream is fine."""
        known = self.kind_of(key)
        return OK if known is not None and known.differentiable else None

    def add(self, parts: list, key: Key) -> str:
        """Not finite if one is; zero if all are."""
        return next(s for s in (NONFINITE, OK, ZERO) if s in parts)

    def state(self, value: Any, near: str) -> str:
        """The value is the state."""
        return NONE if value is None else value


def flags(pull: Callable, outputs: list, inputs: int) -> Callable[[list], list]:
    """Try a pullback now, on an upstream that is nowhere zero, and keep only the states of what it sends back."""
    local = [state(g, OK) for g in pull([_everywhere(out) for out in outputs])]
    return by_state(local + [NONE] * (inputs - len(local)))


def by_state(local: list[str]) -> Callable[[list], list]:
    """The pullback of a node whose derivative is known by its states only."""

    def pull(upstreams: list) -> list:
        near = next((s for s in (NONFINITE, OK, ZERO) if s in upstreams), OK)
        return [None if own == NONE else _through(near, own) for own in local]

    return pull


def _through(near: str, own: str) -> str:
    """An upstream in one state through a derivative in another: 0 times infinity is NaN, 0 times the rest is 0."""
    return next((s for s in (NONFINITE, ZERO) if s in (near, own)), OK)


def _everywhere(tensor: Any) -> Any:
    """An upstream without zeros, signs or symmetries that a derivative could cancel."""
    if not differentiable(tensor) or tensor.dtype in (tf.resource, tf.variant):
        return None
    ramp = 1.0 + np.modf(np.arange(1, tensor.shape.num_elements() + 1) * 0.6180339887)[0]
    return tf.reshape(tf.cast(tf.constant(ramp), tensor.dtype), tensor.shape)
