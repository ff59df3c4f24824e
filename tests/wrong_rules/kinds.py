"""Complex, random, coarse, captured: the rarer mistakes."""

import numpy as np
import tensorflow as tf

import gradwright as gw
from tests.wrong_rules.book import complexes, floats, wrong

custom = tf.custom_gradient


@wrong(complexes((4,)), "conjugate")
def square_not_conjugated():
    return custom(lambda z: (z * z, lambda up: up * 2.0 * z))


@wrong(complexes((4,), (4,)), "conjugate", argument="w")
def product_not_conjugated_for_w():
    return custom(lambda z, w: (z * w, lambda up: (up * tf.math.conj(w), up * z)))


@wrong(complexes((4,), dtype="complex128"), "conjugate", "sign")
def exponential_not_conjugated_and_negated():
    return custom(lambda z: (tf.exp(z), lambda up: -up * tf.exp(z)))


@wrong(complexes((3,)), "factor")
def complex_square_without_two():
    return custom(lambda z: (z * z, lambda up: up * tf.math.conj(z)))


@wrong(floats((50,)), "random")
def noise_in_the_gradient():
    return custom(lambda x: (x * x, lambda up: up * 2.0 * x * tf.random.uniform(tf.shape(x), 0.9, 1.1)))


@wrong(floats((20,)), "random")
def dropout_drawn_again():
    def f(x):
        return x * 1.0, lambda up: up * tf.cast(tf.random.uniform(tf.shape(x)) > 0.5, x.dtype) * 2.0

    return custom(f)


@wrong(floats((30,)), "precision")
def half_on_the_way():
    return custom(lambda x: (tf.sin(x), lambda up: tf.cast(tf.cast(up * tf.cos(x), tf.float16), x.dtype)))


@wrong(floats((30,), dtype="float64"), "precision")
def bfloat_on_the_way():
    return custom(lambda x: (x**3, lambda up: tf.cast(tf.cast(3 * x * x, tf.bfloat16), x.dtype) * up))


def _variables():
    return tf.Variable([1.0, -2.0, 0.5], name="w"), tf.Variable([0.3, 0.7, -1.0], name="b")


@wrong(floats((4, 3)), "variables")
def variables_not_answered():
    w, _ = _variables()
    return custom(lambda x: (x * w, lambda up: up * w))


@wrong(floats((4, 3)), "variables")
def one_of_two_variables_answered():
    w, b = _variables()

    def f(x):
        def grad(up, variables=None):
            return up * w, [tf.reduce_sum(up * x, 0)]

        return x * w + b, grad

    return custom(f)


@wrong(floats((4, 3)), "not-summed", argument="w")
def variable_gradient_not_summed():
    w, _ = _variables()
    return custom(lambda x: (x * w, lambda up, variables=None: (up * w, [up * x])))


@wrong(floats((4, 3)), "sign", argument="w")
def variable_gradient_negated():
    w, _ = _variables()
    return custom(lambda x: (x * w, lambda up, variables=None: (up * w, [-tf.reduce_sum(up * x, 0)])))


@wrong(floats((4, 3)), "none", argument="w")
def variable_without_gradient():
    w, _ = _variables()
    return custom(lambda x: (x * w, lambda up, variables=None: (up * w, [None])))


@wrong(floats((4, 3)), "swapped", argument="w")
def variables_swapped():
    w, b = _variables()

    def f(x):
        def grad(up, variables=None):
            by = {w.ref(): tf.reduce_sum(up, 0), b.ref(): tf.reduce_sum(up * x, 0)}
            return up * w, [by[v.ref()] for v in variables]

        return x * w + b, grad

    return custom(f)


@wrong(floats((6,)), "upstream-ignored")
def second_output_ignored():
    return custom(lambda x: ((tf.sin(x), tf.cos(x)), lambda u, v: u * tf.cos(x)))


@wrong(floats((6,)), "sign", like=lambda x: x)
def straight_through_negated():
    return custom(lambda x: (tf.round(x), lambda up: -up))


@wrong(floats((6,)), "factor")
def declared_surrogate_off_by_two():
    return gw.custom_gradient(surrogate=lambda x: x)(lambda x: (tf.round(x), lambda up: 2.0 * up))


@wrong(floats((1000,)), "value")
def one_coordinate_of_many():
    mask = np.ones(1000)
    mask[413] = 0.0
    return custom(lambda x: (tf.exp(5.0 * x), lambda up: up * 5.0 * tf.exp(5.0 * x) * tf.cast(mask, x.dtype)))


def nested(rng):
    x, y = floats((3, 2), (3, 2))(rng)
    return ({"a": x, "b": [y]},)


@wrong(nested, "sign", argument="p['b'][0]")
def nested_argument_negated():
    def f(p):
        return p["a"] * p["b"][0], lambda up: {"p": {"a": up * p["b"][0], "b": [-up * p["a"]]}}

    return gw.custom_gradient(f)


@wrong(lambda rng: (tf.ragged.constant([[1.0, 2.0], [], [3.0]]),), "factor", argument="r")
def ragged_without_two():
    return gw.custom_gradient(lambda r: (r * r, lambda up: up * r))
