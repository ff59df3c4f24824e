"""TensorFlow's registry of gradients by name, with what it lacks: replacing and removing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from gradwright.errors import OverrideError
from gradwright.frameworks import tf_override_ops as known
from gradwright.frameworks import tf_override_record, tf_override_tags
from gradwright.override import messages

Rule = Callable[..., Any]
_rules: dict[str, Rule] = {}
_replaced: dict[str, Any] = {}


def register(name: str, rule: Rule, overwrite: bool | None) -> None:
    """Register a rule under a name; what stands there is replaced if `overwrite` allows it."""
    if name in _rules:
        if overwrite is False:
            raise OverrideError(_taken(name, "by gw.compat.RegisterGradient"))
        _rules[name] = rule
        return
    if registered(name):
        _make_room(name, overwrite)
    _rules[name] = rule
    # What is registered looks the rule up each time, so replacing needs nothing of TensorFlow.
    tf.RegisterGradient(name)(_asking(name))


def _asking(name: str) -> Rule:
    @tf.autograph.experimental.do_not_convert
    def gradient(op: Any, *upstreams: Any) -> Any:
        if name not in _rules:
            raise OverrideError(f"the gradient {name!r} was removed\n  repair: @gw.compat.RegisterGradient({name!r})")
        return _rules[name](op, *upstreams)

    return gradient


def _make_room(name: str, overwrite: bool | None) -> None:
    """Take the present entry out, to be put back by `remove`."""
    builtin = known.op_def(name) is not None
    if not overwrite and (builtin or overwrite is False):
        raise OverrideError(_taken(name, "by TensorFlow itself" if builtin else "by tf.RegisterGradient"))
    present = tf_override_tags.unregister(name)
    if present is None:
        raise OverrideError(f"this TensorFlow does not let the gradient {name!r} be replaced")
    if builtin:
        _replaced[name] = present


def _taken(name: str, by: str) -> str:
    text = f"a gradient named {name!r} is registered already, {by}"
    if known.op_def(name) is not None:
        return f'{text}\n  repair: with gw.override({{"{name}": rule}}): ..., or overwrite=True for the whole process'
    return f"{text}\n  repair: @gw.compat.RegisterGradient({name!r}, overwrite=True)"


def remove(name: str) -> None:
    """Take a rule away; TensorFlow's own gradient comes back where one was replaced."""
    if name not in _rules:
        near = messages.near_names(name, _rules)
        raise OverrideError(f"no gradient named {name!r} was registered here{_did_you_mean(near)}")
    del _rules[name]
    tf_override_tags.unregister(name)
    if name in _replaced:
        tf_override_tags.reregister(name, _replaced.pop(name))


def registered(name: str) -> bool:
    """Whether TensorFlow has any gradient under a name."""
    try:
        tf_override_record.lookup(name)
    except LookupError:
        return False
    return True


def rule_named(name: str) -> Rule:
    """The rule registered under a name, by whomever."""
    try:
        found = _rules.get(name) or tf_override_record.lookup(name)
    except LookupError:
        found = None
    if found is None:
        near = messages.near_names(name, _rules)
        text = f"no gradient named {name!r} is registered{_did_you_mean(near)}"
        raise OverrideError(f"{text}\n  repair: @gw.compat.RegisterGradient({name!r})")
    return found


def _did_you_mean(near: list[str]) -> str:
    return f"; did you mean {near[0]!r}?" if near else ""
