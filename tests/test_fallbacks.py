"""Each private name of TensorFlow taken away: the public way gives the same gradients."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import tape as tape_module
from tensorflow.python.framework import ops

from gradwright.frameworks import tf_eager, tf_private, tf_tapes
from gradwright.frameworks import tf_private_graphs as graphs
from tests.mode_forms import FORMS
from tests.modes import MODES, outcome

AWAY = {
    # a private name, and the modules and names that bound it
    "TFE_Py_TapeSetPossibleGradientTypes": ["possible_orders"],
    "TFE_Py_TapeSetIsEmpty": ["no_tapes"],
    "TFE_Py_TapeSetStopOnThread": ["stop_recording_now"],
    "TFE_Py_TapeSetRestartOnThread": ["restart_recording"],
    "TFE_Py_TapeSetRecordOperation": ["record_operation"],
    "TFE_Py_TapeSetRecordOperationBackprop": ["record_backprop_only"],
    "TFE_Py_TapeVariableAccessed": ["tell_tapes_of"],
    "TFE_Py_UID": ["newest_id"],
    "TFE_Py_PackJVPs": ["packed_jvps"],
}


def source_without(*names):
    """`tf_private` made anew, as it would be if TensorFlow had lost some names."""
    spec = importlib.util.find_spec("gradwright.frameworks.tf_private")
    fresh = importlib.util.module_from_spec(spec)
    lost = {name: getattr(pywrap_tfe, name) for name in names}
    for name in names:
        delattr(pywrap_tfe, name)
    try:
        spec.loader.exec_module(fresh)
    finally:
        for name, value in lost.items():
            setattr(pywrap_tfe, name, value)
    return fresh


SOME = ["eager", "eager, persistent tape", "function, tape inside", "while, tape outside", "eager, order 2",
        "function, order 2, both tapes inside", "eager, order 3", "forward mode, eager"]  # fmt: skip


def everything_is_right():
    for form in ("closure over the output", "captured variable", "two arguments", "dict output", "integers beside"):
        for mode in SOME:
            right(form, mode)


def right(form, mode):
    expected = FORMS[form].gives[MODES[mode].gives]
    how = dict(FORMS[form].how) if MODES[mode].gives == "gradients" else {}
    assert outcome(mode, FORMS[form].rule, FORMS[form].inputs, expected, **how) == "right"


def replace(monkeypatch, fresh, bound):
    for name in bound:
        for module in (tf_private, tf_eager, tf_tapes):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(fresh, name))


@pytest.mark.parametrize("private", AWAY)
def test_without_one_private_name(monkeypatch, private):
    bound = AWAY[private]
    names = [private]
    if "Stop" in private or "Restart" in private:  # the two are only of use together
        names = ["TFE_Py_TapeSetStopOnThread", "TFE_Py_TapeSetRestartOnThread"]
        bound = ["stop_recording_now", "restart_recording"]
    fresh = source_without(*names)
    assert all(getattr(fresh, name) is not getattr(tf_private, name) for name in bound)
    replace(monkeypatch, fresh, bound)
    everything_is_right()


def test_without_the_hooks_on_tapes_and_variables(monkeypatch):
    """Then the order of variables is TensorFlow's (oldest first); gradients by key stay right."""
    monkeypatch.setattr(tf_tapes, "installed", False)
    monkeypatch.setattr(tf_tapes.thread, "depth", None)
    everything_is_right()


def test_without_the_short_copy(monkeypatch):
    for module in (tf_private, tf_eager):
        if hasattr(module, "copy_without_record"):
            monkeypatch.setattr(module, "copy_without_record", tf_private._copy_by_identity)
    everything_is_right()


def test_the_copy_by_identity_records_nothing():
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf_private._copy_by_identity(x * 3.0)
    assert float(y) == 6.0 and tape.gradient(y, x) is None


@pytest.mark.parametrize("attribute", ["_shape_tuple", "_datatype_enum"])
def test_without_quick_facts_of_eager_tensors(monkeypatch, attribute):
    slow = {"_shape_tuple": lambda t: tuple(t.shape), "_datatype_enum": lambda t: t.dtype.as_datatype_enum}[attribute]
    name = {"_shape_tuple": "shape_tuple", "_datatype_enum": "dtype_number"}[attribute]
    for module in (tf_private, tf_eager):
        monkeypatch.setattr(module, name, slow)
    everything_is_right()


def test_without_the_registry_of_gradients_nothing_breaks(monkeypatch):
    """Names then stay registered, as TensorFlow's own do."""
    for name in ("gradient_registry", "_gradient_registry"):
        if hasattr(ops, name):
            monkeypatch.delattr(ops, name)
    graphs.forget_gradient("unknown")


TAKEN = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context, forwardprop, tape
from tensorflow.python.framework import ops
kept = {}
for name in %s:
    kept[name] = getattr(pywrap_tfe, name)
    delattr(pywrap_tfe, name)
%s
import gradwright as gw
from gradwright.frameworks import tf_private, tf_tapes, tensorflow
for name, value in kept.items():
    setattr(pywrap_tfe, name, value)
%s
from tests.test_fallbacks import everything_is_right
everything_is_right()
"""


def test_a_tensorflow_that_has_lost_all_of_it_at_once():
    """The names are gone before gradwright is imported, and the hooked methods too."""
    hooks = (
        "push = forwardprop.ForwardAccumulator._push_accumulator; del forwardprop.ForwardAccumulator._push_accumulator"
    )
    back = "forwardprop.ForwardAccumulator._push_accumulator = push; assert not tf_tapes.installed"
    code = TAKEN % (sorted(AWAY), hooks, back)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_hooks_call_what_they_stand_before():
    for function in (tape_module.push_new_tape, tape_module.pop_tape):
        assert callable(function.__wrapped__)
