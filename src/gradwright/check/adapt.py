"""Recognising what was handed to `check`, and making a Subject of it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from gradwright.check.leaves import Call, walk
from gradwright.check.openers import differentiable, leaf_of
from gradwright.check.subject import Subject
from gradwright.errors import GradwrightError
from gradwright.places import place_of


class CannotRun(Exception):
    """The user's function raises at the arguments given; holds the subject and the sentence."""


def adapt(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Subject:
    """The subject of a check; raises TypeError when the arguments cannot be those of `f`."""
    if not callable(f):
        raise TypeError(f"gw.check needs a function, a rule, a layer or a model, not {type(f).__name__}")
    if is_rule(f):
        return _of_rule(f, args, kwargs)
    if is_bound(f):
        return _of_bound(f, args, kwargs)
    return _of_function(f, args, kwargs, forward_of(f))


def is_rule(f: Any) -> bool:
    """Whether `f` is a rule of gradwright."""
    return hasattr(f, "open") and hasattr(f, "forward") and hasattr(f, "options")


def is_bound(f: Any) -> bool:
    """Whether `f` is a tf.custom_gradient function that still shows what it wraps."""
    return type(f).__name__ == "Bind" and "custom_gradient" in type(f).__module__ and hasattr(f, "__wrapped__")


def forward_of(f: Any) -> Callable[..., Any] | None:
    """The forward without its rule, where another framework's rule shows it."""
    if type(f).__name__ == "custom_vjp" and type(f).__module__.startswith("jax"):
        return f.fun
    if type(f).__name__ == "custom_jvp" and type(f).__module__.startswith("jax"):
        return f.fun
    if _is_torch_function(f):
        from gradwright.frameworks.check_torch import plain_forward

        return plain_forward(f.__self__)
    return None


def _is_torch_function(f: Any) -> bool:
    owner = getattr(f, "__self__", None)
    return (
        isinstance(owner, type)
        and f.__name__ == "apply"
        and any(c.__module__ == "torch.autograd.function" for c in owner.__mro__)
    )


def name_of(f: Any) -> str:
    """What a user calls it."""
    own = getattr(f, "name", None)
    return own if isinstance(own, str) else str(getattr(f, "__name__", None) or type(f).__name__)


def where_of(f: Any) -> str | None:
    """`file.py:12` of the user's function; None where it has no source."""
    place = place_of(f) if not isinstance(f, functools.partial) else place_of(f.func)
    return None if place == "builtin" else place


def _of_rule(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Subject:
    backend = backend_of(f.__wrapped__, args, kwargs)
    call = _bind(f.__wrapped__, args, kwargs)
    options = f.options
    subject = Subject(f.name, f.where, backend, call, f, f.forward, f.__wrapped__, f, options.strict, options.surrogate)
    _find_slots(subject)
    return _find_variables(subject, lambda a, k: f.open(*a, **k))


def _of_bound(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Subject:
    """A tf.custom_gradient function; what `recompute_grad` makes shows only its forward."""
    from gradwright.frameworks.tf_bound import inner_function, passes_through

    shown = f.__wrapped__
    through = passes_through(f)
    pair = inner_function(f) if through else shown
    call = _bind(shown, args, kwargs)
    subject = Subject(name_of(shown), where_of(shown), _made("tensorflow", f), call, f, None, pair)
    _find_slots(subject)
    returned: list[Any] = []
    _find_variables(subject, lambda a, k: returned.append(pair(*a, **k)))
    if through:
        subject.forward, subject.surrogate = shown, True
    elif is_pair(returned[0]):
        subject.forward = lambda *a, **k: pair(*a, **k)[0]
    else:
        subject.pair, subject.forward = None, pair
    return subject


def _bind(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], keep: bool = False) -> Call:
    try:
        return Call.bind(fn, args, kwargs, keep)
    except TypeError as error:
        raise TypeError(f"these arguments do not fit `{name_of(fn)}`: {error}") from None


def _of_function(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], forward: Callable[..., Any] | None
) -> Subject:
    backend = backend_of(f, args, kwargs)
    shown = forward or _called(f)
    shown = f.__self__.forward if _is_torch_function(f) else shown
    call = _without_context(f, shown, args, kwargs) if _is_torch_function(f) else _bind(shown, args, kwargs, keep=True)
    source = f.__self__ if _is_torch_function(f) else f
    subject = Subject(name_of(source), where_of(shown), backend, call, f, forward)
    subject.state = backend.state_of(f)
    _find_slots(subject)
    returned: list[Any] = []
    before = subject.state()
    _find_variables(subject, lambda a, k: returned.append(f(*a, **k)))
    backend.restore(before)
    subject.kept = subject.state()
    if is_pair(returned[0]):
        subject.pair, subject.forward, subject.strict = f, lambda *a, **k: f(*a, **k)[0], False
    return subject


def _called(f: Any) -> Any:
    """The method of a layer or module that has the user's signature."""
    if hasattr(f, "call") and hasattr(f, "trainable_weights"):
        return f.call
    return f.forward if hasattr(f, "forward") and hasattr(f, "named_parameters") else f


def _without_context(f: Any, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """The names of a torch Function's arguments: those of its forward, less the context."""
    import torch

    split = f.__self__.setup_context is not torch.autograd.Function.setup_context
    return _bind(forward if split else functools.partial(forward, None), args, kwargs)


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
    try:
        _, found = subject.backend.spy(functools.partial(run, args, kwargs))
    except GradwrightError:
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0][:300]
        raise CannotRun(subject, f"it raises {type(error).__name__} at these arguments: {first}") from error
    given = {id(slot.value) for slot in subject.call.slots}
    subject.variables = [v for v in found if id(v) not in given]
    name = subject.backend.variable_name
    subject.leaves += [leaf_of(subject.backend, name(v), "variable", v) for v in subject.variables]
    return subject


def backend_of(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The framework that a call belongs to: that of its tensors, of the function, of its result."""
    values = [slot.value for i, a in enumerate(args) for slot in walk(str(i), a)]
    values += [slot.value for key, a in kwargs.items() for slot in walk(key, a)]
    homes = [home for home in map(_home, [f, *values]) if home]
    if not homes:
        homes = [home for home in [_home_of_source(f)] if home]
    return _made(homes[0] if homes else "numpy", f)


def _home(value: Any) -> str | None:
    module = type(value).__module__.split(".")[0]
    owner = getattr(value, "__self__", None)
    if isinstance(owner, type) and _is_torch_function(value):
        return "torch"
    kinds = {"tensorflow": "tensorflow", "keras": "tensorflow", "jax": "jax", "jaxlib": "jax", "torch": "torch"}
    if any("torch.nn" in c.__module__ for c in type(value).__mro__):
        return "torch"
    return kinds.get(
        module, "tensorflow" if any(c.__module__.startswith("keras") for c in type(value).__mro__) else None
    )


def _home_of_source(f: Any) -> str | None:
    """By the modules that the function's own code names, when its arguments are plain arrays and numbers."""
    import inspect

    f = inspect.unwrap(f) if hasattr(f, "__wrapped__") else f
    f = f.func if isinstance(f, functools.partial) else f
    names = getattr(getattr(f, "__code__", None), "co_names", ())
    globals_ = getattr(f, "__globals__", {})
    homes = {"tensorflow": "tensorflow", "keras": "tensorflow", "jax": "jax", "torch": "torch"}
    for name in names:
        thing = globals_.get(name)
        module = (
            getattr(thing, "__name__", "") if type(thing).__name__ == "module" else getattr(thing, "__module__", "")
        )
        home = homes.get(str(module).split(".")[0])
        if home:
            return home
    module = str(getattr(f, "__module__", "")).split(".")[0]
    # Our own rules are written for any framework: the strongest proof is that of one at hand.
    return homes.get(module) or (_at_hand() if module == "gradwright" else None)


def _at_hand() -> str | None:
    return next((name for name in ("tensorflow", "jax", "torch") if name in sys.modules), None)


def _made(home: str, f: Any) -> Any:
    if home == "tensorflow":
        from gradwright.frameworks.check_tf import TensorFlow

        return TensorFlow()
    if home == "jax":
        from gradwright.frameworks.check_jax import Jax

        return Jax()
    if home == "torch":
        from gradwright.frameworks.check_torch import Torch

        owner = getattr(f, "__self__", f)
        return Torch(owner if hasattr(owner, "named_parameters") and not isinstance(owner, type) else None)
    from gradwright.frameworks.check_numpy import NumPy

    return NumPy()
