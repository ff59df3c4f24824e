"""The fit table: the plan alone, without a framework, against numpy's broadcasting; then its carrying out."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradwright as gw
from gradwright.errors import Fault
from gradwright.fit import Plan, plan
from gradwright.space import Space


def oracle(given, wanted):
    """What broadcasting an input of shape `wanted` to `given` needs undone: axes to sum; None where it cannot be."""
    try:
        if np.broadcast_shapes(given, wanted) != given:
            return None
    except ValueError:
        return None
    lost = len(given) - len(wanted)
    padded = (1,) * lost + wanted
    return tuple(i for i in range(len(given)) if i < lost or (padded[i] == 1 and given[i] != 1))


shapes = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@given(shapes, shapes)
@settings(max_examples=400, deadline=None)
def test_the_plan_agrees_with_numpy_broadcasting(given_shape, wanted):
    axes = oracle(given_shape, wanted)
    if axes is None:
        with pytest.raises(Fault) as fault:
            plan(Space(given_shape, "float32"), Space(wanted, "float32"))
        assert fault.value.kind is gw.GradientShapeError and fault.value.repair
        return
    made = plan(Space(given_shape, "float32"), Space(wanted, "float32"))
    assert made.axes == axes and not made.at_run_time
    assert made.shape == (wanted if axes else None)


@st.composite
def stretched(draw):
    """An input's shape, and one that broadcasting makes of it."""
    wanted = draw(shapes)
    front = draw(st.lists(st.integers(0, 3), max_size=2))
    return (*front, *(draw(st.integers(0, 3)) if n == 1 else n for n in wanted)), wanted


@given(stretched())
@settings(max_examples=200, deadline=None)
def test_what_broadcasting_explains_is_summed_as_numpy_sums(pair):
    given_shape, wanted = pair
    g = np.arange(1.0, 1.0 + np.prod(given_shape)).reshape(given_shape)
    made = gw.fit(g, np.zeros(wanted))
    assert made.shape == wanted
    # The adjoint of broadcasting: <g, broadcast(v)> = <fit(g), v> for every v.
    v = np.random.default_rng(0).normal(size=wanted)
    np.testing.assert_allclose(np.sum(g * np.broadcast_to(v, given_shape)), np.sum(made * v), rtol=1e-9, atol=1e-9)


@given(stretched(), st.data())
@settings(max_examples=200, deadline=None)
def test_hidden_sizes_never_change_a_decision(pair, data):
    """With some sizes unknown the plan is the same, or waits for run time; it never refuses what is right."""
    given_shape, wanted = pair
    hide = lambda shape: tuple(None if data.draw(st.booleans()) else n for n in shape)
    full = plan(Space(given_shape, "float32"), Space(wanted, "float32"))
    part = plan(Space(hide(given_shape), "float32"), Space(hide(wanted), "float32"))
    if not part.at_run_time:
        # Summing over an axis whose size turns out to be one is the same as leaving it.
        extra = set(part.axes) - set(full.axes)
        assert set(full.axes) <= set(part.axes) and all(given_shape[a] == 1 for a in extra)
    assert plan(Space(None, "float32"), Space(wanted, "float32")).at_run_time
    assert plan(Space(given_shape, "float32"), Space(None, "float32")).at_run_time


TABLE = [
    # given dtype, wanted dtype, what comes of it
    ("float32", "float32", Plan()),
    ("float64", "float32", Plan(cast="float32")),
    ("float32", "float64", Plan(cast="float64")),
    ("float16", "bfloat16", Plan(cast="bfloat16")),
    ("float32", "complex64", Plan(cast="complex64")),
    ("float64", "complex64", Plan(cast="complex64")),
    ("complex128", "complex64", Plan(cast="complex64")),
    ("complex64", "float32", gw.GradientDtypeError),
    ("int32", "float32", gw.GradientDtypeError),
    ("int64", "complex64", gw.GradientDtypeError),
    ("bool", "float32", gw.GradientDtypeError),
    ("string", "float32", gw.GradientDtypeError),
]


@pytest.mark.parametrize(("given_dtype", "wanted", "expected"), TABLE)
def test_the_table_of_dtypes(given_dtype, wanted, expected):
    one, other = Space((2, 3), given_dtype), Space((2, 3), wanted)
    if isinstance(expected, Plan):
        assert plan(one, other) == expected
        return
    with pytest.raises(Fault) as fault:
        plan(one, other)
    assert fault.value.kind is expected
    assert given_dtype in fault.value.fact and wanted in fault.value.fact and fault.value.repair


def test_the_real_part_on_demand():
    made = plan(Space((2,), "complex64"), Space((2,), "float32"), "real")
    assert made.real_part and made.cast == "float32"
    assert made.repairs[0] == "took the real part"
    g = gw.fit(np.array([1 + 2j, 3]), np.zeros(2), complex="real")
    assert g.tolist() == [1.0, 3.0] and g.dtype == np.float64


@pytest.mark.parametrize(
    ("given_shape", "given_dtype"), [((2, 3), "float32"), ((3,), "float64"), ((1, 3), "float32"), ((2, 3), "float64")]
)
def test_strict_makes_each_repair_an_error(given_shape, given_dtype):
    plan(Space((3,), "float32"), Space((3,), "float32"), "refuse", True)
    with pytest.raises(Fault, match="the rule is strict"):
        plan(Space(given_shape, given_dtype), Space((3,), "float32"), "refuse", True)


