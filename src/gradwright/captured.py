"""Variables that a rule reads without taking them as arguments, and the forms in which it answers for them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from gradwright.errors import Fault, VariablesError
from gradwright.matching import listed


def form(seam: Any, variables: list[Any]) -> str:
    """The line to write, with the variables' own names where they can stand in python."""
    names = names_of(variables, seam)
    key = getattr(seam, "keyed", "{v.ref(): d_v}")
    if not all(name.isidentifier() for name in names) or len(set(names)) < len(names):
        return f"return input_gradients, [d_v for each variable in order of first use], or {key}"
    key = re.sub(r"\bv\b|(?<=d_)v\b", names[0], key)
    return f"return input_gradients, [{', '.join('d_' + name for name in names)}], or {key}"


def takes_variables(grad: Callable[..., Any]) -> bool:
    """Whether a rule's grad accepts `variables=`."""
    code = getattr(grad, "__code__", None)
    if code is not None and not hasattr(grad, "__self__"):
        named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return "variables" in named or bool(code.co_flags & inspect.CO_VARKEYWORDS)
    try:
        parameters = inspect.signature(grad).parameters
    except (TypeError, ValueError):
        return False
    return "variables" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def split(
    returned: Any, variables: list[Any], reads: list[Any], seam: Any, optional: frozenset[int] = frozenset()
) -> tuple[Any, list[Any]]:
    """Split what grad returned into the part for the inputs and one gradient per captured variable.

    `reads` holds every variable that was read, in order of first use, also those that are not trainable: a rule
    written for a layer stays right when the layer is frozen. `optional` holds the ids of variables that need no answer.
    """
    needed = [v for v in variables if id(v) not in optional]
    if not is_pair(returned, seam):
        if not needed:
            return returned, [None] * len(variables)
        raise forgotten(needed, seam)
    if variables and not needed and not callable(returned[1]) and not is_answer(returned[1], variables, seam):
        return returned, [None] * len(variables)
    inputs, answer = returned
    if callable(answer):
        answer = answer(list(variables))
    if not variables:
        if is_answer(answer, reads, seam):
            return inputs, []
        return returned, []
    if isinstance(answer, list | tuple) and len(answer) == len(needed) < len(variables):
        found = dict(zip(map(id, needed), answers(answer, needed, reads, seam), strict=True))
        return inputs, [found.get(id(v)) for v in variables]
    return inputs, answers(answer, variables, reads, seam, optional)


def is_pair(returned: Any, seam: Any) -> bool:
    """Whether something has the outer form (gradients of the inputs, answer for the variables)."""
    if not isinstance(returned, list | tuple) or len(returned) != 2:
        return False
    second = returned[1]
    if seam.is_leaf(second):
        return False
    return isinstance(second, list | tuple | Mapping) or callable(second)


def is_answer(answer: Any, reads: list[Any], seam: Any) -> bool:
    """Whether a second part answers for variables although none needs an answer."""
    if isinstance(answer, Mapping):
        return all(seam.variable_of_key(key) is not None for key in answer)
    if not isinstance(answer, list | tuple):
        return False
    return len(answer) in (0, len(reads)) and not (reads == [] and len(answer))


def answers(
    answer: Any, variables: list[Any], reads: list[Any], seam: Any, optional: frozenset[int] = frozenset()
) -> list[Any]:
    """Understand a list in order of first use, a mapping keyed by variable, or (variable, gradient) pairs."""
    if isinstance(answer, Mapping):
        return keyed(
            [(seam.variable_of_key(key), g, key) for key, g in answer.items()], variables, reads, seam, optional
        )
    if seam.is_leaf(answer) or not isinstance(answer, list | tuple):
        raise forgotten(variables, seam)
    if answer and all(is_keyed_pair(item, seam) for item in answer):
        return keyed([(seam.variable_of_key(v), g, v) for v, g in answer], variables, reads, seam, optional)
    if len(answer) == len(variables):
        return list(answer)
    if len(answer) == len(reads):
        chosen = {id(v): g for v, g in zip(reads, answer, strict=True)}
        return [chosen[id(v)] for v in variables]
    raise Fault(
        VariablesError,
        f"expected {len(variables)} variable gradient{'s' * (len(variables) != 1)}, for "
        f"{listed(names_of(variables, seam))} (the trainable variables that the forward read, in order of first use), "
        f"but received {len(answer)}",
        form(seam, variables),
    )


def is_keyed_pair(item: Any, seam: Any) -> bool:
    """Whether an element is (variable, gradient)."""
    return isinstance(item, tuple) and len(item) == 2 and seam.variable_of_key(item[0]) is not None


def keyed(
    items: list[tuple[Any, Any, Any]],
    variables: list[Any],
    reads: list[Any],
    seam: Any,
    optional: frozenset[int] = frozenset(),
) -> list[Any]:
    """Take gradients by variable; missing ones are forgotten, unknown ones are refused."""
    chosen: dict[int, Any] = {}
    known = {id(v) for v in variables} | {id(v) for v in reads}
    for variable, gradient, key in items:
        if variable is None:
            raise Fault(
                VariablesError, f"the key {key!r} of the variable gradients is no variable", form(seam, variables)
            )
        if id(variable) not in known and seam.is_trainable(variable):
            raise Fault(
                VariablesError,
                f"returned a gradient for `{seam.variable_name(variable)}`, which the forward did not read; "
                f"it read {listed(names_of(variables, seam))}",
                form(seam, variables),
            )
        chosen[id(variable)] = gradient
    missing = [v for v in variables if id(v) not in chosen and id(v) not in optional]
    if missing:
        raise forgotten(missing, seam)
    return [chosen.get(id(v)) for v in variables]


def forgotten(variables: list[Any], seam: Any) -> Fault:
    """Say which variables got no gradient, and show the form to write."""
    names = listed(names_of(variables, seam))
    return Fault(
        VariablesError,
        f"the forward reads {names}, but grad returns no gradient for {'it' if len(variables) == 1 else 'them'}",
        f"{form(seam, variables)}, as in: def grad(upstream, variables=None): return (input_gradients, "
        'variable_gradients); or declare @gw.custom_gradient(variables="autodiff")',
    )


def names_of(variables: list[Any], seam: Any) -> list[str]:
    """The names of variables, as the user gave them."""
    return [seam.variable_name(v) for v in variables]
