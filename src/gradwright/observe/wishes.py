"""What the open logs want to see: pure decisions, made before a tensor is touched."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gradwright.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Wish:
    """What one log asks for; `layers` are the identities of the layers that it watches."""

    serial: int
    everything: bool = True
    values: bool = False
    every: int = 1
    rules: tuple[Any, ...] | None = None
    layers: frozenset[int] = frozenset()

    def accepts(self, rule: Any) -> bool:
        """Whether records of this rule are wanted."""
        layer = getattr(rule, "layer_id", None)
        if layer is not None:
            return layer in self.layers
        return self.rules is None or any(names(wanted, rule) for wanted in self.rules)


def names(wanted: Any, rule: Any) -> bool:
    """Whether a filter (a pattern, a rule) means this rule."""
    if isinstance(wanted, str):
        return fnmatch.fnmatchcase(rule.name, wanted)
    return wanted is rule or (wanted.where == rule.where and wanted.name == rule.name)


@dataclass(frozen=True, slots=True)
class Demand:
    """What the logs that hear one thread ask for together; equal demands share their traced functions."""

    wishes: tuple[Wish, ...]

    @property
    def everything(self) -> bool:
        """Whether any log wants more than norms."""
        return any(w.everything for w in self.wishes)

    @property
    def values(self) -> bool:
        """Whether any log wants the tensors themselves."""
        return any(w.values for w in self.wishes)

    @property
    def every(self) -> int:
        """The thinning that all logs share; each thins the rest by itself."""
        return math.gcd(*(w.every for w in self.wishes))

    def accepts(self, rule: Any) -> bool:
        """Whether any log wants records of this rule."""
        return any(w.accepts(rule) for w in self.wishes)

    @property
    def key(self) -> Any:
        """What makes a traced function fit this demand.

        A counter that thins begins with its log, so there the log itself is part of the key.
        """
        return tuple(
            (w.everything, w.values, w.every, w.rules, w.layers, w.serial if w.every > 1 else None) for w in self.wishes
        )


def wanted_rules(rules: Any) -> tuple[Any, ...] | None:
    """The filter `rules=` as a tuple of patterns and rules, None for all."""
    return None if rules is None else tuple(checked(one, "rules", is_rule_filter) for one in listed(rules))


def is_rule_filter(one: Any) -> bool:
    """Whether something can name a rule."""
    return isinstance(one, str) or (hasattr(one, "where") and hasattr(one, "name"))


def listed(value: Any) -> list[Any]:
    """One or several, as a list."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def checked(one: Any, argument: str, good: Callable[[Any], bool]) -> Any:
    """Refuse a filter that can mean nothing."""
    if not good(one):
        raise ArgumentError(f"{argument}= takes names (patterns as `block*`) or the objects themselves, not {one!r}")
    return one


def checked_every(every: Any) -> int:
    """Refuse a thinning that is no positive whole number."""
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ArgumentError(f"every= takes a whole number from 1, as every=10 for each tenth record, not {every!r}")
    return every


def checked_statistics(statistics: Any) -> bool:
    """Whether all statistics are asked for."""
    if statistics not in ("all", "norm"):
        raise ArgumentError(f'statistics= takes "all" or "norm", not {statistics!r}')
    return statistics == "all"