REFUSED = [
    # given, wanted, words that must stand in the message
    ((2, 12), (2, 3, 4), ["(2, 12)", "(2, 3, 4)", "2 axes where the input has 3", "gw.shapes.flatten"]),
    ((3, 2), (2, 3), ["axis 0 of the input has size 2", "transpose"]),
    ((4, 2, 3), (2, 3, 4), ["transpose", "[1, 2, 0]"]),
    ((6,), (2, 3), ["gw.shapes.flatten"]),
    ((3,), (2, 3), ["where the input has 2", "ones_like"]),
    ((), (2, 3), ["axes", "ones_like"]),
    ((1, 3), (2, 3), ["axis 0", "size 2", "ones_like"]),
    ((2, 4), (2, 3), ["axis 1", "size 3", "4"]),
    ((2, 0), (2, 3), ["axis 1"]),
    ((2, 3), (2, 0), ["axis 1"]),
]


@pytest.mark.parametrize(("given_shape", "wanted", "words"), REFUSED)
def test_refusals_name_both_shapes_the_axis_and_the_repair(given_shape, wanted, words):
    with pytest.raises(gw.GradientShapeError) as error:
        gw.fit(np.ones(given_shape), np.ones(wanted), argument="kernel")
    for word in ["gradient of `kernel`", "repair:", *words]:
        assert word in str(error.value)


def test_none_stays_none_and_integers_have_no_gradient():
    assert gw.fit(None, np.ones(3)) is None
    for whole in (np.array([1, 2]), np.array([True, False]), np.array(["a", "b"])):
        assert gw.fit(np.ones(2), whole) is None
    assert gw.fit(2.0, np.float64(3.0)) == 2.0


def test_plans_are_kept_and_need_no_framework():
    """A cached plan is the same object; planning in a fresh process loads no framework."""
    one, other = Space((2, 3), "float32"), Space((3,), "float32")
    assert plan(one, other) is plan(Space((2, 3), "float32"), Space((3,), "float32"))
    code = (
        "import sys; from gradwright.fit import plan; from gradwright.space import Space;"
        "assert plan(Space((2, 3), 'float32'), Space((3,), 'float32')).axes == (0,);"
        "assert not {'tensorflow', 'jax', 'torch', 'keras'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------------------------------------ in TensorFlow graphs


def graph_ops(function, *specs):
    import tensorflow as tf

    return [op.type for op in tf.function(function).get_concrete_function(*specs).graph.get_operations()]


def test_known_shapes_cost_no_ops():
    import tensorflow as tf

    spec = tf.TensorSpec([2, 3])
    plain = graph_ops(lambda g, x: g, spec, spec)
    assert graph_ops(lambda g, x: gw.fit(g, x), spec, spec) == plain
    summed = graph_ops(lambda g, x: gw.fit(g, x), tf.TensorSpec([4, 2, 3]), spec)
    assert sorted(set(summed) - set(plain)) == ["Const", "Sum"] and summed.count("Sum") == 1
    kept = graph_ops(lambda g, x: gw.fit(g, x), tf.TensorSpec([2, 3]), tf.TensorSpec([2, 1]))
    assert kept.count("Sum") == 1 and kept.count("Reshape") <= 1


@given(stretched())
@settings(max_examples=25, deadline=None)
def test_run_time_decides_as_the_plan_does(pair):
    import tensorflow as tf

    given_shape, wanted = pair
    g = np.random.default_rng(0).normal(size=given_shape).astype("f")
    found = run_time()(tf.constant(g), tf.zeros(wanted)).numpy()
    expected = gw.fit(g, np.zeros(wanted, "f"))
    assert found.shape == wanted
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("given_shape", "wanted", "words"), REFUSED)
def test_run_time_refuses_as_the_plan_does(given_shape, wanted, words):
    import tensorflow as tf

    with pytest.raises((tf.errors.InvalidArgumentError, gw.GradientShapeError), match="gradient of `input`"):
        run_time()(tf.ones(given_shape), tf.ones(wanted))


_made = []


def run_time():
    """One traced fit of tensors of unknown rank."""
    import tensorflow as tf

    if not _made:
        _made.append(tf.function(lambda g, x: gw.fit(g, x), input_signature=[tf.TensorSpec(None)] * 2))
    return _made[0]


def test_slices_stay_slices_where_they_fit():
    import tensorflow as tf

    table = tf.Variable(tf.ones([4, 2]))
    slices = tf.IndexedSlices(tf.ones([2, 2]), tf.constant([1, 1]), tf.constant([4, 2]))
    assert isinstance(gw.fit(slices, table), tf.IndexedSlices)
    wide = tf.IndexedSlices(tf.ones([2, 2], tf.float64), tf.constant([1, 1]), tf.constant([4, 2]))
    assert gw.fit(wide, table).values.dtype == tf.float32
    for other in (
        tf.IndexedSlices(tf.ones([2, 3]), tf.constant([1, 1]), tf.constant([4, 3])),
        tf.IndexedSlices(tf.ones([2, 2]), tf.constant([1, 1]), tf.constant([5, 2])),
    ):
        with pytest.raises(gw.GradientShapeError):
            gw.fit(other, table)
