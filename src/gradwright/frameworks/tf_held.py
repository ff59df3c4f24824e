"""What a user's grad holds of its own output, in eager mode where nothing is traced.

The output that is recorded is a new tensor. Where grad keeps the forward's own, in a closure, a default, a list or
an object, it is given the recorded one, so that derivatives of any order and mode follow the rule. What cannot be
reached is refused where it would matter.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Iterator
from typing import Any

from gradwright.errors import ModeError, compose
from gradwright.frameworks import tf_private as private

DEPTH = 3


def replace(holder: Any, old: Any, new: Any, depth: int = DEPTH) -> None:
    """Let a function, list, dict or callable object hold `new` where it held `old`."""
    for place, key, content in places(holder):
        if content is old:
            put(place, key, new)
        elif depth and worth_entering(content):
            replace(content, old, new, depth - 1)


def places(holder: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Every place in a holder that can be written: (container, key, content)."""
    if isinstance(holder, functools.partial):
        yield holder.keywords, None, holder.func
        yield from ((holder.keywords, k, v) for k, v in list(holder.keywords.items()))
    elif isinstance(holder, types.FunctionType):
        yield from ((cell, None, cell.cell_contents) for cell in holder.__closure__ or () if filled(cell))
        yield from ((holder, i, v) for i, v in enumerate(holder.__defaults__ or ()))
        yield from ((holder.__kwdefaults__, k, v) for k, v in list((holder.__kwdefaults__ or {}).items()))
    elif isinstance(holder, types.MethodType):
        yield from places(holder.__self__)
        yield from places(holder.__func__)
    elif isinstance(holder, list):
        yield from ((holder, i, v) for i, v in enumerate(holder))
    elif isinstance(holder, dict):
        yield from ((holder, k, v) for k, v in list(holder.items()))
    elif callable(holder) and isinstance(getattr(holder, "__dict__", None), dict) and not isinstance(holder, type):
        yield from ((holder.__dict__, k, v) for k, v in list(holder.__dict__.items()))


def filled(cell: Any) -> bool:
    """Whether a closure cell has content yet."""
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def worth_entering(content: Any) -> bool:
    """Whether a content may hold an output: functions and plain containers, not models or modules."""
    return isinstance(content, types.FunctionType | types.MethodType | functools.partial) or type(content) in (
        list,
        dict,
    )


def put(place: Any, key: Any, new: Any) -> None:
    """Write into a cell, the defaults of a function, a list or a dict."""
    if isinstance(place, types.CellType):
        place.cell_contents = new
    elif isinstance(place, types.FunctionType):
        defaults = list(place.__defaults__ or ())
        defaults[key] = new
        place.__defaults__ = tuple(defaults)
    else:
        place[key] = new


def refuse_stale(rule: Any, outputs: list[weakref.ref[Any]]) -> None:
    """Refuse forward mode over a gradient that still holds an output whose tangent is not the rule's."""
    alive = [tensor for tensor in (reference() for reference in outputs) if tensor is not None]
    if alive and private.jvps_of(alive):
        raise ModeError(
            compose(
                rule.name,
                rule.where,
                "forward mode over its gradient: something that cannot be reached holds the output of the forward, "
                "whose tangent there is not the rule's",
                "let grad read the output from its closure: return y, lambda upstream: ... y ...",
            )
        )
