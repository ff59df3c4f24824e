"""The bar appears only for slow checks on a terminal."""

import sys

import pytest

from gradwright.check.progress import Progress


@pytest.mark.parametrize(
    ("late", "terminal", "shown"), [(True, True, True), (False, True, False), (True, False, False)]
)
def test_the_bar(monkeypatch, late, terminal, shown):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    progress = Progress("model", 3)
    progress.start -= 10.0 if late else 0.0
    progress.stage("first")
    progress.stage("second")
    assert (progress.bar is not None) is shown
    if shown:
        assert progress.bar.tasks[0].completed == 1 and "model: second" in progress.bar.tasks[0].description
    progress.close()
