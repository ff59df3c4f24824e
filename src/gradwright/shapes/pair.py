"""What every shape function shares: the pair it returns, and the words when it is used wrongly."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from gradwright.errors import ArgumentError, GradientShapeError, GradwrightError
from gradwright.space import show_shape

Pair = tuple[Any, Callable[..., Any]]


class Facts(NamedTuple):
    """What a pullback may know of a tensor without keeping it alive."""

    sizes: tuple[int | None, ...] | None
    dtype: Any
    device: Any = None


def facts_of(b: ModuleType, x: Any) -> Facts:
    """Take the facts of a tensor."""
    return Facts(b.static(x), x.dtype, getattr(x, "device", None))


def linear_pair(name: str, b: ModuleType, inputs: Any, output: Any, back: Callable, push: Callable) -> Pair:
    """Join an output, the adjoint and the function on tangents into a pair.

    `inputs` and `output` are one tensor or a list of them. The pullback takes one upstream an output (apart or as a
    list), and carries `jvp`, which takes one tangent an input. It keeps facts of the tensors, never the tensors.
    """
    came, went = _facts(b, inputs), _facts(b, output)

    def pull(*upstreams):
        gradients = back(_receive(name, b, upstreams, went, "upstream", "output"))
        return _each(lambda g, known: b.pin(g, known.sizes), gradients, came)

    def pushforward(*tangents):
        return push(_receive(name, b, tangents, came, "tangent", "input"))

    pull.__name__ = pull.__qualname__ = f"{name}_back"
    pull.jvp = pushforward  # type: ignore[attr-defined]
    return output, pull


def _facts(b, value):
    return [facts_of(b, v) for v in value] if isinstance(value, list | tuple) else facts_of(b, value)


def _each(function, values, facts):
    if isinstance(facts, Facts):
        return function(values, facts)
    return [function(v, known) for v, known in zip(values, facts, strict=True)]


def _receive(name, b, values, facts, kind, side):
    """Take upstreams or tangents apart or as one list; None is a zero; a wrong shape is refused."""
    many = not isinstance(facts, Facts)
    if len(values) == 1 and isinstance(values[0], list | tuple) and many:
        values = tuple(values[0])
    wanted = len(facts) if many else 1
    if len(values) != wanted:
        raise ArgumentError(f"gw.shapes.{name}: {wanted} {kind}s expected, one for each {side}, and {len(values)} came")
    taken = [_fitting(name, b, v, f, kind, side) for v, f in zip(values, facts if many else [facts], strict=True)]
    return taken if many else taken[0]


def _fitting(name, b, value, facts, kind, side):
    if value is None:
        return b.zeros(facts.sizes, facts)
    value = b.tensor(value, facts)
    sizes = b.static(value)
    if _differ(sizes, facts.sizes):
        text = f"the {kind} has shape {show_shape(sizes)}, the {side} had {show_shape(facts.sizes)}"
        raise GradientShapeError(f"gw.shapes.{name}: {text}")
    return value


def _differ(sizes, others) -> bool:
    if sizes is None or others is None:
        return False
    return len(sizes) != len(others) or any(s != o for s, o in zip(sizes, others, strict=True) if None not in (s, o))


def shape_function(function: Callable[..., Pair]) -> Callable[..., Pair]:
    """Add to every error the call as the user wrote it: function, arguments, shapes."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except GradwrightError:
            raise
        except Exception as problem:
            text = f"gw.shapes.{function.__name__}({_called(signature, args, kwargs)}): {_first_line(problem)}"
            raise ArgumentError(text) from None

    # AutoGraph leaves a function with this mark alone: nothing here needs its rewriting.
    call.autograph_info__ = {}  # type: ignore[attr-defined]
    return call


def _first_line(problem: Exception) -> str:
    return (str(problem).strip() or type(problem).__name__).splitlines()[0]


def _called(signature: inspect.Signature, args, kwargs) -> str:
    try:
        bound = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        bound = {f"argument {i}": a for i, a in enumerate(args)} | kwargs
    return ", ".join(f"{key}={_brief(value)}" for key, value in bound.items())


def _brief(value) -> str:
    if hasattr(value, "shape") and not isinstance(value, type):
        return f"{type(value).__name__} of shape {show_shape(_sizes(value.shape))}"
    if isinstance(value, list | tuple) and any(hasattr(v, "shape") for v in value):
        return "[" + ", ".join(map(_brief, value)) + "]"
    return repr(value)


def _sizes(shape) -> tuple | None:
    try:
        return tuple(shape)
    except (TypeError, ValueError):  # a shape of unknown rank
        return None
