"""Where a rule holds: everywhere, or in some layers, under some names, for the ops a predicate picks."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Rank = tuple[int, int]


@dataclass(frozen=True)
class Site:
    """What is known of the place of one op: its name with its scopes, and the layers it runs in, outermost first."""

    name: str
    layers: tuple[Any, ...] = ()

    @property
    def scopes(self) -> list[str]:
        """The name scopes around the op.

        >>> Site("block/conv/Relu").scopes
        ['block', 'conv']
        """
        return self.name.split("/")[:-1]


@dataclass(frozen=True)
class Conditions:
    """What an op must fulfil for a rule to hold for it; empty conditions hold everywhere."""

    layers: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    where: Callable[[Any], bool] | None = None

    @property
    def everywhere(self) -> bool:
        """Whether nothing is asked for."""
        return not (self.layers or self.names or self.where)

    def rank(self, site: Site) -> Rank:
        """How narrowly the conditions speak of this site: the more, the narrower.

        A predicate is narrower than a name, a name narrower than a layer; of two names or layers, the deeper one.

        >>> Conditions(names=("block/conv",)).rank(Site("block/conv/Relu"))
        (2, 2)
        """
        if self.where is not None:
            return 3, 0
        if self.names:
            return 2, max((_depth(p) for p in self.names if _named(p, site.name)), default=0)
        return (1, self._deepest(site)) if self.layers else (0, 0)

    def hold(self, op: Any, site: Site) -> bool:
        """Whether they all hold for an op at its site.

        >>> Conditions(names=("block",)).hold(None, Site("block/conv/Relu"))
        True
        """
        if self.layers and not self._deepest(site):
            return False
        if self.names and not any(_named(pattern, site.name) for pattern in self.names):
            return False
        return self.where is None or bool(self.where(op))

    def _deepest(self, site: Site) -> int:
        """The depth of the innermost wanted layer around the op, 0 if there is none."""
        around = site.layers or site.scopes
        return max((i + 1 for i, one in enumerate(around) if any(_same(w, one) for w in self.layers)), default=0)

    def __str__(self) -> str:
        words = [f"in layer {_name(layer)!r}" for layer in self.layers]
        words += [f"under the name {name!r}" for name in self.names]
        if self.where is not None:
            words.append(f"where {getattr(self.where, '__name__', 'the predicate')} holds")
        return " ".join(words)


def conditions(
    layers: Any = None, names: str | Sequence[str] | None = None, where: Callable[[Any], bool] | None = None
) -> Conditions:
    """Build conditions from what a user writes: one or many layers (or their names), one or many names."""
    if where is not None and not callable(where):
        raise TypeError(f"where= is a predicate (op) -> bool, not {where!r}; a name goes into names=")
    return Conditions(_several(layers), _several(names), where)


def _several(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)


def _name(layer: Any) -> str:
    return layer if isinstance(layer, str) else getattr(layer, "name", str(layer))


def _same(wanted: Any, present: Any) -> bool:
    """Whether a layer that runs is the one asked for.

    A traced graph knows layers by their name scopes only, and TensorFlow numbers a scope that is opened again.
    """
    if isinstance(present, str):
        return re.fullmatch(fnmatch.translate(_name(wanted))[:-2] + r"(_\d+)?", present) is not None
    return fnmatch.fnmatchcase(present.name, wanted) if isinstance(wanted, str) else wanted is present


def ambiguous(layers: Iterable[Any], names: Iterable[str]) -> tuple[str, list[str]] | None:
    """A layer that a traced graph cannot tell from others, with the scopes that may be it.

    >>> ambiguous(["relu"], ["model/relu_1/Relu", "model/relu_1_1/Relu", "model/relu_3/Relu"])
    ('relu', ['relu_1', 'relu_3'])
    """
    scopes = {scope for name in names for scope in Site(name).scopes}
    for layer in map(_name, layers):
        found = sorted(scope for scope in scopes if _same(layer, scope))
        if len(found) > 1 and not set("*?[") & set(layer):
            return layer, found
    return None


def _named(pattern: str, name: str) -> bool:
    """Whether a pattern is the op's name, one of its scopes, or matches either."""
    parts = name.split("/")
    paths = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    return any(path == pattern.rstrip("/") or fnmatch.fnmatchcase(path, pattern) for path in paths)


def _depth(pattern: str) -> int:
    return len(pattern.rstrip("/").split("/"))
