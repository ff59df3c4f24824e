"""Problems that people reported against custom gradients, each with its kind around it.

Every test names the right value from mathematics, or the refusal a user should get, in eager mode, with the tape
inside a traced function and outside it.
"""

# ruff: noqa: B905
from __future__ import annotations

import gc
import itertools

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw

PLACES = ["eager", "tape inside", "tape outside"]


def grads(call, sources, place="eager", upstream=None):
    """The gradients of what `call()` gives by `sources`, watched; numpy or None."""
    run = call if place != "tape outside" else tf.function(call)

    def under_tape():
        with tf.GradientTape() as tape:
            tape.watch([s for s in sources if not isinstance(s, tf.Variable)])
            y = run()
        return tape.gradient(y, list(sources), output_gradients=upstream)

    traced = tf.function(under_tape) if place == "tape inside" else under_tape
    return [None if g is None else np.asarray(tf.convert_to_tensor(g)) for g in traced()]


def assert_all(found, expected):
    assert len(found) == len(expected)
    for f, e in zip(found, expected):
        assert (f is None) == (e is None), (f, e)
        if e is not None:
            assert f.shape == np.shape(e), (f.shape, np.shape(e))
            np.testing.assert_allclose(f, e, rtol=1e-5)


every_place = pytest.mark.parametrize("place", PLACES)
rng = np.random.default_rng(7)


# ------------------------------------------------------------------------------------ broadcasts that were not undone

SHAPES = [
    ((2, 3), (3,), (0,)),
    ((2, 3), (2, 1), (1,)),
    ((2, 3), (1, 3), (0,)),
    ((2, 3), (1, 1), (0, 1)),
    ((2, 3), (), (0, 1)),
    ((4, 2, 3), (2, 1), (0, 2)),
    ((1, 3), (1,), (0, 1)),
    ((0, 3), (3,), (0,)),
]


def scale_rule():
    @gw.custom_gradient
    def scale(x, s):
        return x * s, lambda up: (up * s, up * x)

    return scale


@every_place
@pytest.mark.parametrize(("big", "small", "axes"), SHAPES)
def test_a_broadcast_operand_gets_a_gradient_of_its_own_shape(place, big, small, axes):
    x, s = rng.normal(size=big).astype("f"), rng.normal(size=small).astype("f")
    expected = x.sum(axes, keepdims=True).reshape(small)
    X, S = tf.constant(x), tf.constant(s)
    assert_all(grads(lambda: scale_rule()(X, S), [X, S], place), [np.broadcast_to(s, big), expected])


@pytest.mark.parametrize(("big", "small", "axes"), SHAPES)
@pytest.mark.parametrize("known", [False, True])
def test_a_broadcast_of_unknown_sizes_is_undone_at_run_time(big, small, axes, known):
    x, s = rng.normal(size=big).astype("f"), rng.normal(size=small).astype("f")
    ranks = [len(big), len(small)] if known else [None, None]
    specs = [tf.TensorSpec(None if r is None else [None] * r) for r in ranks]
    f = tf.function(scale_rule(), input_signature=specs)
    X, S = tf.constant(x), tf.constant(s)
    assert_all(grads(lambda: f(X, S), [S]), [x.sum(axes, keepdims=True).reshape(small)])


def test_an_optimizer_step_uses_the_summed_gradient():
    import keras

    v = tf.Variable([0.5, 1.0, 2.0])
    x = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(scale_rule()(x, v))
    keras.optimizers.SGD(0.1).apply_gradients([(tape.gradient(loss, v), v)])
    np.testing.assert_allclose(v.numpy(), [0.0, 0.3, 1.1], rtol=1e-5)


def wrong_shape_rule(kind):
    @gw.custom_gradient
    def square(x):
        def grad(up):
            full = up * 2.0 * x
            return {
                "scalar": lambda: tf.reduce_sum(full),
                "row": lambda: tf.reduce_sum(full, 0),
                "transposed": lambda: tf.transpose(full),
                "flat": lambda: tf.reshape(full, [-1]),
            }[kind]()

        return x * x, grad

    return square


@every_place
@pytest.mark.parametrize("kind", ["scalar", "row", "transposed", "flat"])
@pytest.mark.parametrize("chained", [False, True])
def test_a_gradient_that_broadcasting_cannot_explain_is_refused(place, kind, chained):
    x = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    f = wrong_shape_rule(kind)
    with pytest.raises(gw.GradientShapeError, match=r"rule `square` \(test_cases_core.py:\d+\)") as error:
        grads(lambda: f(x * 3.0 if chained else x), [x], place)
    given = {"scalar": "()", "row": "(3,)", "transposed": "(3, 2)", "flat": "(6,)"}[kind]
    assert "gradient of `x`" in str(error.value) and given in str(error.value) and "(2, 3)" in str(error.value)


