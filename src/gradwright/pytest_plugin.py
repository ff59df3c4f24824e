"""The pytest plugin: prove each rule that the tests happen to call.

    pytest --gradwright                      every test
    @pytest.mark.gradwright                  this test
    def test_layer(prove_gradients): ...     this test

A wrong rule fails the test that met it first, and the report is the failure. Nothing is imported here, nor is
TensorFlow ever, that the tests do not import themselves.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gradwright.check.audit import Finding
    from gradwright.check.watch import Watch

PROPERTY = "gradwright"
"""The name under which a test's report carries what was proven, also from another process (pytest-xdist)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--gradwright`."""
    group = parser.getgroup("gradwright", "custom gradients")
    group.addoption("--gradwright", action="store_true", help="prove the gradient of each rule that the tests call")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and watch from here on if asked to."""
    config.addinivalue_line("markers", "gradwright: prove the gradient of each rule that this test calls")
    prover = Prover()
    config.pluginmanager.register(prover, "gradwright-prover")
    if config.getoption("gradwright"):
        prover.start()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop watching."""
    prover = config.pluginmanager.get_plugin("gradwright-prover")
    if prover is not None:
        prover.stop()


@pytest.fixture
def prove_gradients() -> None:
    """Prove the gradient of each rule that this test calls; a wrong one fails it."""
    # What the name stands for happens in `Prover`, around the whole test.


class Prover:
    """Watches the session, or single tests, and proves what was met at the end of each test."""

    def __init__(self) -> None:
        self.watch: Watch | None = None
        self.scope: AbstractContextManager[Any] | None = None
        self.told: list[dict[str, str]] = []

    def start(self) -> None:
        """Watch from now on."""
        from gradwright.check.watch import Watch, watching

        self.watch = Watch()
        self.scope = watching(self.watch)
        self.scope.__enter__()

    def stop(self) -> None:
        """Watch no longer."""
        scope, self.scope, self.watch = self.scope, None, None
        if scope is not None:
            scope.__exit__(None, None, None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Watch one test, its fixtures included, where the session is not watched anyway."""
        alone = self.watch is None and wants_proof(item)
        if alone:
            self.start()
        try:
            return (yield)
        finally:
            if alone:
                self.stop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Prove what the test has met. A test that fails by itself keeps its own failure, with the report beside it."""
        try:
            result = yield
        except BaseException:
            self.prove(item)
            raise
        wrong = [finding for finding in self.prove(item) if finding.verdict == "wrong"]
        if wrong:
            pytest.fail("\n\n".join(finding.text for finding in wrong), pytrace=False)
        return result

    def prove(self, item: pytest.Item) -> list[Finding]:
        """Prove the rules met since the last time, without a trace in the program's output or random numbers."""
        watch = self.watch
        meetings = watch.take() if watch else []
        if watch is None or not meetings:
            return []
        from gradwright.check.audit import prove_meetings
        from gradwright.check.quiet import random_kept, silence

        with watch.paused(), random_kept(), silence():
            findings = prove_meetings(meetings)
        for finding in findings:
            item.user_properties.append((PROPERTY, told(finding)))
            if finding.verdict != "right":
                item.add_report_section("call", "gradwright", finding.text or line(told(finding)))
        return findings

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what was proven, wherever the test ran."""
        if report.when == "call":
            self.told += [
                value for name, value in report.user_properties if name == PROPERTY and isinstance(value, dict)
            ]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Sum up: how many rules were proven, and which are not right."""
        if not self.told:
            return
        terminalreporter.section("gradwright")
        for entry in self.told:
            if entry["verdict"] != "right":
                terminalreporter.line(line(entry))
        counts = {v: sum(e["verdict"] == v for e in self.told) for v in ("right", "wrong", "undecided")}
        terminalreporter.line(f"{len(self.told)} proven: " + ", ".join(f"{n} {v}" for v, n in counts.items() if n))


def wants_proof(item: pytest.Item) -> bool:
    """Whether a test asks for it by marker or fixture."""
    return item.get_closest_marker("gradwright") is not None or "prove_gradients" in getattr(item, "fixturenames", ())


def told(finding: Finding) -> dict[str, str]:
    """A finding in the few words that travel between processes."""
    labels = ", ".join(f"{fault['label']} ({fault['argument']})" for fault in finding.faults)
    return {"rule": finding.rule, "where": finding.where, "verdict": finding.verdict, "why": labels or finding.reason}


def line(entry: dict[str, str]) -> str:
    """One line of the summary."""
    return f"{entry['verdict']}: rule `{entry['rule']}` ({entry['where']}): {entry['why']}"
