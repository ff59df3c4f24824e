"""Recognising what was handed to `check`, and making a Subject of it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from gradwright.check.leaves import Call
from gradwright.check.openers import leaf_of
from gradwright.check.subject import Subject
from gradwright.frameworks.check_tf import TensorFlow, differentiable


def adapt(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Subject:
    """The subject of a check; raises TypeError when the arguments cannot be those of `f`."""
    if not callable(f):
        raise TypeError(f"gw.check needs a function, a rule, a layer or a model, not {type(f).__name__}")
    if is_rule(f):
        return _of_rule(f, args, kwargs)
    if is_bound(f):
        return _of_pair(f, f.__wrapped__, args, kwargs)
    return _of_function(f, args, kwargs)


def is_rule(f: Any) -> bool:
    """Whether `f` is a rule of gradwright."""
    return hasattr(f, "open") and hasattr(f, "forward") and hasattr(f, "options")


def is_bound(f: Any) -> bool:
    """Whether `f` is a tf.custom_gradient function that still shows what it wraps."""
    return type(f).__name__ == "Bind" and "custom_gradient" in type(f).__module__ and hasattr(f, "__wrapped__")


def name_of(f: Any) -> str:
    """What a user calls it."""
    return str(getattr(f, "name", None) or getattr(f, "__name__", None) or type(f).__name__)


def where_of(f: Any) -> str | None:
    """`file.py:12` of the user's function."""
    code = getattr(inspect.unwrap(f) if hasattr(f, "__wrapped__") else f, "__code__", None)
    return None if code is None else f"{code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno}"


def _of_rule(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Subject:
    backend = _backend(args, kwargs)
    call = Call.bind(f.__wrapped__, args, kwargs)
    options = f.options
    subject = Subject(f.name, f.where, backend, call, f, f.forward, f.__wrapped__, f, options.strict, options.surrogate)
    _find_slots(subject)
    return _find_variables(subject, lambda a, k: f.open(*a, **k))


def _of_pair(f: Any, pair: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Subject:
    call = Call.bind(pair, args, kwargs)
    subject = Subject(name_of(pair), where_of(pair), _backend(args, kwargs), call, f, None, pair)
    _find_slots(subject)
    returned: list[Any] = []
    _find_variables(subject, lambda a, k: returned.append(pair(*a, **k)))
    if is_pair(returned[0]):
        subject.forward = lambda *a, **k: pair(*a, **k)[0]
    else:
        subject.pair, subject.forward = None, pair
    return subject


def _of_function(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Subject:
    signature = f.call if hasattr(f, "call") and hasattr(f, "trainable_weights") else f
    call = Call.bind(signature, args, kwargs)
    subject = Subject(name_of(f), where_of(f), _backend(args, kwargs), call, f, None)
    _find_slots(subject)
    returned: list[Any] = []
    _find_variables(subject, lambda a, k: returned.append(f(*a, **k)))
    if is_pair(returned[0]):
        subject.pair, subject.forward, subject.strict = f, lambda *a, **k: f(*a, **k)[0], False
    return subject


def is_pair(result: Any) -> bool:
    """Whether a result is (output, grad)."""
    return isinstance(result, tuple) and len(result) == 2 and callable(result[1])


def _find_slots(subject: Subject) -> None:
    """Which leaves are differentiable: float tensors; python numbers only when there is no tensor at all."""
    backend, slots = subject.backend, subject.call.slots
    tensors = [i for i, slot in enumerate(slots) if backend.is_tensor(slot.value)]
    values = {i: slots[i].value for i in tensors}
    if not tensors:
        values = {i: backend.scalar(s.value) for i, s in enumerate(slots) if type(s.value) in (float, complex)}
    subject.slots = [i for i, value in values.items() if differentiable(backend.dtype(value))]
    subject.leaves = [leaf_of(backend, slots[i].name, "argument", values[i]) for i in subject.slots]


def _find_variables(subject: Subject, run: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> Subject:
    args, kwargs = subject.fill([leaf.like for leaf in subject.leaves])
    args, kwargs = subject.fill(subject.tensors(subject.values(), precise=False))
    _, found = subject.backend.spy(functools.partial(run, args, kwargs))
    given = {id(slot.value) for slot in subject.call.slots}
    subject.variables = [v for v in found if id(v) not in given]
    name = subject.backend.variable_name
    subject.leaves += [leaf_of(subject.backend, name(v), "variable", v) for v in subject.variables]
    return subject


def _backend(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return TensorFlow()
