"""The plan: which conditions hold where, and which rule is the narrowest."""

import pytest

from gradwright.errors import OverrideError
from gradwright.override.conditions import Conditions, Site, ambiguous, conditions
from gradwright.override.entries import at, entries, layered, narrowest
from gradwright.override.hits import Hits
from gradwright.override.messages import near_names, never_hit, unknown_type


class Layer:
    def __init__(self, name):
        self.name = name


def first(op, upstream): ...


def second(op, upstream): ...


@pytest.mark.parametrize(
    ("pattern", "name", "holds"),
    [
        ("block", "block/conv/Relu", True),
        ("block/", "block/conv/Relu", True),
        ("block/conv/Relu", "block/conv/Relu", True),
        ("*/conv_?/Relu", "block/conv_1/Relu", True),
        ("blo*", "block/conv/Relu", True),
        ("conv", "block/conv/Relu", False),
        ("block2", "block/conv/Relu", False),
        ("Relu", "Relu", True),
    ],
)
def test_names_are_ops_scopes_or_patterns(pattern, name, holds):
    assert conditions(names=pattern).hold(None, Site(name)) is holds


def test_layers_are_compared_by_identity_and_by_name():
    inner, outer = Layer("relu"), Layer("block")
    site = Site("x/Relu", (outer, inner))
    assert conditions(layers=inner).hold(None, site)
    assert conditions(layers=[outer]).hold(None, site)
    assert conditions(layers="rel*").hold(None, site)
    assert not conditions(layers=Layer("relu")).hold(None, site)
    assert not conditions(layers="model").hold(None, site)


def test_a_traced_graph_knows_layers_by_numbered_scopes():
    assert conditions(layers=Layer("relu")).hold(None, Site("model_1/relu_1/Relu"))
    assert not conditions(layers="relu").hold(None, Site("model/relu_one/Relu"))
    assert ambiguous(["relu"], ["m/relu_1/Relu"]) is None
    assert ambiguous(["relu"], ["m/relu/Relu", "m/relu_1/Relu"]) == ("relu", ["relu", "relu_1"])
    assert ambiguous(["relu*"], ["m/relu/Relu", "m/relu_1/Relu"]) is None


def test_the_order_of_narrowness():
    site = Site("model/block/Relu")
    ranks = [
        Conditions().rank(site),
        Conditions(layers=("model",)).rank(site),
        Conditions(layers=("block",)).rank(site),
        Conditions(names=("model",)).rank(site),
        Conditions(names=("model/block",)).rank(site),
        Conditions(names=("model/block/Relu",)).rank(site),
        Conditions(where=lambda op: True).rank(site),
    ]
    assert ranks == sorted(ranks) and len(set(ranks)) == len(ranks)


def chosen(candidates, name="model/block/Relu"):
    found = narrowest(candidates, lambda: "the op", lambda: Site(name))
    return found.rule if found else None


def table(rules, shared=None):
    return layered({}, entries(rules, shared or Conditions(), Hits(list(rules))))["Relu"]


def test_the_narrowest_rule_wins_in_any_order():
    for rules in ([first, at(second, names="model")], [at(second, names="model"), first]):
        assert chosen(table({"Relu": rules})) is second
        assert chosen(table({"Relu": rules}), "other/Relu") is first


def test_of_equals_the_inner_scope_and_the_later_rule_win():
    assert chosen(table({"Relu": [first, second]})) is second
    outer = layered({}, entries({"Relu": first}, Conditions(), Hits(["Relu"])))
    inner = layered(outer, entries({"Relu": second}, Conditions(), Hits(["Relu"])))
    assert chosen(inner["Relu"]) is second
    assert chosen(outer["Relu"]) is first


def test_a_narrow_outer_rule_wins_over_a_wide_inner_one():
    outer = layered({}, entries({"Relu": first}, conditions(names="model"), Hits(["Relu"])))
    inner = layered(outer, entries({"Relu": second}, Conditions(), Hits(["Relu"])))
    assert chosen(inner["Relu"]) is first
    assert chosen(inner["Relu"], "other/Relu") is second


def test_a_predicate_sees_the_op_and_may_refuse():
    seen = []
    candidates = table({"Relu": at(first, where=lambda op: seen.append(op))})
    assert chosen(candidates) is None and seen == ["the op"]


def test_hits_count_by_type_and_place():
    hits = Hits(["Relu", "Elu"])
    hits.add("Relu", "a/Relu")
    hits.add("Relu", "a/Relu")
    hits.miss("Elu", "its input is int32")
    assert dict(hits) == {"Relu": 2, "Elu": 0}
    assert hits.places["Relu"] == {"a/Relu": 2}
    assert "2 x a/Relu" in str(hits) and "not reached: its input is int32" in str(hits)
    with pytest.raises(KeyError):
        hits["Selu"]


@pytest.mark.parametrize(
    ("wrong", "meant"), [("relu", "Relu"), ("leaky_relu", "LeakyRelu"), ("Conv2d", "Conv2D"), ("mat_mul", "MatMul")]
)
def test_near_names(wrong, meant):
    known = ["Relu", "LeakyRelu", "Conv2D", "MatMul", "Elu", "BiasAdd"]
    assert near_names(wrong, known)[0] == meant
    assert f'gw.override({{"{meant}": rule}})' in unknown_type(wrong, known)


def test_composed_functions_are_explained():
    assert "Sigmoid" in unknown_type("silu", ["Selu"])


def test_the_message_of_a_rule_that_never_served_names_what_ran():
    hits = Hits(["Relu"])
    hits.met.update({"LeakyRelu", "MatMul"})
    [entry] = entries({"Relu": first}, Conditions(), hits)
    said = never_hit([entry])
    assert "first" in said and "test_conditions.py:" in said and "did you mean LeakyRelu?" in said


@pytest.mark.parametrize("rule", [3, None])
def test_a_rule_must_be_callable(rule):
    with pytest.raises(OverrideError, match="must be a function"):
        entries({"Relu": rule}, Conditions(), Hits(["Relu"]))


def test_where_is_a_predicate_and_no_name():
    with pytest.raises(TypeError, match="names="):
        conditions(where="block")  # type: ignore[arg-type]