@pytest.mark.parametrize("kind", ["scalar", "row", "transposed", "flat"])
def test_a_wrong_shape_is_refused_at_run_time_too(kind):
    f = tf.function(wrong_shape_rule(kind), input_signature=[tf.TensorSpec(None)])
    x = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    with pytest.raises(
        (gw.GradientShapeError, tf.errors.InvalidArgumentError), match=r"rule `square`.*gradient of `x`"
    ):
        grads(lambda: f(x), [x])


@pytest.mark.parametrize("kind", ["scalar", "row"])
def test_an_optimizer_never_meets_a_gradient_that_is_too_small(kind):
    v = tf.Variable([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    with pytest.raises(gw.GradientShapeError, match="gradient of `x`"):
        grads(lambda: tf.reduce_sum(wrong_shape_rule(kind)(v)), [v])


# -------------------------------------------------------------------------------------- keywords, defaults, statics


@every_place
def test_keywords_keep_the_rule(place):
    @gw.custom_gradient
    def twice(x, y):
        return x * y, lambda up: (100.0 * up * y, 100.0 * up * x)

    a, b = tf.constant(3.0), tf.constant(4.0)
    for call in (
        lambda: twice(a, b),
        lambda: twice(x=a, y=b),
        lambda: twice(y=b, x=a),
        lambda: twice(a, y=b),
        lambda: twice(**{"y": b, "x": a}),
    ):
        assert_all(grads(call, [a, b], place), [400.0, 300.0])


@every_place
def test_the_strength_of_a_reversal_may_be_a_number_or_a_tensor_in_any_place(place):
    @gw.custom_gradient
    def grl(x, lam=1.0):
        return tf.identity(x), lambda up: -lam * up

    x = tf.constant([1.0, 2.0])
    for call in (
        lambda: grl(x, lam=0.3),
        lambda: grl(x, 0.3),
        lambda: grl(x=x, lam=0.3),
        lambda: grl(lam=0.3, x=x),
        lambda: grl(x, np.float32(0.3)),
    ):
        assert_all(grads(call, [x], place), [[-0.3, -0.3]])
    assert_all(grads(lambda: grl(x), [x], place), [[-1.0, -1.0]])


@every_place
def test_static_arguments_may_be_answered_with_none_or_left_out(place):
    x = tf.constant([2.0])
    for static in (None, "fast", True, object(), {"a": 1}, [1, 2]):
        for answer in (lambda up: (up * 2.0, None), lambda up: up * 2.0, lambda up: {"x": up * 2.0}):
            f = gw.custom_gradient(lambda x, option, answer=answer: (x * 2.0, answer), name="f")
            assert_all(grads(lambda: f(x, static), [x], place), [[2.0]])


@every_place
def test_keyword_only_and_variadic_arguments(place):
    @gw.custom_gradient
    def total(*xs, weight, bias=1.0):
        y = sum(xs) * weight + bias
        return y, lambda up: {**{f"xs[{i}]": up * weight for i in range(len(xs))}, "weight": up * sum(xs)}

    a, b, c, w = (tf.constant(v) for v in (1.0, 2.0, 3.0, 10.0))
    assert_all(grads(lambda: total(a, b, c, weight=w), [a, b, c, w], place), [10.0, 10.0, 10.0, 6.0])


def test_methods_partials_and_lambdas():
    import functools

    class Gain:
        def __init__(self, k):
            self.k = k

        @gw.custom_gradient
        def amplify(self, x):
            return self.k * x, lambda up: up * self.k * 100.0

    x = tf.constant(2.0)
    assert_all(grads(lambda: Gain(3.0).amplify(x), [x]), [300.0])
    assert_all(grads(lambda: Gain(4.0).amplify(x=x), [x]), [400.0])
    assert_all(grads(lambda: Gain.amplify(Gain(5.0), x), [x]), [500.0])
    power = gw.custom_gradient(functools.partial(lambda n, x: (x**n, lambda up: up * 7.0), 2.0))
    assert_all(grads(lambda: power(x), [x]), [7.0])


# --------------------------------------------------------------------------------------------------- captured variables

FORMS = {
    "list": lambda vs, gs: list(gs),
    "tuple": lambda vs, gs: tuple(gs),
    "by ref": lambda vs, gs: {v.ref(): g for v, g in reversed(list(zip(vs, gs)))},
    "pairs": lambda vs, gs: [(v, g) for v, g in reversed(list(zip(vs, gs)))],
    "function": lambda vs, gs: lambda given: [gs[next(i for i, v in enumerate(vs) if v is g)] for g in given],
}


@every_place
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("keyword", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_form_of_answer_reaches_its_variable(place, form, keyword, count):
    """Equal shapes, created in another order than used: only order of first use or keys can be right."""
    made = [tf.Variable([float(k + 2)]) for k in range(count)]
    used = made[::-1]
    x = tf.constant([3.0])

    @gw.custom_gradient
    def f(x):
        y = sum(float(k + 1) * v * x for k, v in enumerate(used)) + 0.0 * used[-1]

        def answer(up):
            dx = up * sum(float(k + 1) * v for k, v in enumerate(used))
            return dx, FORMS[form](used, [up * float(k + 1) * x for k in range(count)])

        if keyword:
            return y, lambda up, variables=None: answer(up)
        return y, lambda up: answer(up)

    dx = sum((k + 1) * float(v[0]) for k, v in enumerate(used))
    assert_all(grads(lambda: f(x), [x, *used], place), [[dx], *[[3.0 * (k + 1)] for k in range(count)]])


@every_place
def test_variables_come_in_order_of_first_use_however_they_are_read(place):
    vs = [tf.Variable(tf.fill([2, 2], float(i + 1)), name=n) for i, n in enumerate("dcba")]
    frozen = tf.Variable(tf.ones([2, 2]), trainable=False)
    readings = [
        lambda x, v: x @ v,
        lambda x, v: x * v,  # read in C++
        lambda x, v: x + tf.nn.relu(v),  # read in C++
        lambda x, v: v * x + v.read_value(),
        lambda x, v: tf.concat([x, v], 0)[:2] + tf.gather(v, [0, 1]),
    ]
    x = tf.ones([2, 2])
    for order in itertools.islice(itertools.permutations(range(4)), 0, 24, 5):
        seen = []

        @gw.custom_gradient
        def f(x):
            y = x @ frozen
            for i, read in zip(order, readings):
                y = read(y, vs[i])

            def grad(up, variables=None):
                seen[:] = [next(k for k, v in enumerate(vs) if v is u) for u in variables]
                return up, [up for _ in variables]

            return y, grad

        grads(lambda: f(x), [x, *vs], place)
        assert seen == list(order)


@every_place
@pytest.mark.parametrize("shape", [(3,), (2,), (2, 1), (2, 2), ()])
def test_a_forgotten_variable_is_named_and_the_form_is_shown(place, shape):
    w, x = tf.Variable(2.0, name="wheel"), tf.ones(shape)
    for pair in (
        lambda x: (x * w, lambda up: up * w),
        lambda x: (x * w, lambda up, variables=None: up * w),
        lambda x: (x * w, lambda up, variables: (up * w,)),
    ):
        f = gw.custom_gradient(pair, name="forgetful")
        with pytest.raises(gw.VariablesError, match=r"rule `forgetful`.*`wheel`") as error:
            grads(lambda: f(x), [x, w], place)
        assert "return input_gradients, [d_wheel], or {wheel.ref(): d_wheel}" in str(error.value)


@every_place
def test_a_variable_that_is_not_trainable_needs_no_answer(place):
    w, x = tf.Variable(3.0, trainable=False), tf.constant(1.0)
    for answer in (lambda up: up * w, lambda up, variables=None: up * w, lambda up: (up * w, [None])):
        f = gw.custom_gradient(lambda x, answer=answer: (x * w, answer))
        assert_all(grads(lambda: f(x), [x], place), [3.0])


@every_place
def test_variables_by_autodiff(place):
    w, b = tf.Variable([2.0, 3.0]), tf.Variable([1.0, 1.0])

    @gw.custom_gradient(variables="autodiff")
    def lin(x):
        return x * w + b, lambda up: 100.0 * up

    x = tf.constant([5.0, 7.0])
    assert_all(grads(lambda: lin(x), [x, w, b], place), [[100.0, 100.0], [5.0, 7.0], [1.0, 1.0]])


@every_place
def test_too_many_answers_for_variables_are_refused(place):
    w, unused = tf.Variable(2.0), tf.Variable(5.0)
    x = tf.constant(3.0)

    @gw.custom_gradient
    def f(x):
        return x * w, lambda up, variables=[w, unused]: (up * w, [up * x, tf.constant(0.0)])

    with pytest.raises(gw.VariablesError, match=r"rule `f`.*expected 1 variable gradient.*received 2"):
        grads(lambda: f(x), [x, w], place)


@every_place
def test_variables_as_arguments(place):
    w, x = tf.Variable(2.0), tf.constant(3.0)

    @gw.custom_gradient
    def h(x, k):
        return x * k, lambda up: (up * k * 10.0, up * x * 10.0)

    for call in (lambda: h(x, w), lambda: h(x, k=w), lambda: h(k=w, x=x)):
        assert_all(grads(call, [x, w], place), [20.0, 30.0])

    short = gw.custom_gradient(lambda x, k: (x * k, lambda up: up * k * 10.0), name="short")
    for call in (lambda: short(x, w), lambda: short(x, k=w)):
        with pytest.raises(
            gw.GradientCountError, match=r"rule `short`.*expected 2 gradients, for `x` and `k`.*received 1"
        ):
            grads(call, [x, w], place)


def test_a_variable_made_by_the_forward_is_nobody_elses():
    @gw.custom_gradient
    def f(x):
        local = tf.Variable(3.0)
        return x * local, lambda up: up * 3.0

    x = tf.constant(2.0)
    assert_all(grads(lambda: f(x), [x]), [3.0])


@pytest.mark.parametrize("form", ["list", "by ref", "function"])
@every_place
def test_a_layer_built_at_its_first_call_is_answered_for_at_once(place, form):
    import keras

    w, x = tf.Variable([[2.0]] * 3), tf.ones([2, 3])
    layers = []

    @gw.custom_gradient
    def f(x):
        if not layers:
            layers.append(keras.layers.Dense(1, kernel_initializer="ones", use_bias=False))
        y = layers[0](x) + x @ w

        def grad(up):
            k = layers[0].kernel.value
            dk = 7.0 * tf.matmul(x, up, transpose_a=True)
            answer = {"list": [dk, 5.0 * dk], "by ref": {w.ref(): 5.0 * dk, k.ref(): dk}}
            return up * tf.ones([1, 3]), answer.get(form, lambda vs: [5.0 * dk if v is w else dk for v in vs])

        return y, grad

    run = tf.function(f) if place == "tape outside" else f

    def step():
        with tf.GradientTape() as tape:
            y = run(x)
        return tape.gradient(y, [layers[0].kernel.value, w])

    found = (tf.function(step) if place == "tape inside" else step)()
    assert_all([g.numpy() for g in found], [np.full((3, 1), 14.0), np.full((3, 1), 70.0)])


@every_place
def test_a_ragged_output_has_a_ragged_upstream_at_every_order(place):
    rt = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
    square = gw.custom_gradient(lambda x: (x * x, lambda up: up * 14.0 * x))

    def first():
        with tf.GradientTape() as tape:
            tape.watch(rt.flat_values)
            y = tf.reduce_sum(square(rt) * 2.0)
        return tape.gradient(y, rt.flat_values)

    assert_all(grads(lambda: tf.reduce_sum(square(rt)), [rt.flat_values], place), [[14.0, 28.0, 42.0]])
    assert_all(grads(first, [rt.flat_values], place), [[28.0, 28.0, 28.0]])


def test_a_tensor_of_several_parts_is_refused_in_words():
    class Parts(tf.experimental.ExtensionType):
        a: tf.Tensor
        b: tf.Tensor

    x = tf.constant([1.0, 2.0])
    f = gw.custom_gradient(lambda p: (p.a * p.b, lambda up: up))
    with pytest.raises(gw.GradwrightError, match="Parts holds several tensors"):
        grads(lambda: f(Parts(x, x)), [x])


# ---------------------------------------------------------------------------------------------------- second order


def orders(f, x, traced):
    def run(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = f(x)
            first = inner.gradient(y, x)
        return first, outer.gradient(first, x)

    return [None if g is None else float(g) for g in (tf.function(run) if traced else run)(tf.constant(x))]


@pytest.mark.parametrize("traced", [False, True])
def test_a_rule_nested_in_a_rule_answers_for_the_second_order(traced):
    @gw.custom_gradient
    def cube(x):
        @gw.custom_gradient
        def slope(up, x):
            return up * 3.0 * x * x, lambda up2: (up2 * 3.0 * x * x, up2 * 600.0 * x * up)

        return x**3, lambda up: slope(up, x)

    assert orders(cube, 2.0, traced) == [12.0, 1200.0]


@pytest.mark.parametrize("traced", [False, True])
def test_a_rule_as_grad_whose_capture_would_be_lost_is_refused(traced):
    """A rule answers for its arguments; what `grad` captured is none, so its second derivative has no answer."""

    @gw.custom_gradient
    def cube(x):
        @gw.custom_gradient
        def slope(up):
            return up * 3.0 * x * x, lambda up2: up2 * 600.0 * x * up

        return x**3, slope

    with pytest.raises(gw.ModeError, match=r"(?s)rule `slope`.*make the tensor an argument"):
        orders(cube, 2.0, traced)


@pytest.mark.parametrize("traced", [False, True])
def test_the_second_order_follows_the_rule(traced):
    @gw.custom_gradient
    def marked(x):
        y = tf.exp(x)
        return y, lambda up: 3.0 * up * y

    np.testing.assert_allclose(orders(marked, 1.0, traced), [3 * np.e, 9 * np.e], rtol=1e-5)


@pytest.mark.parametrize("traced", [False, True])
def test_a_straight_through_square(traced):
    ste = gw.custom_gradient(lambda x: (tf.round(x), lambda up: up))
    assert orders(lambda x: ste(x) ** 2, 2.3, traced) == [4.0, 2.0]


# ----------------------------------------------------------------------------------------------------- forward mode

X, T = tf.constant([1.0, 2.0]), tf.constant([10.0, 10.0])


def tangent(f):
    with tf.autodiff.ForwardAccumulator(X, T) as accumulator:
        y = f(X)
    return accumulator.jvp(y)


FORWARD = {
    "marked": (lambda x: (x * x, lambda up: up * 1000.0 * x), [1e4, 2e4]),
    "straight through": (lambda x: (tf.round(x), lambda up: up), [10, 10]),
    "reversal": (lambda x: (tf.identity(x), lambda up: -up), [-10, -10]),
    "opaque forward": (
        lambda x: (tf.ensure_shape(tf.numpy_function(lambda v: v * v, [x], tf.float32), [2]), lambda up: up * 1e3 * x),
        [1e4, 2e4],
    ),
    "numpy in the rule": (
        lambda x: (x * x, lambda up: tf.numpy_function(lambda u, v: u * 7 * v, [up, x], tf.float32)),
        [70, 140],
    ),
}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("kind", FORWARD)
def test_forward_mode_follows_the_rule(kind, traced):
    rule = gw.custom_gradient(FORWARD[kind][0])
    np.testing.assert_allclose(tangent(tf.function(rule) if traced else rule), FORWARD[kind][1], rtol=1e-5)


@pytest.mark.parametrize("traced", [False, True])
def test_forward_mode_beside_an_integer_argument(traced):
    powi = gw.custom_gradient(lambda x, n: (x ** tf.cast(n, x.dtype), lambda up: (up * 5.0 * x, None)))
    f = lambda x: powi(x, tf.constant(2))
    np.testing.assert_allclose(tangent(tf.function(f) if traced else f), [50, 100], rtol=1e-5)


NONLINEAR = {
    "clip": lambda up, x: tf.clip_by_value(up, -1.0, 1.0),
    "sign": lambda up, x: tf.sign(up),
    "ignored": lambda up, x: 2.0 * x,
    "square": lambda up, x: up * up,
    "norm": lambda up, x: tf.clip_by_norm(up, 1.0),
    "affine": lambda up, x: up + 1.0,
    "where": lambda up, x: tf.where(up > 0, up, 0.0),
}


@pytest.mark.parametrize("place", ["eager", "inside", "outside"])
@pytest.mark.parametrize("kind", NONLINEAR)
def test_forward_mode_of_a_rule_that_is_not_linear_is_refused(kind, place):
    rule = gw.custom_gradient(lambda x: (x * x, lambda up: NONLINEAR[kind](up, x)), name="bent")
    run = {
        "eager": lambda: tangent(rule),
        "inside": lambda: tf.function(lambda: tangent(rule))(),
        "outside": lambda: tangent(tf.function(rule)),
    }[place]
    with pytest.raises(gw.ModeError, match=r"rule `bent`.*forward mode"):
        run()


# --------------------------------------------------------------------------------------- loops, conditions, vectorised


def mul_rule(w):
    @gw.custom_gradient
    def mul(x):
        if w.trainable:
            return w * x, lambda up, variables=None: (up * w, [tf.reduce_sum(up * x)])
        return w * x, lambda up: up * w

    return mul


@pytest.mark.parametrize("trainable", [False, True])
@every_place
def test_a_rule_that_reads_a_variable_in_a_loop(place, trainable):
    w, x = tf.Variable(2.0, trainable=trainable), tf.constant(5.0)
    mul = mul_rule(w)

    def loop():
        y = x
        for _ in tf.range(3):
            y = mul(y)
        return y

    expected = [8.0, 60.0] if trainable else [8.0]
    assert_all(grads(loop, [x, w][: len(expected)], place), expected)


@pytest.mark.parametrize("trainable", [False, True])
@every_place
def test_a_rule_that_reads_a_variable_in_a_condition(place, trainable):
    w, x = tf.Variable(2.0, trainable=trainable), tf.constant(5.0)
    mul = mul_rule(w)
    taken = lambda: tf.cond(x > 0, lambda: mul(x), lambda: x)
    nested = lambda: tf.cond(x > 0, lambda: tf.cond(x > 1, lambda: mul(x), lambda: x), lambda: x)
    for call in (taken, nested):
        expected = [2.0, 5.0] if trainable else [2.0]
        assert_all(grads(call, [x, w][: len(expected)], place), expected)


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("mapped", ["map_fn", "vectorized_map"])
@every_place
def test_a_rule_that_reads_a_variable_in_a_map(place, mapped, trainable):
    w, x = tf.Variable(2.0, trainable=trainable), tf.constant([1.0, 3.0])
    mul = mul_rule(w)
    apply = {"map_fn": lambda: tf.map_fn(mul, x), "vectorized_map": lambda: tf.vectorized_map(mul, x)}[mapped]
    expected = [[2.0, 2.0], 4.0] if trainable else [[2.0, 2.0]]
    assert_all(grads(apply, [x, w][: len(expected)], place), expected)


@every_place
def test_a_rule_that_reuses_a_forward_tensor_in_a_loop(place):
    exp = gw.custom_gradient(lambda x: (lambda e: (e, lambda up: up * e))(tf.exp(x)), name="exp")
    x = tf.constant(0.1)

    def loop():
        y = x
        for _ in tf.range(2):
            y = exp(y)
        return y

    assert_all(grads(loop, [x], place), [np.exp(np.exp(0.1)) * np.exp(0.1)])


def jacobian(f, x, traced, **options):
    def run(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = f(x)
        return tape.jacobian(y, x, **options)

    return (tf.function(run) if traced else run)(x).numpy()


@pytest.mark.parametrize("pfor", [False, True])
@pytest.mark.parametrize("kind", ["numpy_function", ".numpy()"])
def test_the_jacobian_of_a_rule_in_numpy(kind, pfor):
    def through(x):
        y = tf.numpy_function(np.sin, [x], tf.float64)
        y.set_shape(x.shape)

        def grad(up):
            found = tf.numpy_function(lambda u, v: u * np.cos(v), [up, x], tf.float64)
            found.set_shape(x.shape)
            return found

        return y, grad

    direct = lambda x: (tf.constant(np.sin(x.numpy())), lambda up: tf.constant(up.numpy() * np.cos(x.numpy())))
    rule = gw.custom_gradient(through if kind == "numpy_function" else direct)
    x = tf.constant([0.0, 1.0, 2.0], tf.float64)
    expected = np.diag(np.cos(x.numpy()))
    for traced in (False, True)[: 2 if kind == "numpy_function" else 1]:
        np.testing.assert_allclose(jacobian(rule, x, traced, experimental_use_pfor=pfor), expected, rtol=1e-12)
    if kind == "numpy_function":
        rows = np.array([[0.0, 1.0], [2.0, 3.0]])
        np.testing.assert_allclose(tf.vectorized_map(rule, tf.constant(rows)).numpy(), np.sin(rows))


# -------------------------------------------------------------------------------------- ragged, sparse, indexed slices


@every_place
def test_ragged_in_and_out(place):
    rt = tf.ragged.constant([[1.0, 2.0], [3.0]])
    dbl = gw.custom_gradient(lambda x: (x * 2.0, lambda up: up * 3.0))
    found = grads(lambda: tf.reduce_sum(dbl(rt)), [rt.flat_values], place)
    assert_all(found, [[3.0, 3.0, 3.0]])


def test_sparse_in():
    sp = tf.sparse.from_dense([[1.0, 0.0], [0.0, 2.0]])
    dense = gw.custom_gradient(lambda s: (tf.sparse.to_dense(s) * 2.0, lambda up: tf.sparse.from_dense(up * 3.0)))
    assert_all(grads(lambda: tf.reduce_sum(dense(sp)), [sp.values]), [[3.0, 3.0]])


GATHERED = {
    "negative": (lambda up: -up, [-1, 0, -2]),
    "half": (lambda up: up * 0.5, [0.5, 0, 1]),
    "clip": (lambda up: tf.clip_by_value(up, -1.0, 1.0), [1, 0, 1]),
    "where": (lambda up: tf.where(up > 0, up, 0.0), [1, 0, 2]),
    "reshape": (lambda up: tf.reshape(up, up.shape), [1, 0, 2]),
}


@every_place
@pytest.mark.parametrize("kind", GATHERED)
def test_a_gather_behind_a_rule_hands_it_a_dense_upstream(place, kind):
    x = tf.constant([1.0, 2.0, 3.0])
    f = gw.custom_gradient(lambda x: (tf.identity(x), GATHERED[kind][0]))
    assert_all(grads(lambda: tf.reduce_sum(tf.gather(f(x), [0, 2, 2])), [x], place), [GATHERED[kind][1]])


def test_a_rule_may_ask_for_the_sparse_upstream():
    seen = []

    @gw.custom_gradient(sparse=True)
    def f(x):
        return tf.identity(x), lambda up: seen.append(type(up)) or up

    x = tf.constant([1.0, 2.0, 3.0])
    assert_all(grads(lambda: tf.reduce_sum(tf.gather(f(x), [0, 2, 2])), [x]), [[1.0, 0.0, 2.0]])
    assert seen == [tf.IndexedSlices]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("argument", [True, False])
def test_slices_returned_for_a_table_stay_slices(traced, argument):
    table, ids = tf.Variable(tf.ones([4, 2])), tf.constant([1, 3, 1])

    def run():
        grad = lambda up: tf.IndexedSlices(up, ids, tf.constant([4, 2]))
        if argument:
            f = gw.custom_gradient(lambda t: (tf.gather(t, ids), grad))
        else:
            f = gw.custom_gradient(lambda x: (x * tf.gather(table, ids), lambda up: (up, [grad(up)])))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(f(table if argument else tf.ones([3, 2])))
        return tape.gradient(loss, table)

    found = tf.function(run)() if traced else run()
    assert isinstance(found, tf.IndexedSlices)
    np.testing.assert_allclose(tf.convert_to_tensor(found), [[0, 0], [2, 2], [0, 0], [1, 1]])


# --------------------------------------------------------------------------------------------------------------- kinds


@every_place
def test_complex_follows_tensorflows_convention(place):
    z = tf.constant([1.0 + 2.0j, -0.5 + 0.3j], tf.complex64)
    right = gw.custom_gradient(lambda z: (z * z, lambda up: up * tf.math.conj(2.0 * z)))
    native = grads(lambda: tf.reduce_sum(tf.math.real(z * z)), [z])
    assert_all(grads(lambda: tf.reduce_sum(tf.math.real(right(z))), [z], place), native)
    np.testing.assert_allclose(native[0], np.conj(2 * z.numpy()), rtol=1e-6)


KINDS = {
    "float64 tensor": lambda up: tf.constant(np.array([2.0, 2.0])),
    "float64 array": lambda up: np.array([2.0, 2.0]),
    "float32 array": lambda up: np.array([2.0, 2.0], "f"),
    "float16 tensor": lambda up: tf.constant([2.0, 2.0], tf.float16),
    "bfloat16 tensor": lambda up: tf.constant([2.0, 2.0], tf.bfloat16),
}


@every_place
@pytest.mark.parametrize("kind", KINDS)
def test_other_floats_are_cast_at_the_rule(place, kind):
    x = tf.constant([1.0, 2.0])
    f = gw.custom_gradient(lambda x: (tf.identity(x), KINDS[kind]))
    for call, expected in ((lambda: f(x), 2.0), (lambda: f(x) + x, 3.0), (lambda: f(x * 3.0), 6.0)):
        found = grads(call, [x], place)
        assert found[0].dtype == np.float32
        assert_all(found, [[expected, expected]])


@every_place
@pytest.mark.parametrize("number", [2.0, np.float64(2.0), np.float32(2.0)])
def test_a_number_is_the_gradient_of_a_number(place, number):
    x = tf.constant(1.0)
    f = gw.custom_gradient(lambda x: (tf.identity(x), lambda up: number))
    assert_all(grads(lambda: f(x * 3.0), [x], place), [6.0])
    vector = tf.constant([1.0, 2.0])
    with pytest.raises(gw.GradientShapeError, match="gradient of `x`"):
        grads(lambda: f(vector), [vector], place)


@every_place
@pytest.mark.parametrize("value", [tf.constant([1, 2]), np.array([1, 2]), tf.constant([True, False])])
def test_counts_and_masks_are_no_gradients(place, value):
    x = tf.constant([1.0, 2.0])
    f = gw.custom_gradient(lambda x: (tf.identity(x), lambda up: value), name="counting")
    with pytest.raises(gw.GradientDtypeError, match=r"rule `counting`.*gradient of `x`"):
        grads(lambda: f(x), [x], place)


@every_place
def test_complex_for_real_is_refused_and_real_for_complex_is_cast(place):
    x, z = tf.constant([1.0, 2.0]), tf.constant([1.0 + 1j, 2.0])
    f = gw.custom_gradient(lambda x: (tf.identity(x), lambda up: tf.complex(up, up)), name="turned")
    with pytest.raises(gw.GradientDtypeError, match=r"rule `turned`.*complex64.*float32"):
        grads(lambda: f(x), [x], place)
    g = gw.custom_gradient(lambda z: (tf.identity(z), lambda up: tf.constant([3.0, 4.0])))
    found = grads(lambda: g(z), [z], place)
    assert found[0].dtype == np.complex128 and found[0].tolist() == [3, 4]


@every_place
def test_an_integer_output_has_the_upstream_zero(place):
    seen = []

    @gw.custom_gradient
    def f(x):
        def grad(up_y, up_k):
            seen.append(up_k)
            return up_y * 2.0 * x + 0.0 * tf.cast(up_k, tf.float32)

        return (x * x, tf.argmax(x)), grad

    x = tf.constant([1.0, 2.0])
    assert_all(grads(lambda: f(x)[0], [x], place), [[2.0, 4.0]])
    assert_all(grads(lambda: f(x), [x], place, upstream=None), [[2.0, 4.0]])
    assert seen[0].dtype == tf.int64 and seen[0].shape == []


@every_place
def test_an_integer_variable_has_no_gradient(place):
    v = tf.Variable([3], dtype=tf.int32)
    h = gw.custom_gradient(lambda n: (tf.cast(n, tf.float32) * 2.0, lambda up: tf.constant([7.0])))
    assert_all(grads(lambda: h(v), [v], place), [None])


@every_place
def test_an_unused_output_has_the_upstream_zero(place):
    seen = []
    two = gw.custom_gradient(lambda x: ((x * 1.0, x * 2.0), lambda a, b: seen.append(b) or a + b))
    x = tf.constant([1.0, 2.0])
    assert_all(grads(lambda: two(x)[0], [x], place), [[1.0, 1.0]])
    assert seen[0].shape == [2] and seen[0].dtype == tf.float32


# -------------------------------------------------------------------------------------------- counts and structures


@every_place
def test_a_wrong_number_of_gradients_is_refused_with_one_text(place):
    v, a, b = tf.Variable(10.0), tf.constant(3.0), tf.constant(4.0)
    many = gw.custom_gradient(lambda x: (x * v, lambda up, variables=None: ((up * v, -99.0), [up * x])), name="many")
    with pytest.raises(gw.GradientCountError, match=r"rule `many`.*expected 1 gradient, for `x`, but received 2"):
        grads(lambda: many(a), [a, v], place)
    few = gw.custom_gradient(lambda x, y: (x * y, lambda up: up * y), name="few")
    with pytest.raises(
        gw.GradientCountError, match=r"rule `few`.*expected 2 gradients, for `x` and `y`, but received 1"
    ):
        grads(lambda: few(a, b), [a, b], place)
    three = gw.custom_gradient(lambda x, y: (x * y, lambda up: [up, up, up]), name="three")
    with pytest.raises(gw.GradientCountError, match=r"expected 2 gradients, for `x` and `y`, but received 3"):
        grads(lambda: three(a, b), [a, b], place)


@every_place
def test_a_rule_that_returns_nothing_is_refused(place):
    a, b = tf.constant(3.0), tf.constant(4.0)
    none = gw.custom_gradient(lambda x: (x * x, lambda up: None), name="silent")
    with pytest.raises(gw.GradientCountError, match=r"rule `silent`.*`x`.*return"):
        grads(lambda: none(a), [a], place)
    half = gw.custom_gradient(lambda x, y: (x * y, lambda up: (up * y, None)))
    assert_all(grads(lambda: half(a, b), [a, b], place), [4.0, None])


@every_place
def test_structured_arguments_are_answered_by_structure(place):
    p = {"w": tf.constant(2.0), "b": tf.constant(5.0)}
    x = tf.constant(3.0)
    by_dict = gw.custom_gradient(lambda p: (p["w"] * 10.0 + p["b"], lambda up: {"b": up, "w": up * 10.0}))
    assert_all(grads(lambda: by_dict(p), [p["w"], p["b"]], place), [10.0, 1.0])
    beside = gw.custom_gradient(
        lambda p, x: ((p["w"] + p["b"]) * x, lambda up: ({"b": up * x, "w": up * x}, up * (p["w"] + p["b"])))
    )
    assert_all(grads(lambda: beside(p, x), [p["w"], p["b"], x], place), [3.0, 3.0, 7.0])
    flat = gw.custom_gradient(lambda p: (p["w"] * 10.0 + p["b"], lambda up: (up * 10.0, up)), name="flat")
    with pytest.raises(gw.GradwrightError, match=r"rule `flat`") as error:
        grads(lambda: flat(p), [p["w"], p["b"]], place)
    assert "(*, *)" in str(error.value) and "'w': *" in str(error.value)


@every_place
def test_dict_outputs_hand_upstreams_by_key(place):
    x = tf.constant(1.0)
    by_key = gw.custom_gradient(lambda x: ({"s": x + 1.0, "a": x * 7.0}, lambda up: up["a"] * 7.0 + up["s"]))
    assert_all(grads(lambda: by_key(x)["a"], [x], place), [7.0])
    assert_all(grads(lambda: by_key(x)["s"], [x], place), [1.0])
    for grad in (lambda us, ua: ua * 7.0 + us, lambda ua, us: ua * 7.0 + us):
        named = gw.custom_gradient(lambda x, grad=grad: ({"s": x + 1.0, "a": x * 7.0}, grad))
        assert_all(grads(lambda: named(x)["a"], [x], place), [7.0])
    blind = gw.custom_gradient(lambda x: ({"s": x + 1.0, "a": x * 7.0}, lambda p, q: p), name="blind")
    with pytest.raises(gw.GradientCountError, match="rule `blind`"):
        grads(lambda: blind(x)["a"], [x], place)


# ------------------------------------------------------------------------------------------------------ unknown shapes


def test_a_rule_may_ask_for_shapes_that_are_unknown():
    x = tf.ones([3, 2])
    for shape in (lambda x: x.shape, tf.shape):
        rule = gw.custom_gradient(
            lambda x, shape=shape: (tf.reduce_sum(x, 0), lambda up: up * tf.ones(shape(x))), name="summing"
        )
        f = tf.function(lambda x: rule(x), input_signature=[tf.TensorSpec([None, 2])])
        if shape is tf.shape:
            assert_all(grads(lambda: f(x), [x]), [np.ones((3, 2))])
        else:
            with pytest.raises(gw.ModeError, match=r"(?s)rule `summing`.*tf\.shape"):
                grads(lambda: f(x), [x])


# -------------------------------------------------------------------------------------------------------------- memory


def test_a_traced_rule_leaves_nothing_behind():
    """See test_memory for the graphs and the registry; here the closure itself."""
    import weakref

    class Big:
        pass

    def traced():
        big = Big()
        f = gw.custom_gradient(lambda x: (x * 2.0, lambda up: up * (0.1 if big else 0.0)))
        grads(lambda: f(tf.constant(1.0)), [tf.constant(1.0)], "tape inside")
        return weakref.ref(big)

    refs = [traced() for _ in range(3)]
    gc.collect()
    assert [r() for r in refs] == [None] * 3
