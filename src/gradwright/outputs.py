"""What a rule's forward returned: its tensors, its structure, and how upstreams are handed to grad."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from gradwright import tree
from gradwright.errors import Fault, GradientCountError


class Outputs:
    """The structure of an output, without its tensors.

    A tuple or list hands one upstream per element, a dict one dict of upstreams, a dataclass one instance.
    """

    __slots__ = ("keys", "kind", "leaves", "spec", "statics", "tensors", "wraps")

    def __init__(self, value: Any, seam: Any):
        if seam.is_leaf(value) or not tree.is_structure(value):
            leaves, self.spec, self.kind = [value], None, "one"
        else:
            leaves, self.spec = tree.flatten(value, seam.is_leaf)
            self.kind = "dict" if isinstance(value, dict) else "many" if isinstance(value, list | tuple) else "one"
        self.leaves = [seam.to_output(leaf) for leaf in leaves]
        self.tensors = [i for i, leaf in enumerate(self.leaves) if seam.is_tensor(leaf)]
        self.statics = [None if i in set(self.tensors) else leaf for i, leaf in enumerate(self.leaves)]
        self.keys = list(value) if self.kind == "dict" else []
        # How the upstream of a ragged output becomes ragged itself; nothing for dense ones.
        wrap = getattr(seam, "wrap_of", None)
        self.wraps = [wrap(self.leaves[i]) if wrap else None for i in self.tensors]

    @classmethod
    def single(cls) -> Outputs:
        """The structure of an output that is one tensor."""
        made = cls.__new__(cls)
        made.kind, made.keys, made.leaves, made.spec = "one", [], [], None
        made.tensors, made.statics, made.wraps = [0], [None], [None]
        return made

    def forget(self) -> None:
        """Let go of the tensors; only the structure is kept for the backward pass."""
        self.leaves = []

    def rebuild(self, tensors: list[Any]) -> Any:
        """Put tensors into the structure of the output."""
        return self._fill(tensors, self.statics)

    def _fill(self, tensors: list[Any], rest: list[Any]) -> Any:
        leaves = list(rest)
        for i, tensor in zip(self.tensors, tensors, strict=True):
            leaves[i] = tensor
        return leaves[0] if self.spec is None else tree.unflatten(self.spec, leaves)

    def spread(self, upstreams: list[Any], grad: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arrange upstreams, one per tensor, as the arguments of grad."""
        upstreams = [u if w is None else w(u) for u, w in zip(upstreams, self.wraps, strict=True)]
        shaped = self._fill(upstreams, [None] * len(self.statics))
        if self.kind == "many":
            return list(shaped), {}
        if self.kind == "dict" and len(self.keys) > 1:
            names = required_names(grad)
            if len(names) > 1:
                return [], by_key(names, shaped)
        return [shaped], {}


def required_names(grad: Callable[..., Any]) -> list[str]:
    """The positional parameters without default that grad insists on."""
    try:
        parameters = inspect.signature(grad).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]


def by_key(names: list[str], upstreams: dict[str, Any]) -> dict[str, Any]:
    """Hand a dict of upstreams to parameters that are named after its keys (`s` or `d_s` for the key 's').

    The order of a dict is not used: it differs between the order of writing and the sorted order.
    """
    matches = {n: [k for k in upstreams if isinstance(k, str) and n.endswith(k)] for n in names}
    chosen: dict[str, Any] = {}
    for name in sorted(matches, key=lambda n: len(matches[n])):
        free = [k for k in matches[name] if k not in chosen.values()]
        exact = [k for k in free if k == name]
        if len(exact or free) != 1:
            raise dict_fault(names, list(upstreams))
        chosen[name] = (exact or free)[0]
    if len(chosen) != len(upstreams):
        raise dict_fault(names, list(upstreams))
    return {name: upstreams[key] for name, key in chosen.items()}


def dict_fault(names: list[str], keys: list[Any]) -> Fault:
    """Refuse to spread a dict over parameters whose names do not tell which is which."""
    return Fault(
        GradientCountError,
        f"the output is a dict with the keys {keys}, so grad receives one dict; it takes {len(names)} arguments "
        f"({', '.join(names)}) whose names do not tell which key each is for",
        f"def grad(upstream): ... upstream[{keys[0]!r}] ...",
    )


def named_outputs(value: Any) -> list[str]:
    """Names for the outputs of a rule, for tables: `output`, `output[0]`, `output['a']`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [f"output.{f.name}" for f in dataclasses.fields(value)]
    if isinstance(value, dict):
        return [f"output[{k!r}]" for k in value]
    if isinstance(value, list | tuple):
        return [f"output[{i}]" for i in range(len(value))]
    return ["output"]
