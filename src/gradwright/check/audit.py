"""An audit: many rules proven one by one, each on its own inputs, none able to hide another.

`check_targets` proves what is found in files and modules, `prove_meetings` what a watched run has met. The result is
plain data that can be saved, read again and printed (`gradwright report`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field, replace
from types import ModuleType
from typing import Any

from gradwright.check import guess, met
from gradwright.check.find import Problem, Search, first_line, search, unreached
from gradwright.check.found import Found, declared, found, is_own_rule, rule_in, shortened
from gradwright.check.watch import Meeting, Watch, watching
from gradwright.check.written import Written
from gradwright.frameworks import tf_audit

Step = Callable[[int, int, str], None]
"""Told before each proof: how many are done, how many there are, the name of the next."""

ALL_RIGHT, SOMETHING_WRONG, USAGE, UNDECIDED = 0, 1, 2, 3


def unseen(done: int, total: int, name: str) -> None:
    """Nobody wants to know how far the proofs are."""


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


@dataclass
class Audit:
    """All findings of one command, the problems on the way, and how the program itself ended."""

    findings: list[Finding] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    program: str | None = None
    program_status: int | None = None

    @property
    def exit_status(self) -> int:
        """1: a rule is wrong or the program failed; else 2: something was unusable; else 3: undecided; else 0."""
        verdicts = {finding.verdict for finding in self.findings}
        if "wrong" in verdicts or self.program_status:
            return SOMETHING_WRONG
        if self.problems or not verdicts:
            return USAGE
        return UNDECIDED if "undecided" in verdicts else ALL_RIGHT

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain values: `json.dumps(audit.to_dict())` works."""
        counts = {v: sum(f.verdict == v for f in self.findings) for v in ("right", "wrong", "undecided")}
        return {"exit_status": self.exit_status, **counts, **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Audit:
        """The audit that `to_dict` wrote down."""
        findings = [Finding(**{**f, "faults": tuple(f["faults"])}) for f in data["findings"]]
        problems = [Problem(**p) for p in data["problems"]]
        return cls(findings, problems, data["notes"], data["program"], data["program_status"])

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict(), default=str)


def check_targets(
    targets: tuple[str, ...], inside: bool = False, surrogates: Collection[str] = (), step: Step = unseen
) -> Audit:
    """Prove every rule in the files, directories and modules named; those in `surrogates` differ on purpose."""
    result = search(targets, inside)
    hidden = unreached(result)
    audit = Audit(problems=result.problems)
    for number, rule in enumerate(result.rules):
        step(number, len(result.rules) + len(hidden), rule.name)
        audit.findings.append(prove_found(declared(rule, surrogates)))
    for number, (module, written) in enumerate(hidden, len(result.rules)):
        step(number, len(result.rules) + len(hidden), written.name)
        audit.findings += prove_written(module, written, surrogates)
    if not audit.findings and not audit.problems:
        audit.problems.append(none_found(targets, result))
    audit.notes += on_purpose_note(audit.findings)
    return audit


def on_purpose_note(findings: list[Finding]) -> list[str]:
    """How to say of a rule of TensorFlow's that it is meant to differ, where the check suspects that it is."""
    names = [f.rule for f in findings if any("surrogate" in (fault.get("repair") or "") for fault in f.faults)]
    return [f"meant to differ from its forward? Say so in the code, or with --surrogate {names[0]}"] if names else []


def none_found(targets: tuple[str, ...], result: Search) -> Problem:
    """The problem of having found nothing to prove."""
    looked = f"{len(result.modules)} file{'s' if len(result.modules) != 1 else ''}"
    fact = f"no rule of gradwright or of tf.custom_gradient found in {looked}"
    return Problem(
        " ".join(targets), fact, "gradwright run script.py  # meets also the rules that a program makes as it runs"
    )


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


def met_in_layer(rule: Found, layer: Any) -> Meeting | None:
    """Call a Keras layer, which makes its weights on that occasion, and see what it hands to its method."""
    watch = Watch()
    try:
        with watching(watch):
            guess.guess(layer, layer.call)
    except Exception:  # no inputs were found for the layer: the method itself may still take some
        return None
    return next((meeting for meeting in watch.take() if meeting.rule.where == rule.where), None)


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


def rule_name(rule: Any) -> str:
    """The bare name of a rule's function."""
    return getattr(rule_function(rule), "__name__", "")


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
    mine = [meeting for meeting in watch.take() if meeting.rule.where == where]
    findings = [replace(finding, source="guessed") for finding in prove_meetings(mine, surrogates)]
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


def prove_meetings(meetings: list[Meeting], surrogates: Collection[str] = (), step: Step = unseen) -> list[Finding]:
    """Prove each rule that was met; those in `surrogates` differ on purpose."""
    findings: list[Finding] = []
    for number, meeting in enumerate(meetings):
        step(number, len(meetings), meeting.rule.name)
        findings.append(prove_meeting(replace(meeting, rule=declared(meeting.rule, surrogates))))
    return findings


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
