"""Reaching a rule that cannot simply be called: a method needs an object, an inner rule the function that makes it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import ModuleType
from typing import Any

from gradwright.check import guess
from gradwright.check.each import Finding, example_of, prove_callable, prove_meeting, rule_function
from gradwright.check.find import first_line
from gradwright.check.found import Found, declared, found, rule_in, shortened
from gradwright.check.watch import Meeting, Watch, watching
from gradwright.check.written import Written


def prove_found(rule: Found) -> Finding:
    """Prove a rule on its `example`, or on inputs found by trying; a method on an instance of its class."""
    if rule.owner is None:
        return prove_callable(rule)
    try:
        instance, made_by = guess.instance(rule.owner)
    except Exception as error:  # whatever the user's constructor raises
        reason = (
            f"a method of `{rule.owner.__name__}`, which could not be made: {type(error).__name__}: {first_line(error)}"
        )
        repair = "gradwright run script.py  # a script that calls it on an instance"
        return Finding(rule.name, rule.where, "undecided", source="guessed", reason=reason, repair=repair)
    finding = prove_method(rule, instance)
    return replace(finding, inputs=f"{finding.inputs}, on {made_by}" if finding.inputs else "")


def prove_method(rule: Found, instance: Any) -> Finding:
    """Prove a method on an instance; of a Keras layer on what the layer itself hands to it."""
    if example_of(rule.rule) is None and hasattr(instance, "build"):
        meeting = met_in_layer(rule, instance)
        if meeting is not None:
            return replace(prove_meeting(meeting), source="guessed")
    bound = rule_in(getattr(instance, rule_name(rule.rule)))
    return prove_callable(replace(rule, rule=bound, owner=None))


def met_in_layer(rule: Found, layer: Any) -> Meeting | None:
    """Call a Keras layer, which makes its weights on that occasion, and see what it hands to its method."""
    watch = Watch()
    try:
        with watching(watch):
            guess.guess(layer, layer.call)
    except Exception:  # no inputs were found for the layer: the method itself may still take some
        return None
    return next((meeting for meeting in watch.take() if meeting.rule.where == rule.where), None)


def rule_name(rule: Any) -> str:
    """The bare name of a rule's function."""
    return getattr(rule_function(rule), "__name__", "")


def prove_written(module: ModuleType, rule: Written, surrogates: Collection[str] = ()) -> list[Finding]:
    """Prove a rule that some function makes, by calling that function with inputs that it takes."""
    where = f"{shortened(module.__file__ or '')}:{rule.line}"
    repair = "gradwright run script.py  # a script that calls it"
    unreached = Finding(rule.name, where, "undecided", source="guessed", repair=repair)
    watch = Watch()
    try:
        with watching(watch):
            output = call(module, rule.maker)
    except Exception as error:
        reason = f"made when `{rule.maker}` runs, and no inputs were found for that: {first_line(error)}"
        return [replace(unreached, reason=reason)]
    if rule_in(output) is not None:
        return [prove_found(declared(found(rule_in(output)), surrogates))]
    mine = [met_as(meeting, surrogates) for meeting in watch.take() if meeting.rule.where == where]
    findings = [replace(prove_meeting(m), source="guessed") for m in mine]
    reason = f"`{rule.maker}` ran on guessed inputs and did not call it"
    return findings or [replace(unreached, reason=reason)]


def call(module: ModuleType, path: str) -> Any:
    """Call a function, or a method of a class on an instance, with guessed inputs."""
    owner, _, name = path.rpartition(".")
    if not owner:
        function = getattr(module, name)
        tried = guess.guess(function, function)
        return function(*tried.args, **tried.kwargs)
    instance, _ = guess.instance(getattr(module, owner))
    is_layer = hasattr(instance, "build") and name == "call"
    function = instance if is_layer else getattr(instance, name)
    tried = guess.guess(function, getattr(instance, name))
    return function(*tried.args, **tried.kwargs)


def met_as(meeting: Meeting, surrogates: Collection[str]) -> Meeting:
    """A meeting, with its rule marked as different on purpose if it is among these names."""
    return replace(meeting, rule=declared(meeting.rule, surrogates))
