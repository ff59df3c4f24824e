"""Proving one rule: on its example, on guessed inputs, on those it was met with. Never raises for what it does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from gradwright.check import guess, met
from gradwright.check.find import first_line
from gradwright.check.found import Found, is_own_rule
from gradwright.check.watch import Meeting
from gradwright.frameworks import tf_audit


@dataclass(frozen=True)
class Finding:
    """What is known of one rule on one kind of inputs, in plain values."""

    rule: str
    where: str
    verdict: str
    inputs: str = ""
    source: str = "example"  # "example", "guessed", "met" (real values of a run), "traced" (its signature only)
    reason: str = ""
    repair: str | None = None
    faults: tuple[dict[str, Any], ...] = ()
    report: dict[str, Any] = field(default_factory=dict)
    text: str = ""


def prove_callable(rule: Found) -> Finding:
    """Prove a rule that can be called as it is."""
    blank = Finding(rule.name, rule.where, "undecided")
    example = example_of(rule.rule)
    if example is None:
        return prove_guessed(rule, blank)
    try:
        args, kwargs = arguments(example())
    except Exception as error:
        return replace(blank, reason=f"its example raises {type(error).__name__}: {first_line(error)}")
    return prove(rule, args, kwargs, "example")


def prove_guessed(rule: Found, blank: Finding) -> Finding:
    """Prove a rule on inputs that it takes without complaint."""
    try:
        tried = guess.guess(rule.rule, rule_function(rule.rule))
    except (guess.NoGuess, ValueError, TypeError) as error:  # ValueError, TypeError: a callable without a signature
        reason = f"it names no example, and none of the inputs that were tried fits: {first_line(error)}"
        return replace(blank, source="guessed", reason=reason, repair=example_line(rule))
    return replace(prove(rule, tried.args, tried.kwargs, "guessed"), inputs=tried.text)


def example_line(rule: Found) -> str:
    """The line that would give the rule its inputs."""
    if rule.kind == "gradwright":
        return "@gw.custom_gradient(example=lambda: (tf.constant([0.5, 2.0]),))"
    return f"{rule.name.rpartition('.')[2]}.example = lambda: (tf.constant([0.5, 2.0]),)"


def rule_function(rule: Any) -> Any:
    """The function whose parameters the caller sees."""
    return rule.__wrapped__ if is_own_rule(rule) else tf_audit.user_function(rule)


def example_of(rule: Any) -> Any:
    """The function that gives inputs: the option of gradwright's rules, or an attribute set on TensorFlow's."""
    options = getattr(rule, "options", None)
    return getattr(options, "example", None) or getattr(rule, "example", None)


def arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A tuple is the positional arguments, a dict the named ones, anything else the only argument."""
    if isinstance(example, dict):
        return (), example
    return (example if isinstance(example, tuple) else (example,)), {}


def prove_meeting(meeting: Meeting) -> Finding:
    """Prove a rule on the inputs it was first called with, or on made ones where only their signature is known."""
    if not met.has_spec((meeting.args, meeting.kwargs)):
        return prove(meeting.rule, meeting.args, meeting.kwargs, "met")
    try:
        args, kwargs = made(meeting)
    except guess.NoGuess as error:
        described = met.described_call(meeting.args, meeting.kwargs)
        reason = f"it was only traced, and numbers made for its signature do not fit: {first_line(error)}"
        return Finding(
            meeting.rule.name, meeting.rule.where, "undecided", described, "traced", reason, example_line(meeting.rule)
        )
    return prove(meeting.rule, args, kwargs, "traced")


def made(meeting: Meeting) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs of the signature that was met, from the first span of numbers that gives finite outputs."""
    first = ""
    for span in guess.RANGES:
        with tf_audit.eagerly():
            args, kwargs = met.filled((meeting.args, meeting.kwargs), span)
            problem = guess.trouble(meeting.rule.rule, args, kwargs)
        if problem is None:
            return args, kwargs
        first = first or problem
    raise guess.NoGuess(first)


def prove(rule: Found, args: tuple[Any, ...], kwargs: dict[str, Any], source: str) -> Finding:
    """Prove one rule on given inputs. Never raises for what the rule does."""
    from gradwright.check import check

    inputs = ", ".join(filter(None, [met.described_call(args, kwargs), met.closed_over(rule.function)]))
    blank = Finding(rule.name, rule.where, "undecided", inputs, source)
    try:
        with tf_audit.eagerly():
            report = check(rule.rule, *args, like=rule.surrogate, **kwargs)
    except Exception as error:  # one rule must never hide the others
        return replace(blank, reason=f"the check could not be made: {type(error).__name__}: {first_line(error)}")
    data = report.to_dict()
    return replace(
        blank,
        verdict=report.verdict,
        reason=getattr(report, "reason", "") or "",
        faults=tuple(data.get("faults", ())),
        report=data,
        text=str(report),
    )
