"""Overrides and functions: traced in the scope, before it, around it, copied from their graphs."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from tests.override.tools import GUIDED, PLAIN, RULES, W, X, close, gradient, guided, relus, tape_inside, times


def used(f):
    """The function, traced and differentiated before."""
    gradient(f)
    return f


def concrete(f):
    return tf.function(f).get_concrete_function(tf.TensorSpec([4]))


@pytest.mark.parametrize(
    "f",
    [
        tf.function(relus),
        used(tf.function(relus)),
        used(tf.function(relus, jit_compile=True)),
        concrete(relus),
        used(concrete(relus)),
        tf.compat.v1.wrap_function(relus, [tf.TensorSpec([4])]),
    ],
    ids=["fresh", "used", "jit", "concrete", "used concrete", "wrapped"],
)
def test_functions_in_a_scope_and_by_themselves(f):
    with gw.override(RULES) as hits:
        assert gradient(f) == GUIDED
    assert hits["Relu"] == 1
    assert gradient(f) == PLAIN
    overridden = gw.override(RULES, f)
    assert gradient(overridden) == GUIDED and gradient(overridden) == GUIDED
    assert overridden.hits["Relu"] == 1
    assert gradient(tf.function(lambda x: overridden(x))) == GUIDED
    assert close(overridden(X), f(X))
    assert gradient(f) == PLAIN


def test_a_gradient_computed_inside_a_function_is_met_too():
    step = tape_inside(relus)
    assert step(X).numpy().tolist() == PLAIN
    with gw.override(RULES):
        assert step(X).numpy().tolist() == GUIDED
    assert step(X).numpy().tolist() == PLAIN


@pytest.mark.parametrize("wrap", [lambda f: f, concrete], ids=["function", "concrete"])
def test_a_scope_within_a_function(wrap):
    inner = wrap(relus)

    def scoped(x):
        with gw.override(RULES):
            return inner(x)

    assert gradient(tf.function(scoped)) == GUIDED
    assert tape_inside(scoped)(X).numpy().tolist() == GUIDED


def loop(f, x):
    return tf.while_loop(lambda i, _: i < 2, lambda i, q: (i + 1, f(q)), [0, x], maximum_iterations=2)[1]


def branch(f, x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: f(x), lambda: x)


def nested():
    """Relus directly, in a loop, a branch, a called function, and in all of them in each other."""
    inner = tf.function(lambda x: tf.nn.relu(x) * 1.0)

    @tf.function
    def all_of_them(x):
        return tf.stack(
            [
                tf.nn.relu(x),
                loop(tf.nn.relu, x),
                branch(tf.nn.relu, x),
                inner(x),
                loop(lambda q: branch(inner, q), x),
                branch(lambda q: loop(tf.nn.relu, q), x),
            ]
        )

    return all_of_them


@pytest.mark.parametrize("how", ["fresh", "used", "concrete", "concrete in function"])
def test_branches_loops_and_called_functions(how):
    f = nested()
    if how == "used":
        used(f)
    if how.startswith("concrete"):
        f = f.get_concrete_function(tf.TensorSpec([4]))
        used(f)
    outer = tf.function(lambda x: f(x)) if how == "concrete in function" else f
    with gw.override(RULES) as hits:
        assert gradient(outer) == [6 * g for g in GUIDED]
    # One each: direct, loop, branch, the called function, the loop in the branch.
    assert hits["Relu"] == 5
    assert gradient(outer) == [6 * g for g in PLAIN]


def test_branches_and_loops_compiled_by_xla():
    f = lambda x: tf.nn.relu(x) + loop(tf.nn.relu, x) + branch(tf.nn.relu, x)

    @tf.function(jit_compile=True)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(W * f(x))
        return tape.gradient(loss, x)

    with gw.override(RULES):
        assert step(X).numpy().tolist() == [3 * g for g in GUIDED]
    assert step(X).numpy().tolist() == [3 * g for g in PLAIN]


def test_variables_are_shared_and_get_their_gradients():
    v = tf.Variable([1.0, 2.0, 3.0, 4.0])
    f = lambda x: tf.nn.relu(x * v)
    for form in (f, tf.function(f), concrete(f)):
        overridden = gw.override({"Relu": times(7.0)}, form)
        assert close(gradient(overridden, w=1.0, wrt=v), 7 * X)
        v.assign_add(tf.ones(4))
        assert close(overridden(X), f(X))


def test_gradients_flow_into_watched_captured_tensors():
    c = tf.constant([2.0, 2.0, 2.0, 2.0])
    traced = concrete(lambda x: tf.nn.relu(x * c))
    with gw.override({"Relu": times(7.0)}), tf.GradientTape() as tape:
        tape.watch(c)
        y = traced(X)
    assert close(tape.gradient(y, c), 7 * X)


def test_structures_keywords_and_methods():
    class Model(tf.Module):
        @tf.function
        def both(self, x, *, scale=1.0):
            return {"y": tf.nn.relu(x) * scale, "pair": (x, tf.nn.relu(-x))}

    model = Model()
    with gw.override(RULES) as hits:
        found = gradient(lambda x: model.both(x, scale=3.0)["y"])
    assert found == [3 * g for g in GUIDED] and hits["Relu"] == 2
    traced = model.both.get_concrete_function(tf.TensorSpec([4]), scale=2.0)
    with gw.override(RULES):
        result = traced(X)
        assert gradient(lambda x: traced(x)["y"]) == [2 * g for g in GUIDED]
    assert set(result) == {"y", "pair"} and isinstance(result["pair"], tuple)


def test_autograph_is_kept():
    @tf.function
    def f(x):
        if tf.reduce_sum(x) > 0:
            for _ in tf.range(2):
                x = tf.nn.relu(x)
        return x

    with gw.override(RULES):
        assert gradient(f) == GUIDED

    def plain_python(x):
        return tf.nn.relu(x) if tf.reduce_sum(x) > 0 else x

    overridden = gw.override(RULES, plain_python)
    assert gradient(tf.function(lambda x: overridden(x))) == GUIDED


def test_a_function_first_called_in_a_scope_makes_its_variable_once():
    class Lazy:
        v = None

        @tf.function
        def __call__(self, x):
            if self.v is None:
                self.v = tf.Variable(tf.fill([4], 2.0))
            return tf.nn.relu(x * self.v)

    lazy = Lazy()
    with gw.override(RULES):
        assert gradient(lazy) == [2 * g for g in GUIDED]
    variable = lazy.v
    assert gradient(lazy) == [2 * g for g in PLAIN] and lazy.v is variable


def test_a_concrete_function_taken_in_the_scope_is_not_baked():
    f = tf.function(relus)
    with gw.override(RULES) as hits:
        taken = f.get_concrete_function(tf.TensorSpec([4]))
        assert hits["Relu"] == 0
        assert gradient(taken) == GUIDED
    assert gradient(taken) == PLAIN and gradient(f) == PLAIN


def test_differentiating_in_the_scope_what_ran_outside_changes_nothing():
    f = tf.function(relus)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(X)
        loss = tf.reduce_sum(W * f(X))
    with gw.override(RULES, strict=False):
        assert tape.gradient(loss, X).numpy().tolist() == PLAIN
    assert gradient(f) == PLAIN


def test_a_session_graph():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        with gw.override(RULES) as hits:
            y = tf.nn.relu(x)
        z = tf.nn.relu(x)
        to_y, to_z = (tf.gradients(tf.reduce_sum(W.numpy() * one), x)[0] for one in (y, z))
        found = session.run([to_y, to_z], {x: X.numpy()})
    assert found[0].tolist() == GUIDED and found[1].tolist() == PLAIN and hits["Relu"] == 1


def test_tf_gradients_within_a_function():
    @tf.function
    def f(x):
        with gw.override(RULES):
            y = tf.nn.relu(x)
            return tf.gradients(tf.reduce_sum(W * y), x)[0]

    assert f(X).numpy().tolist() == GUIDED


def test_an_overridden_function_as_an_argument_of_a_function():
    call = tf.function(lambda f, x: f(x))
    for form in (relus, tf.function(relus), concrete(relus)):
        overridden = gw.override(RULES, form)
        assert gradient(lambda x, f=overridden: call(f, x)) == GUIDED
        assert overridden.original is form


def test_unknown_sizes():
    traced = tf.function(relus).get_concrete_function(tf.TensorSpec(None))
    assert gradient(gw.override(RULES, traced)) == GUIDED
    grid = tf.reshape(X, [2, 2])
    assert gradient(gw.override(RULES, traced), grid, tf.reshape(W, [2, 2])) == [GUIDED[:2], GUIDED[2:]]


def test_second_order_in_functions_and_copies():
    y = np.exp(X)
    rule = {"Exp": lambda op, up: 7.0 * up * op.outputs[0]}
    scoped = gw.override(rule, tf.exp)
    for f in (
        gw.override(rule, tf.function(tf.exp)),
        gw.override(rule, concrete(tf.exp)),
        tf.function(lambda x: scoped(x)),
    ):
        with tf.GradientTape() as outer:
            outer.watch(X)
            with tf.GradientTape() as inner:
                inner.watch(X)
                z = f(X)
            first = inner.gradient(z, X)
        assert close(first, 7 * y, 1e-5) and close(outer.gradient(first, X), 49 * y, 1e-5)


def test_identities_of_the_model_only():
    # TensorFlow wraps results, branches and loops in identities of its own; the rule must act once.
    rule = {"Identity": times(7.0)}
    plain = lambda x: tf.identity(x)
    in_branch = lambda x: tf.cond(x[0] < 0, lambda: tf.identity(x), lambda: x)
    for f in (plain, tf.function(plain), tf.function(in_branch), concrete(plain), concrete(in_branch)):
        with gw.override(rule) as hits:
            assert gradient(f, w=1.0) == [7.0] * 4
        assert hits["Identity"] == 1


def test_a_gradient_that_a_concrete_function_computed_cannot_be_changed_and_is_said():
    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.exp(x))
        return tape.gradient(loss, x) * 1.0

    # Exp runs forward here, but its derivative is in the graph already.
    overridden = gw.override({"Mul": guided}, step.get_concrete_function(tf.TensorSpec([4])), strict=False)
    overridden(X)
    assert any("backward pass" in reason for reason in overridden.hits.missed["Mul"])


def test_custom_gradients_in_a_copied_graph_are_right():
    v = tf.Variable([1.0, 2.0, 3.0, 4.0])
    inner = tf.function(lambda x: tf.nn.silu(x, beta=2.0))

    @tf.custom_gradient
    def scaled(x):
        y = tf.exp(x * 0.1)

        def grad(up, variables=()):
            return up * y * x, [up * y for _ in variables]

        return y * v, grad

    f = lambda x: tf.nn.silu(tf.nn.relu(x)) + inner(x) + scaled(x)
    traced = tf.function(f).get_concrete_function(tf.TensorSpec([4]))
    same = gw.override({"Relu": gw.override.native}, traced)
    wanted, wanted_v = gradient(f), gradient(f, wrt=v)
    assert close(gradient(same), wanted) and close(gradient(same, wrt=v), wanted_v)
    assert close(gradient(tf.function(lambda x: same(x))), wanted)
    assert close(gradient(traced), wanted)
