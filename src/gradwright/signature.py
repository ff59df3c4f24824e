"""Arguments of a rule: bound to their names, split into tensors and static values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gradwright import tree


class Hole:
    """Stands for a tensor in the skeleton of an argument."""

    def __repr__(self) -> str:
        return "*"


HOLE = Hole()


@dataclass(slots=True)
class Slot:
    """One argument as the user sees it: its name, its value, and the tensors in it.

    An element of `*xs` is a slot of its own named `xs[0]`, a keyword of `**options` one named by its key.
    """

    name: str
    value: Any
    leaves: list[Any]
    spec: Any
    tensors: list[int] = field(default_factory=list)

    @property
    def is_tensor(self) -> bool:
        """Whether the argument holds at least one tensor."""
        return bool(self.tensors)

    @property
    def is_plain(self) -> bool:
        """Whether the argument is one leaf, not a structure."""
        return self.spec is None

    @property
    def takes_gradient(self) -> bool:
        """Whether a gradient in this place is at least thinkable: tensors, arrays and python numbers."""
        return self.is_tensor or (isinstance(self.value, int | float | complex) and not isinstance(self.value, bool))

    def skeleton(self) -> Slot:
        """The same slot without its tensors, so that none is kept alive."""
        leaves = list(self.leaves)
        for i in self.tensors:
            leaves[i] = HOLE
        value = self.value
        if self.tensors:
            value = HOLE if self.spec is None else tree.unflatten(self.spec, leaves)
        return Slot(self.name, value, leaves, self.spec, self.tensors)

    def names(self) -> list[str]:
        """The path of each tensor in it."""
        if self.spec is None:
            return [self.name] if self.tensors else []
        all_paths = tree.paths(self.name, self.spec)
        return [all_paths[i] for i in self.tensors]


@dataclass(slots=True)
class Bound:
    """A call of a rule: what to hand to the user's function, and the slots of its arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    slots: list[Slot]

    def tensors(self) -> list[Any]:
        """Every tensor among the arguments, in the order of the slots."""
        return [slot.leaves[i] for slot in self.slots for i in slot.tensors]

    def names(self) -> list[str]:
        """The path of every tensor, in the same order."""
        return [name for slot in self.slots for name in slot.names()]


class Unbound(TypeError):
    """A call that does not fit the signature; the boundary names the rule."""


class Signature:
    """The python signature of a rule, and how a call is split by it."""

    def __init__(self, function: Callable[..., Any]):
        try:
            self.python = inspect.signature(function)
        except (TypeError, ValueError):
            every = [
                inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
            ]
            self.python = inspect.Signature(every)
        parameters = self.python.parameters.values()
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        constants = int | float | complex | str | None
        self.simple = all(
            p.kind in positional and (p.default is p.empty or isinstance(p.default, constants)) for p in parameters
        )
        self.required = sum(p.default is p.empty for p in parameters)
        self.names = [p.name for p in parameters]
        self.defaults = [p.default for p in parameters]

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any], seam: Any) -> Bound:
        """Bind a call. `seam` is the framework: it tells tensors and turns arrays into them."""
        try:
            bound = self.python.bind(*args, **kwargs)
        except TypeError as error:
            raise Unbound(f"{error}; it takes {self.python}") from None
        given = set(bound.arguments)
        bound.apply_defaults()
        slots: list[Slot] = []
        for name, parameter in self.python.parameters.items():
            value = bound.arguments[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                made = [slot_of(f"{name}[{i}]", v, seam) for i, v in enumerate(value)]
                bound.arguments[name] = tuple(slot.value for slot in made)
            elif parameter.kind is parameter.VAR_KEYWORD:
                made = [slot_of(key, v, seam) for key, v in value.items()]
                bound.arguments[name] = {slot.name: slot.value for slot in made}
            else:
                made = [slot_of(name, value, seam)]
                bound.arguments[name] = made[0].value
            slots.extend(made)
        # Arguments the caller left out stay out, so that the function's own defaults apply.
        for name in [n for n in bound.arguments if n not in given]:
            del bound.arguments[name]
        return Bound(bound.args, bound.kwargs, slots)


def plain_slots(signature: Signature, given: int) -> list[Slot]:
    """Slots of a call whose given arguments are each one tensor; the others have their defaults."""
    names, rest = signature.names[:given], signature.names[given:]
    static = [Slot(name, d, [d], None) for name, d in zip(rest, signature.defaults[given:], strict=True)]
    return [Slot(name, HOLE, [HOLE], None, [0]) for name in names] + static


def slot_of(name: str, value: Any, seam: Any) -> Slot:
    """Split one argument."""
    if seam.is_leaf(value) or not tree.is_structure(value):
        value = seam.to_tensor_argument(value)
        return Slot(name, value, [value], None, [0] if seam.is_tensor(value) else [])
    leaves, spec = tree.flatten(value, seam.is_leaf)
    made = [seam.to_tensor_argument(leaf) for leaf in leaves]
    tensors = [i for i, leaf in enumerate(made) if seam.is_tensor(leaf)]
    # The user's own object is handed on unless an array in it has become a tensor.
    changed = any(a is not b for a, b in zip(made, leaves, strict=True))
    return Slot(name, tree.unflatten(spec, made) if changed else value, made, spec, tensors)
