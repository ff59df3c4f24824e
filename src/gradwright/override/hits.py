"""What an override met: how often each rule answered, where, and which ops it could not reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping


class Hits(Mapping[str, int]):
    """How many ops got another gradient, by type; `places` tells where.

    >>> hits = Hits(["Relu"])
    >>> hits.add("Relu", "model/conv/Relu")
    >>> hits["Relu"], hits.places["Relu"]
    (1, {'model/conv/Relu': 1})

    An op counts when it runs (eagerly) or when it is put into a function, once each.

    Attributes:
        places: for each type, how often at which place: the op's name with its scopes, or "file.py:12".
        missed: for each type, the ops of it that no override can reach, as {reason: count}.
        met: every op type that was seen at all.
    """

    def __init__(self, types: list[str]):
        self.places: dict[str, Counter[str]] = {one: _Places() for one in types}
        self.missed: dict[str, Counter[str]] = {one: _Places() for one in types}
        self.met: set[str] = set()

    def add(self, op_type: str, place: str) -> None:
        """Count one op."""
        self.places[op_type][place] += 1

    def miss(self, op_type: str, reason: str) -> None:
        """Count one op that no override can reach."""
        self.missed[op_type][reason] += 1

    def __getitem__(self, op_type: str) -> int:
        return sum(self.places[op_type].values())

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        return f"Hits({dict(self)})"

    def __str__(self) -> str:
        lines = [f"{one}: {self[one]}" for one in self]
        for one in self:
            lines += [f"  {count} x {place}" for place, count in self.places[one].most_common()]
            lines += [f"  {count} x not reached: {reason}" for reason, count in self.missed[one].most_common()]
        return "\n".join(lines)


class _Places(Counter[str]):
    """A counter that prints as the plain dictionary it is."""

    def __repr__(self) -> str:
        return repr(dict(self))
