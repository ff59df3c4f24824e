"""The texts of the causes: what a repair tells to write is there to be written."""

import re
from functools import reduce

import pytest

import gradwright as gw
from gradwright.explain import causes

TEXTS = [text for pair in causes.CAUSES.values() for text in pair]
TEXTS += [causes.instead_of(op) for op in (*causes._INSTEAD, None)]


def names(texts, package):
    return sorted({name for text in texts for name in re.findall(rf"\b{package}\.(\w+(?:\.\w+)*)", text)})


@pytest.mark.parametrize("name", names(TEXTS, "gw"))
def test_every_name_of_ours_exists(name):
    assert callable(reduce(getattr, name.split("."), gw))


@pytest.mark.parametrize("name", names(TEXTS, "tf"))
def test_every_name_of_tensorflow_exists(name):
    tf = pytest.importorskip("tensorflow")
    assert reduce(getattr, name.split("."), tf) is not None


def test_names_are_found_and_a_missing_one_would_fail():
    assert {"ops.safe_norm", "ops.where", "custom_gradient"} <= set(names(TEXTS, "gw"))
    (missing,) = names(["or use gw.ops.safe_where, if"], "gw")
    with pytest.raises(AttributeError):
        reduce(getattr, missing.split("."), gw)


def test_a_norm_is_not_advised_where_there_is_none():
    assert "safe_norm" in causes.instead_of("Sqrt")
    assert not any("norm" in causes.instead_of(op) for op in ("Exp", "RealDiv", "Log", "Pow", None))
