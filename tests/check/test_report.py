"""The report: for people, for machines."""

import json

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from gradwright.check.report import LABELS, Evidence, Fault, Report, plain


@tf.custom_gradient
def scale(x, s):
    return x * s, lambda up: (up * s, -up * x)


def wrong():
    return gw.check(scale, tf.ones([2, 3]), tf.constant([1.0, 2.0, 3.0]))


def test_a_person_finds_everything_in_the_text():
    text = str(wrong())
    for part in (
        "the gradient of `scale` is WRONG (test_report.py:14)",
        "was not summed over axis 0",
        "repair: tf.reduce_sum(g, axis=0)",
        "wrong sign",
        "judged by: autodiff of the forward in float64",
        "would have been seen",
        "evaluations",
    ):
        assert part in text


def test_machines_get_json():
    report = json.loads(json.dumps(wrong().to_dict()))
    assert report["verdict"] == "wrong" and report["ok"] is False
    assert {f["label"] for f in report["faults"]} == {"not-summed", "sign"}
    assert all(f["argument"] == "s" for f in report["faults"])
    row = {r["argument"]: r for r in report["arguments"]}["s"]
    assert np.allclose(np.array(row["worst"]["analytic"]), -np.array(row["worst"]["expected"]))
    assert report["evaluations"] == sum(report["calls"].values())


def test_attributes():
    report = wrong()
    fault = next(f for f in report.faults if f.label == "sign")
    assert fault.error > fault.bound >= 0 and len(fault.index) == 1 and fault.where == "test_report.py:14"
    assert report.labels == ["not-summed", "sign"] and not report.ok
    assert all(f.where == fault.where and f.repair for f in report.faults)
    assert {row.argument: row.status for row in report.arguments} == {"x": "right", "s": "wrong"}
    assert 0 < report.detectable < 1e-6


def test_every_label_that_is_given_is_one_of_the_list():
    assert {f.label for f in wrong().faults} <= set(LABELS) and len(LABELS) == 23


def test_plain_values():
    assert plain({"a": np.float32(1), "b": (np.nan, np.inf), 3: np.array([1 + 2j])}) == {
        "a": 1.0, "b": ["nan", "inf"], "3": ["(1+2j)"],
    }  # fmt: skip


def test_a_report_without_evidence_is_readable():
    report = Report("f", reason="nothing to differentiate")
    assert "undecided" in str(report) and "nothing to differentiate" in str(report)
    report.arguments.append(Evidence("x", "argument", (2,), "float32"))
    report.notes.append(Fault("kink", "x", "a kink"))
    assert "note: a kink" in str(report)


def test_a_wrong_rule_raises_with_the_report():
    with pytest.raises(gw.WrongGradientError, match="wrong sign") as caught:
        gw.assert_gradients(scale, tf.ones([2, 3]), tf.ones([3]))
    assert isinstance(caught.value, AssertionError)


def test_a_right_rule_passes():
    square = tf.custom_gradient(lambda x: (x * x, lambda up: 2 * x * up))
    assert gw.assert_gradients(square, tf.constant([1.0, 2.0])).ok
