"""Every wrong rule is caught and named; no right rule is called wrong."""

import numpy as np
import pytest

import gradwright as gw
from tests.wrong_rules import forms, kinds, right, values
from tests.wrong_rules.book import RIGHT, WRONG

assert all((forms, kinds, right, values))


def prove(entry, seed=0):
    return gw.check(entry.make(), *entry.args(np.random.default_rng(seed + 11)), seed=seed, **entry.options)


@pytest.mark.parametrize("entry", WRONG, ids=lambda entry: entry.name)
def test_a_wrong_rule_is_caught_and_named(entry):
    report = prove(entry)
    assert report.verdict == "wrong", str(report)
    assert set(entry.labels) <= set(report.labels), str(report)
    if entry.argument:
        assert entry.argument in [f.argument for f in report.faults if f.label in entry.labels], str(report)
    assert not entry.argument or {f.argument for f in report.faults} <= {entry.argument, *named(entry)}, str(report)


def named(entry):
    """Swaps blame both arguments."""
    return {"x", "y", "w", "b"} if "swapped" in entry.labels else set()


@pytest.mark.parametrize("entry", RIGHT, ids=lambda entry: entry.name)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_right_rule_is_not_called_wrong(entry, seed):
    report = prove(entry, seed)
    assert report.verdict == "right", str(report)


def test_the_book_is_thick_enough():
    assert len(WRONG) >= 60
    assert len(RIGHT) >= 40
    assert len({entry.name for entry in WRONG + RIGHT}) == len(WRONG) + len(RIGHT)
