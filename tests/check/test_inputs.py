"""What may be handed to `check`: every kind of input, of function and of bad luck."""

import functools
import json
from collections import namedtuple

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw

custom = tf.custom_gradient
X = tf.constant([1.0, -2.0, 3.0])


def square():
    return custom(lambda x: (x * x, lambda up: 2.0 * up * x))


def cube_wrong():
    return custom(lambda x: (x**3, lambda up: 2.0 * up * x * x))


def verdict(*args, **options):
    report = gw.check(*args, **options)
    assert str(report) and json.dumps(report.to_dict())
    return report.verdict


@pytest.mark.parametrize(
    "x",
    [2.0, np.array([1.0, 2.0]), np.float32(3), tf.Variable([1.0, 2.0]), tf.zeros([0, 2]), tf.constant(1.5),
     tf.zeros([3]), tf.constant([1e-12, 1e12]), tf.ragged.constant([[1.0], [], [2.0, 3.0]]),
     tf.constant([1.0], tf.float16)],
    ids=str,
)  # fmt: skip
def test_inputs_of_every_kind(x):
    assert verdict(square(), x) == "right"
    if np.size(getattr(x, "flat_values", x)):
        assert verdict(cube_wrong(), x) == "wrong"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_dtypes(dtype):
    x = tf.cast(tf.constant([0.5, -1.5, 2.0]), dtype)
    conj = tf.math.conj if "complex" in dtype else lambda t: t
    assert verdict(custom(lambda x: (x * x, lambda up: up * conj(2 * x))), x) == "right"
    assert verdict(custom(lambda x: (x * x, lambda up: up * conj(3 * x))), x) == "wrong"


def test_structures_are_named():
    Pair = namedtuple("Pair", "w b")

    @gw.custom_gradient
    def f(p, xs):
        def grad(up):
            return {"p": Pair(up * xs[0], -up), "xs": [up * p.w]}

        return p.w * xs[0] + p.b, grad

    report = gw.check(f, Pair(X, X), [X])
    assert [(fault.label, fault.argument) for fault in report.faults] == [("sign", "p.b")]
    assert [row.argument for row in report.arguments] == ["p.w", "p.b", "xs[0]"]


def test_static_and_integer_arguments():
    f = custom(lambda x, n, k: (x * tf.cast(n, x.dtype) ** k, lambda up: (up * tf.cast(n, up.dtype) ** k, None, None)))
    assert verdict(f, X, tf.constant(3), 2) == "right"
    g = gw.custom_gradient(lambda x, mode="a", k=2: (x**k, lambda up: k * up * x ** (k - 1)))
    assert verdict(g, X, mode="b", k=3) == "right"


def test_keywords_by_name():
    f = custom(lambda x, s: (x * s, lambda up: (up * s, -up * x)))
    report = gw.check(f, s=X + 1.0, x=X)
    assert [(fault.label, fault.argument) for fault in report.faults] == [("sign", "s")]


def test_several_outputs_and_integer_outputs():
    f = custom(lambda x: ((x > 0, x * x, tf.sin(x)), lambda a, u, v: 2.0 * u * x + v * tf.cos(x)))
    assert verdict(f, X) == "right"
    g = gw.custom_gradient(lambda x: ({"b": x * x, "a": x}, lambda up: 2.0 * up["b"] * x - up["a"]))
    assert verdict(g, X) == "wrong"


def test_captured_variables_by_name():
    w = tf.Variable([1.0, 2.0, 3.0], name="weight")
    before = w.numpy()
    f = custom(lambda x: (x * w, lambda up, variables=None: (up * w, [2.0 * up * x])))
    report = gw.check(f, X)
    assert [(fault.label, fault.argument) for fault in report.faults] == [("factor", "weight")]
    assert np.array_equal(w.numpy(), before)


def test_methods_partials_functions_layers():
    class Model:
        @tf.custom_gradient
        def f(self, x):
            return x * x, lambda up: -2.0 * up * x

    assert gw.check(Model().f, X).labels == ["sign"]
    assert gw.check(tf.function(Model().f), X).labels == ["sign"]
    assert verdict(functools.partial(lambda k, x: x**k, 3), X) == "right"
    assert gw.check(lambda x: tf.sin(Model().f(x)), X).labels == ["sign"]
    assert verdict(tf.keras.layers.Dense(2), tf.ones([3, 2])) == "right"
    assert verdict(tf.recompute_grad(lambda x: tf.sin(x) * x), X) == "right"
    assert verdict(tf.grad_pass_through(tf.round), X) == "right"


