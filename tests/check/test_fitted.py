"""Raw gradients against their inputs: by the table of repairs."""

import numpy as np
import pytest

from gradwright.check.code import Code
from gradwright.check.fitted import Leaf, fit, surplus

TF = Code("tensorflow")


def leaf(shape, dtype="float32", name="s"):
    return Leaf(name, "argument", None, dtype, shape)


@pytest.mark.parametrize(
    ("shape", "got", "axes"),
    [
        ((3,), (3,), ()), ((3,), (2, 3), (0,)), ((), (2, 3), (0, 1)), ((3, 1), (3, 4), (1,)), ((1, 1), (3, 4), (0, 1)),
        ((3,), (3, 2), None), ((2, 3), (3,), None), ((0, 3), (2, 0, 3), (0,)), ((1,), (0,), (0,)),
        ((2, 12), (2, 3, 4), None),
    ],
)  # fmt: skip
def test_surplus_axes(shape, got, axes):
    assert surplus(shape, got) == axes


def test_sums_are_those_of_broadcasting():
    raw = np.arange(24.0).reshape(2, 3, 4)
    found = fit(leaf((3, 1)), raw, "float32", TF)
    assert np.array_equal(found.value, raw.sum((0, 2)).reshape(3, 1))
    assert found.repair.label == "not-summed" and found.fault is None
    assert found.repair.repair == "tf.reduce_sum(tf.reduce_sum(g, axis=0), axis=1, keepdims=True)"


def test_the_repair_of_a_row():
    found = fit(leaf((3,), name="scale"), np.ones((2, 3)), "float32", TF)
    assert "`scale` was not summed over axis 0" in found.repair.message
    assert found.repair.repair == "tf.reduce_sum(g, axis=0)"


def test_other_shapes_are_faults():
    found = fit(leaf((2, 3, 4)), np.ones((2, 12)), "float32", TF)
    assert found.fault.label == "shape" and found.value is None and found.raw is not None
    assert found.fault.repair == "tf.reshape(g, (2, 3, 4))"
    assert fit(leaf((3,)), np.ones(()), "float32", TF).fault.repair == "g * tf.ones_like(s)"


@pytest.mark.parametrize(
    ("inputs", "gradient", "kind"),
    [
        ("float32", "float64", "repair"), ("float64", "bfloat16", "repair"), ("complex64", "float32", "repair"),
        ("float32", "complex64", "fault"), ("float32", "int32", "fault"), ("float32", "bool", "fault"),
        ("float32", "float32", None),
    ],
)  # fmt: skip
def test_dtypes(inputs, gradient, kind):
    raw = np.ones(2, complex if "complex" in gradient else float)
    found = fit(leaf((2,), inputs), raw, gradient, TF)
    assert (found.fault.label if found.fault else None) == ("dtype" if kind == "fault" else None)
    assert (found.repair.label if found.repair else None) == ("dtype" if kind == "repair" else None)


def test_none_is_none():
    found = fit(leaf((2,)), None, None, TF)
    assert found.value is None and found.fault is None


def test_code_of_each_framework():
    assert Code("jax").sum("g", (0,), 1) == "jnp.sum(g, axis=0)"
    assert Code("torch").sum("g", (0, 2), 1) == "g.sum(dim=0).sum(dim=1, keepdim=True)"
    assert (
        Code("numpy").cast("g", "x") == "g.astype(x.dtype)"
        and Code("tensorflow").cast("g", "x") == "tf.cast(g, x.dtype)"
    )
    assert Code("tensorflow").transpose("g", (2, 0, 1)) == "tf.transpose(g, [2, 0, 1])"
    assert Code("torch").transpose("g", (1, 0)) == "g.T"
