"""`gw.probe`: a named point of a model."""

from __future__ import annotations

import functools
import sys
from types import FrameType
from typing import Any

from gradwright import events, frameworks
from gradwright.errors import ArgumentError
from gradwright.rule import Options, Rule


def probe(x: Any, name: str) -> Any:
    """Name a point: the upstream that arrives there shows in every open log under this name.

    >>> import tensorflow as tf, gradwright as gw
    >>> x = tf.constant([3.0, 4.0])
    >>> with gw.observe() as log, tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     gradient = tape.gradient(tf.reduce_sum(gw.probe(x, "middle") ** 2), x)
    >>> log.records[0].rule, log.records[0].upstream.norm
    ('middle', 10.0)

    A probe changes no value and no gradient. In a compiled function that is not watched it leaves nothing behind.

    Args:
        x: a tensor of floats.
        name: what its records are called.

    Returns:
        x.
    """
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"a probe needs a name, as gw.probe(x, 'hidden'), not {name!r}")
    return at(x, name, place_of_call(sys._getframe(1)))


def place_of_call(caller: FrameType) -> str:
    """Where the user wrote a call: in code that AutoGraph has rewritten, AutoGraph itself stands in between."""
    from gradwright.explain import lines

    direct = lines.spell(caller.f_code.co_filename, caller.f_lineno)
    if lines.rank(caller.f_code.co_filename) != lines.INSIDE:
        return direct
    from gradwright.frameworks.tf_explain_places import written

    return lines.of_frame(caller, otherwise=direct, origin=written)


def at(x: Any, name: str, where: str) -> Any:
    """Put a probe at a point that is known by its place."""
    if frameworks.owner(x) == "tensorflow":
        from gradwright.frameworks import tf_probe

        symbolic = tf_probe.symbolic(x, name, where)
        if symbolic is not None:
            return symbolic
        if tf_probe.without_effect(x) and not events.listeners:
            return x
    return rule_of(name, where)(x)


@functools.lru_cache(maxsize=4096)
def rule_of(name: str, where: str, layer_id: int | None = None) -> Rule:
    """The rule behind a probe: the identity, with a name of its own."""
    rule = Rule(through, Options(name=name))
    rule.where = where
    if layer_id is not None:
        rule.layer_id = layer_id  # type: ignore[attr-defined]
    return rule


def through(x: Any) -> Any:
    """The identity and its gradient."""

    def grad(upstream: Any) -> Any:
        return upstream

    grad.jvp = lambda tangent: tangent  # type: ignore[attr-defined]
    return x, grad
