"""Right rules are never called wrong, wrong ones never right: a small cut of benchmarks/trust.py."""

import importlib
import sys
from pathlib import Path

import pytest
import tensorflow as tf

import gradwright as gw

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
functions = importlib.import_module("functions")
N = 60


@pytest.fixture(params=["the ladder", "differences alone"])
def ladder(request, monkeypatch):
    if request.param == "differences alone":
        examine = importlib.import_module("gradwright.check.examine")
        monkeypatch.setattr(examine, "choose", lambda *_: examine.Oracle("differences", "differences alone", None))


def given(name, dtype):
    rule, shapes, span = functions.all_of(N)[name]
    return rule, functions.draw(shapes, span, dtype, 4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_right_rules(ladder, dtype):
    found = {}
    for name in functions.all_of(N):
        rule, xs = given(name, dtype)
        report = gw.check(tf.custom_gradient(rule), *xs, seed=4)
        found.setdefault(report.verdict, []).append(name)
    assert list(found) == ["right"], found


@pytest.mark.parametrize("spoil", functions.SPOILS)
def test_spoiled_rules(ladder, spoil):
    for name in ("wave", "rational", "ratio", "row", "log softmax", "matmul", "variance"):
        rule, xs = given(name, "float64")
        report = gw.check(tf.custom_gradient(functions.spoiled(rule, functions.SPOILS[spoil])), *xs, seed=4)
        assert report.verdict == "wrong", (name, str(report))
