"""The plan of an override: which rule answers for which ops, and which of several is the narrowest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gradwright.errors import OverrideError
from gradwright.override.conditions import Conditions, Site, conditions
from gradwright.override.hits import Hits

Rule = Callable[..., Any]


@dataclass(frozen=True)
class Targeted:
    """A rule with conditions of its own; see `gw.override.at`."""

    rule: Rule
    conditions: Conditions


@dataclass(eq=False)
class Entry:
    """One rule for one op type, with its conditions; `answered` once it has served an op."""

    op_type: str
    rule: Rule
    conditions: Conditions
    hits: Hits
    answered: bool = field(default=False)

    @property
    def name(self) -> str:
        """The name of the user's rule."""
        return getattr(self.rule, "__name__", type(self.rule).__name__)

    @property
    def where(self) -> str:
        """The place of the user's rule, "file.py:12"."""
        from gradwright.places import place_of

        return place_of(self.rule)

    def hit(self, place: str) -> None:
        """Note that this rule serves an op."""
        self.answered = True
        self.hits.add(self.op_type, place)

    def __str__(self) -> str:
        return f"{self.op_type} {self.conditions}".strip()


def at(
    rule: Rule,
    *,
    layers: Any = None,
    names: str | Iterable[str] | None = None,
    where: Callable[[Any], bool] | None = None,
) -> Targeted:
    """A rule for some ops of a type only, beside others for the same type; the narrowest wins.

    >>> import gradwright as gw
    >>> def guided(op, upstream): ...
    >>> def plain(op, upstream): ...
    >>> rules = {"Relu": [guided, gw.override.at(plain, layers="head")]}

    Args:
        rule: `rule(op, *upstreams)`, as for `tf.RegisterGradient`.
        layers: Keras layers, or their names; the op runs inside one of them, at any depth.
        names: name scopes or op names, with `*` and `?`: "block1", "block1/conv/Relu", "*/conv_?".
        where: a predicate on the op: `lambda op: op.inputs[0].shape[-1] == 64`.
    """
    return Targeted(rule, conditions(layers, names, where))  # type: ignore[arg-type]


def entries(rules: Mapping[str, Any], shared: Conditions, hits: Hits) -> list[Entry]:
    """Plan the entries of one override; conditions given for all of it hold for each rule that has none."""
    made = []
    for op_type, value in rules.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            targeted = one if isinstance(one, Targeted) else Targeted(one, shared)
            if not callable(targeted.rule):
                raise OverrideError(_not_a_rule(op_type, targeted.rule))
            made.append(Entry(op_type, targeted.rule, targeted.conditions, hits))
    return made


def _not_a_rule(op_type: str, rule: Any) -> str:
    fact = f"the rule for {op_type} must be a function rule(op, *upstreams), but is {rule!r}"
    if isinstance(rule, str):
        return f'{fact}\n  repair: gw.compat.gradient_override_map({{"{op_type}": "{rule}"}})'
    return f"{fact}\n  repair: {{{op_type!r}: lambda op, upstream: ...}}"


Table = dict[str, list[Entry]]


def layered(over: Table, own: Iterable[Entry]) -> Table:
    """The table of an inner override over that of the outer one: later rules first, so that ties go to them."""
    table = {op_type: list(found) for op_type, found in over.items()}
    for entry in own:
        table.setdefault(entry.op_type, []).insert(0, entry)
    return table


def narrowest(candidates: list[Entry], op: Callable[[], Any], site: Callable[[], Site]) -> Entry | None:
    """The rule that answers for an op: the narrowest that holds, and of equals the innermost or last."""
    if len(candidates) == 1 and candidates[0].conditions.everywhere:
        return candidates[0]
    place = site()
    ranked = [(entry.conditions.rank(place), -i, entry) for i, entry in enumerate(candidates)]
    for _, _, entry in sorted(ranked, key=lambda r: r[:2], reverse=True):
        if entry.conditions.everywhere or entry.conditions.hold(op(), place):
            return entry
    return None