def test_a_pair_without_decorator():
    assert verdict(lambda x: (x * x, lambda up: 2.0 * up * x), X) == "right"
    assert gw.check(lambda x: (np.tanh(x), lambda up: -up / np.cosh(x) ** 2), np.array([0.3, 1.0])).labels == ["sign"]


def test_an_example_stands_in_for_arguments():
    @gw.custom_gradient(example=lambda: (X,))
    def f(x):
        return x * x, lambda up: 2.0 * up * x

    assert verdict(f) == "right"


@pytest.mark.parametrize(
    ("f", "x", "why"),
    [
        (custom(lambda x: (tf.math.log(x), lambda up: up / x)), tf.constant([-1.0]), "NaN or Inf"),
        (custom(lambda x: (tf.cast(x, tf.int32), lambda up: None)), X, "no float output"),
        (square(), tf.constant([1, 2]), "no float argument"),
        (custom(lambda x: (x @ x, lambda up: up)), X, "InvalidArgumentError"),
    ],
)
def test_what_cannot_be_judged_is_undecided_and_says_why(f, x, why):
    report = gw.check(f, x)
    assert report.verdict == "undecided" and why in report.reason and why in str(report)


def test_what_cannot_be_called_raises_a_clear_error():
    with pytest.raises(TypeError, match="do not fit"):
        gw.check(square(), X, X)
    with pytest.raises(TypeError, match="needs a function"):
        gw.check(3, X)
    with pytest.raises(ValueError, match="order"):
        gw.check(square(), X, order=5)


def test_a_rule_that_raises_is_wrong_and_nothing_escapes():
    report = gw.check(custom(lambda x: (x * x, lambda up: up @ up)), X)
    assert report.verdict == "wrong" and "the rule raised" in report.faults[0].message


@pytest.mark.parametrize(
    ("grad", "label"),
    [(lambda up: (up, up), "count"), (lambda up: tf.zeros([2, 2]), "shape"), (lambda up: None, "none|count")],
)
def test_gradwright_rules_report_what_the_core_refuses(grad, label):
    report = gw.check(gw.custom_gradient(lambda x: (2.0 * x, grad)), X)
    assert report.verdict == "wrong" and set(report.labels) & set(label.split("|"))


def test_a_special_point_does_not_hide_a_mistake():
    assert verdict(custom(lambda x: (x**3, lambda up: 3.0 * up * x)), tf.ones([3])) == "wrong"
    assert verdict(custom(lambda x: (x**2, lambda up: up * x**2)), tf.constant([2.0, 0.0])) == "wrong"


def test_writing_into_the_input_is_found():
    def f(x):
        y = 2.0 * x
        x += 1.0
        return y, lambda up: 2.0 * up

    report = gw.check(f, np.array([1.0, 2.0]))
    assert report.verdict == "wrong" and "writes into its input `x`" in str(report)


def test_a_seed_makes_a_check_repeat():
    reports = [gw.check(cube_wrong(), X, seed=s).to_dict() for s in (3, 3, 4)]
    assert reports[0] == reports[1] and reports[0] != reports[2]


NO_TENSORS = {
    "a text": lambda up: "abc",
    "an object": lambda up: object(),
    "a tensor of text": lambda up: tf.constant("abc"),
    "a sparse tensor": lambda up: tf.sparse.from_dense(up),
    "a generator": lambda up: (u for u in [up]),
}


@pytest.mark.parametrize("decorator", [gw.custom_gradient, tf.custom_gradient], ids=["ours", "TensorFlow's"])
@pytest.mark.parametrize("grad", NO_TENSORS.values(), ids=NO_TENSORS)
def test_what_is_no_tensor_is_a_fault_and_no_exception(decorator, grad):
    report = gw.check(decorator(lambda x: (x * 2, grad)), tf.constant([1.0, 2.0]))
    assert report.labels == ["dtype"] and report.faults[0].argument == "x" and report.faults[0].repair
