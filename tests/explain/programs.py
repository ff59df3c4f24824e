"""Programs whose gradients are missing, zero or not finite for a known reason; the true line carries a marker.

Each is a function of one float tensor `x`. `@program(status, cause)` tells the truth about it, known from what the
program does and from calculus; `x` is where it is evaluated. `modes` are the ways in which it makes sense.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

import gradwright as gw

MARK = "# <-- here"
EAGER, TRACED = "eager", "traced"


@dataclass(frozen=True)
class Program:
    function: Callable
    status: str
    cause: str | None
    x: tuple
    modes: tuple = (EAGER, TRACED)

    @property
    def where(self) -> str | None:
        return marked(self.function)

    def __repr__(self) -> str:
        return self.function.__name__


def marked(function: Callable, mark: str = MARK) -> str | None:
    """The place of the marked line in the source of a function, read from the file."""
    lines, first = inspect.getsourcelines(function)
    found = [first + i for i, line in enumerate(lines) if line.rstrip().endswith(mark)]
    return f"{inspect.getsourcefile(function).rsplit('/', 1)[-1]}:{found[0]}" if found else None


PROGRAMS: list[Program] = []


def program(status, cause, x=(0.3, 0.8), modes=(EAGER, TRACED)):
    def keep(function):
        PROGRAMS.append(Program(function, status, cause, tuple(x), modes))
        return function

    return keep


def safe(x=(0.3, 0.8), modes=(EAGER, TRACED)):
    return program("ok", None, x, modes)


# ---- none: whole numbers


@program("none", "integer")
def cast_to_int(x):
    h = x * 10
    whole = tf.cast(h, tf.int32)  # <-- here
    return tf.reduce_sum(tf.cast(whole, tf.float32))


@program("none", "integer", (3.0, 1.0, 2.0))
def argmax(x):
    h = tf.square(x)
    best = tf.argmax(h)  # <-- here
    return tf.cast(best, tf.float32) * 2.0


@program("none", "integer")
def comparison(x):
    hits = x > 0.5  # <-- here
    return tf.reduce_sum(tf.cast(hits, tf.float32))


@program("none", "integer")
def comparison_in_where(x):
    hit = tf.greater(x, 0.5)  # <-- here
    return tf.reduce_sum(tf.where(hit, 1.0, 2.0))


@program("none", "integer")
def index_into_a_table(x):
    table = tf.constant([1.0, 5.0, 9.0])
    place = tf.cast(x * 2.0, tf.int64)  # <-- here
    return tf.reduce_sum(tf.gather(table, place))


@program("none", "integer")
def histogram(x):
    counts = tf.histogram_fixed_width(x, [0.0, 1.0], 4)  # <-- here
    return tf.reduce_sum(tf.cast(counts, tf.float32))


@program("none", "integer", (3.0, 1.0, 2.0))
def sort_order(x):
    order = tf.argsort(x)  # <-- here
    return tf.reduce_sum(tf.cast(order, tf.float32) * tf.constant([1.0, 2.0, 3.0]))


# ---- none: left TensorFlow


@program("none", "numpy", modes=(EAGER,))
def to_numpy(x):
    h = x * 3.0
    array = h.numpy()  # <-- here
    squared = array**2
    return tf.reduce_sum(tf.constant(squared))


@program("none", "numpy", modes=(EAGER,))
def to_float(x):
    total = float(tf.reduce_sum(x))  # <-- here
    return tf.constant(total) * 2.0


@program("none", "numpy", modes=(EAGER,))
def numpy_ufunc(x):
    h = x * 3.0
    kept = np.maximum(h, 0.0)  # <-- here
    return tf.reduce_sum(kept * tf.constant([1.0, 2.0]))


@program("none", "numpy", modes=(EAGER,))
def numpy_asarray(x):
    array = np.asarray(x * 2.0)  # <-- here
    return tf.reduce_sum(tf.convert_to_tensor(array + 1.0))


@program("none", "numpy", modes=(EAGER,))
def numpy_function_of_arrays(x):
    total = np.sum(x)  # <-- here
    return tf.constant(total) * 3.0


@program("none", "numpy", modes=(EAGER,))
def loop_over_floats(x):
    total = 0.0
    for value in x:
        total += float(value) * 2.0  # <-- here
    return tf.constant(total) * 1.0


@program("none", "numpy", modes=(EAGER,))
def to_list(x):
    values = x.numpy().tolist()  # <-- here
    return tf.reduce_sum(tf.constant(values))


@program("none", "py-function", modes=(EAGER, TRACED))
def numpy_function(x):
    doubled = tf.numpy_function(lambda a: a * 2, [x], tf.float32)  # <-- here
    return tf.reduce_sum(doubled)


def _sine(q):
    return tf.constant(np.sin(q.numpy()))


@program("none", "py-function", modes=(EAGER, TRACED))
def py_function_with_numpy(x):
    return tf.reduce_sum(tf.py_function(_sine, [x], tf.float32))


# ---- none: stopped, no gradient, rules, state


@program("none", "stop-gradient")
def stopped(x):
    h = x * 2.0
    h = tf.stop_gradient(h)  # <-- here
    return tf.reduce_sum(h * 3.0)


@program("none", "no-gradient")
def floor(x):
    return tf.reduce_sum(
        tf.floor(x * 5.0)  # <-- here
    )


@program("none", "no-gradient")
def rounded(x):
    r = tf.round(x)  # <-- here
    return tf.reduce_sum(r * r)


@program("none", "no-gradient")
def shuffled(x):
    s = tf.random.shuffle(x)  # <-- here
    return tf.reduce_sum(s * tf.constant([1.0, 2.0]))


@tf.custom_gradient
def _returns_none(a):
    def grad(up):
        scaled = up * 2.0
        del scaled
        return None  # <-- here

    return a * 2.0, grad


@program("none", "rule-none")
def rule_returns_none(x):
    return tf.reduce_sum(_returns_none(x * 3.0))


_buffer = tf.Variable([0.0, 0.0], trainable=False)


@program("none", "assigned")
def through_a_variable(x):
    _buffer.assign(x * 2.0)  # <-- here
    return tf.reduce_sum(_buffer * 1.0)


@program("none", "assigned")
def added_to_a_variable(x):
    _buffer.assign_add(x)  # <-- here
    return tf.reduce_sum(_buffer)


@program("none", "unused")
def unused(x):
    return tf.reduce_sum(tf.constant([1.0, 2.0]) * 3.0)


@program("none", "unused")
def only_the_shape(x):
    return tf.reduce_sum(tf.zeros_like(x) + 1.0)


# ---- none inside control flow and layers


@program("none", "no-gradient")
def floor_in_a_branch(x):
    def yes():
        return tf.reduce_sum(tf.math.ceil(x))  # <-- here

    return tf.cond(tf.reduce_sum(x) > 0.0, yes, lambda: tf.reduce_sum(x))


@program("none", "stop-gradient")
def stopped_in_a_loop(x):
    def body(i, h):
        h = tf.stop_gradient(h * 2.0)  # <-- here
        return i + 1, h

    return tf.reduce_sum(tf.while_loop(lambda i, h: i < 3, body, [0, x])[1])


class Rounding(keras.layers.Layer):
    def call(self, inputs):
        h = inputs * 3.0
        return tf.round(h)  # <-- here


_rounding = Rounding()


@program("none", "no-gradient")
def keras_layer(x):
    return tf.reduce_sum(_rounding(x[None]))


@tf.function
def _traced_floor(h):
    h = h + 1.0
    return tf.floor(h)  # <-- here


@program("none", "no-gradient")
def nested_function(x):
    return tf.reduce_sum(_traced_floor(x * 2.0))


# ---- zero


@program("zero", "flat")
def sign(x):
    s = tf.sign(x)  # <-- here
    return tf.reduce_sum(s * 2.0)


@program("zero", "flat")
def dead_relu(x):
    h = x - 10.0
    h = tf.nn.relu(h)  # <-- here
    return tf.reduce_sum(h * 2.0)


@program("zero", "flat")
def saturated_sigmoid(x):
    h = x * 1e4
    s = tf.sigmoid(h)  # <-- here
    return tf.reduce_sum(s)


@program("zero", "flat")
def saturated_tanh(x):
    return tf.reduce_sum(
        tf.tanh(x + 50.0)  # <-- here
    )


@program("zero", "flat")
def clipped(x):
    h = x * 100.0
    c = tf.clip_by_value(h, -1.0, 1.0)  # <-- here
    return tf.reduce_sum(c)


@program("zero", "flat")
def dead_relu_in_a_branch(x):
    def yes():
        h = x - 5.0
        return tf.nn.relu(h)  # <-- here

    return tf.reduce_sum(tf.cond(tf.reduce_sum(x) > 0.0, yes, lambda: x))


@program("zero", "flat")
def masked_half(x):
    both = tf.concat([x, tf.constant([5.0, 6.0])], 0)
    kept = both * tf.constant([0.0, 0.0, 1.0, 1.0])  # <-- here
    return tf.reduce_sum(kept)


@program("zero", "masked-branch")
def where_never_taken(x):
    doubled = x * 2.0
    chosen = tf.where(x > 10.0, doubled, 1.0)  # <-- here
    return tf.reduce_sum(chosen)


# ---- not finite


@program("nonfinite", "masked-branch", (0.0, 2.0))
def division_not_taken(x):
    inverse = 1.0 / x  # <-- here
    return tf.reduce_sum(tf.where(x != 0.0, inverse, 0.0))


@program("nonfinite", "masked-branch", (-1.0, 4.0))
def power_not_taken(x):
    p = x**1.5  # <-- here
    return tf.reduce_sum(tf.where(x > 0.0, p, 0.0))


@program("nonfinite", "masked-branch", (10.0,))
def overflow_not_taken(x):
    e = tf.exp(x)
    big = 10.0**e  # <-- here
    return tf.reduce_sum(tf.where(x < 15.0, x, big))


@program("nonfinite", "masked-branch", (1e3,))
def exp_not_taken(x):
    e = tf.exp(x)  # <-- here
    return tf.reduce_sum(tf.where(x > 0.0, 0.0, e))


@program("nonfinite", "masked-branch", (0.0, 1.0))
def log_times_a_mask(x):
    logs = tf.math.log(x)  # <-- here
    return tf.reduce_sum(tf.where(x > 0.0, x * logs, 0.0))


@program("nonfinite", "singular-point", (100.0,))
def softplus_by_hand(x):
    e = tf.exp(x)  # <-- here
    return tf.reduce_sum(tf.math.log(1.0 + e))


@program("nonfinite", "singular-point", (0.0, 0.0))
def norm_at_zero(x):
    h = x * 2.0
    return tf.norm(h)  # <-- here


@program("nonfinite", "singular-point", (0.0, 0.0))
def euclidean_norm_at_zero(x):
    return tf.math.reduce_euclidean_norm(x) * 3.0  # <-- here


@program("nonfinite", "singular-point", (1e-23, 0.0))
def norm_underflow(x):
    return tf.norm(x)  # <-- here


@program("nonfinite", "singular-point", (2.0, 2.0))
def std_of_equal(x):
    spread = tf.math.reduce_std(x)  # <-- here
    return spread * 2.0


@program("nonfinite", "singular-point", (0.5, 1.0))
def acos_at_one(x):
    return tf.reduce_sum(tf.acos(x))  # <-- here


@program("nonfinite", "singular-point", (0.0,))
def atan2_at_origin(x):
    return tf.reduce_sum(tf.atan2(x, x))  # <-- here


@program("nonfinite", "singular-point", (0.0, 3.0))
def root_in_a_loop(x):
    def body(i, h):
        h = h * 1.0
        return i + 1, tf.sqrt(h)  # <-- here

    return tf.reduce_sum(tf.while_loop(lambda i, h: i < 2, body, [0, x])[1])


def _log(e):
    return tf.math.log(e)  # <-- here


@program("nonfinite", "singular-point", (0.0, 1.0))
def log_in_map_fn(x):
    return tf.reduce_sum(tf.map_fn(_log, x))


@tf.custom_gradient
def _divides(a):
    def grad(up):
        scale = up * 2.0
        return scale / (a - 4.0)  # <-- here

    return a + 1.0, grad


@program("nonfinite", "singular-point", (1.0, 4.0))
def inside_a_rule(x):
    return tf.reduce_sum(_divides(x * 1.0))


@gw.custom_gradient
def _our_rule(a):
    def grad(up):
        nothing = a - a
        return up / nothing  # <-- here

    return a + 1.0, grad


@program("nonfinite", "singular-point")
def inside_our_rule(x):
    return tf.reduce_sum(_our_rule(x * 1.0))


@program("nonfinite", "singular-point")
def inside_our_rule_in_a_branch(x):
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.reduce_sum(_our_rule(x)), lambda: tf.reduce_sum(x))


@gw.custom_gradient
def _half_a_rule(a, b):
    def grad(up):
        return up * 2.0, None  # <-- here

    return a * 2.0 + tf.stop_gradient(b), grad


@program("none", "rule-none")
def our_rule_returns_none(x):
    return tf.reduce_sum(_half_a_rule(tf.constant([1.0, 2.0]), x))


@program("ok", None)
def our_rule_answers_for_the_first(x):
    return tf.reduce_sum(_half_a_rule(x, tf.constant([1.0, 2.0])))


TRUE_LINE_ELSEWHERE = {
    rule_returns_none: _returns_none.__wrapped__,
    inside_a_rule: _divides.__wrapped__,
    inside_our_rule: _our_rule.__wrapped__,
    inside_our_rule_in_a_branch: _our_rule.__wrapped__,
    our_rule_returns_none: _half_a_rule.__wrapped__,
    our_rule_answers_for_the_first: lambda: None,
    keras_layer: Rounding,
    nested_function: _traced_floor.python_function,
    log_in_map_fn: _log,
}


# ---- fine: no alarm


@safe()
def plain(x):
    return tf.reduce_sum(x * x)


@safe((-1.0, 0.0, 4.0))
def double_where(x):
    positive = x > 0.0
    root = tf.sqrt(tf.where(positive, x, 1.0))
    return tf.reduce_sum(tf.where(positive, root, 0.0))


@safe((-1.0, 0.0, 4.0))
def relu_partly_dead(x):
    return tf.reduce_sum(tf.nn.relu(x))


@safe((0.0, 2.0))
def divide_no_nan(x):
    return tf.reduce_sum(tf.math.divide_no_nan(3.0, x + 1.0))


@safe((0.0, 0.0))
def clip_by_norm_at_zero(x):
    return tf.reduce_sum(tf.clip_by_norm(x, 1.0))


@safe((1.0, 3.0, 2.0))
def gather_the_best(x):
    return tf.gather(x, tf.argmax(x))


@safe()
def shapes_only(x):
    n = tf.cast(tf.shape(x)[0], tf.float32)
    return tf.reduce_sum(x) / n


@safe()
def softplus(x):
    return tf.reduce_sum(tf.nn.softplus(x * 100.0))


@safe()
def differentiable_py_function(x):
    return tf.reduce_sum(tf.py_function(lambda q: q * q, [x], tf.float32))


@safe(modes=(EAGER,))
def printed_on_the_way(x):
    h = x * 2.0
    repr(h.numpy())
    float(tf.reduce_sum(h))
    return tf.reduce_sum(h * tf.constant([1.0, 5.0]))


@safe(modes=(EAGER,))
def array_times_tensor(x):
    return tf.reduce_sum(np.float32([2.0, 3.0]) * x)


_dense = keras.layers.Dense(3, activation="relu", bias_initializer="ones")


@safe()
def keras_dense(x):
    return tf.reduce_sum(_dense(tf.reshape(x, (1, 2))))


@safe((1.0, 2.0, 3.0, 4.0))
def normalised(x):
    mean, variance = tf.nn.moments(x, 0)
    return tf.reduce_sum(tf.square(x - mean) * x) / (variance + 1e-3)
