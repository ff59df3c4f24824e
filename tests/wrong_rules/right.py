"""Right rules that look suspicious: kinks, odd scales, cancellation, repairs, surrogates, randomness with a seed."""

import numpy as np
import tensorflow as tf

import gradwright as gw
from tests.wrong_rules.book import complexes, floats, right

custom = tf.custom_gradient


def fixed(*values, dtype="float32"):
    return lambda rng: tuple(tf.constant(v, dtype) for v in values)


@right(fixed([0.0, 1.0, -2.0]))
def relu_at_its_kink():
    return custom(lambda x: (tf.nn.relu(x), lambda up: up * tf.cast(x >= 0, x.dtype)))


@right(fixed([0.0, 0.0]))
def relu_at_nothing_but_kinks():
    return custom(lambda x: (tf.nn.relu(x), lambda up: up * tf.cast(x > 0, x.dtype)))


@right(fixed([0.0, 3.0, -1.0]))
def absolute_value_at_zero():
    return custom(lambda x: (tf.abs(x), lambda up: up * tf.sign(x)))


@right(fixed([4.0, 2.5, -1.0]))
def floor_at_its_jump():
    return custom(lambda x: (tf.floor(x), lambda up: tf.zeros_like(up)))


@right(fixed([-1.0, 0.5, 1.0]))
def clip_at_its_edges():
    return custom(lambda x: (tf.clip_by_value(x, -1, 1), lambda up: up * tf.cast(tf.abs(x) <= 1, x.dtype)))


@right(fixed([1.0, 1.0, 2.0]))
def maximum_of_equals():
    return custom(lambda x: (tf.reduce_max(x), lambda up: up * tf.cast(tf.equal(x, tf.reduce_max(x)), x.dtype)))


@right(floats((1000,)))
def steep_exponential():
    return custom(lambda x: (tf.exp(5.0 * x), lambda up: up * 5.0 * tf.exp(5.0 * x)))


@right(floats((300,)))
def fast_oscillation():
    return custom(lambda x: (tf.sin(30.0 * x), lambda up: up * 30.0 * tf.cos(30.0 * x)))


@right(floats((300,)))
def tiny_scale():
    return custom(lambda x: (1e-6 * tf.sin(x), lambda up: up * 1e-6 * tf.cos(x)))


@right(floats((300,)))
def huge_scale():
    return custom(lambda x: (1e12 * tf.sin(x), lambda up: up * 1e12 * tf.cos(x)))


@right(floats((100,)))
def large_offset():
    return custom(lambda x: ((x + 1000.0) ** 3, lambda up: up * 3.0 * (x + 1000.0) ** 2))


@right(lambda rng: (tf.constant(np.abs(rng.standard_normal(50)) * 1e-6 + 1e-9, tf.float32),))
def logarithm_near_zero():
    return custom(lambda x: (tf.math.log(x), lambda up: up / x))


@right(fixed([0.999999, -0.999, 0.0]))
def arcsine_at_its_edge():
    return custom(lambda x: (tf.asin(x), lambda up: up / tf.sqrt(1.0 - x * x)))


@right(fixed([-50.0, -3.0, 0.0, 20.0, 88.0]))
def softplus_the_known_way():
    def f(x):
        e = tf.exp(x)
        return tf.math.log(1.0 + e), lambda up: up * (1.0 - 1.0 / (1.0 + e))

    return custom(f)


@right(fixed([-200.0, 0.0, 200.0]))
def stable_softplus():
    return custom(lambda x: (tf.nn.softplus(x), lambda up: up * tf.sigmoid(x)))


@right(floats((40,)))
def cancellation_near_one():
    return custom(lambda x: ((x - 1.0) ** 3, lambda up: up * (3.0 * x * x - 6.0 * x + 3.0)))


@right(floats((3, 5)))
def softmax():
    def f(x):
        s = tf.nn.softmax(x)
        return s, lambda up: s * (up - tf.reduce_sum(up * s, -1, keepdims=True))

    return custom(f)


@right(floats((64, 100), (100, 30), (30,)))
def dense_layer():
    def f(x, w, b):
        return x @ w + b, lambda up: (up @ tf.transpose(w), tf.transpose(x) @ up, tf.reduce_sum(up, 0))

    return custom(f)


@right(floats((2, 3), (3,)))
def repaired_broadcast():
    return gw.custom_gradient(lambda x, s: (x * s, lambda up: (up * s, up * x)))


@right(floats((3,)))
def gradwright_casts():
    return gw.custom_gradient(lambda x: (2.0 * x, lambda up: 2.0 * tf.cast(up, tf.float64)))


@right(floats((6,)))
def declared_surrogate():
    return gw.custom_gradient(surrogate=True)(lambda x: (tf.round(x), lambda up: up))


@right(floats((6,)))
def surrogate_by_function():
    return gw.custom_gradient(surrogate=lambda x: x)(lambda x: (tf.round(x), lambda up: up))


@right(floats((6,)), like=tf.tanh)
def straight_through_tanh():
    return custom(lambda x: (tf.sign(x), lambda up: up * (1.0 - tf.tanh(x) ** 2)))


@right(floats((6,)))
def constant_function():
    return custom(lambda x: (tf.ones_like(x), lambda up: tf.zeros_like(up)))


@right(floats((6,), (6,)))
def unused_argument():
    return custom(lambda x, y: (tf.sin(x), lambda up: (up * tf.cos(x), None)))


@right(floats((4,)))
def stopped_half():
    return custom(lambda x: (x * tf.stop_gradient(x), lambda up: 2.0 * up * x))


@right(floats((0, 3)))
def nothing_at_all():
    return custom(lambda x: (x * x, lambda up: 2.0 * up * x))


@right(floats(()))
def a_scalar():
    return custom(lambda x: (x * x * x, lambda up: 3.0 * up * x * x))


@right(complexes((4,)))
def complex_square():
    return custom(lambda z: (z * z, lambda up: up * tf.math.conj(2.0 * z)))


@right(complexes((4,)))
def complex_modulus():
    return custom(lambda z: (tf.abs(z), lambda up: tf.cast(up / tf.abs(z), z.dtype) * z))


@right(complexes((4,)))
def complex_conjugate():
    return custom(lambda z: (tf.math.conj(z) * z, lambda up: 2.0 * z * tf.cast(tf.math.real(up), z.dtype)))


@right(floats((5,)))
def complex_inside():
    return custom(lambda x: (tf.math.real(tf.exp(tf.complex(0.0 * x, x))), lambda up: -up * tf.sin(x)))


@right(floats((10,), dtype="float16"))
def half_precision():
    return custom(lambda x: (tf.sin(x), lambda up: up * tf.cos(x)))


@right(floats((10,), dtype="bfloat16"))
def brain_precision():
    return custom(lambda x: (x * x, lambda up: 2 * up * x))


@right(floats((20,), dtype="float64"))
def float32_inside_float64():
    return custom(lambda x: (tf.sin(x), lambda up: up * tf.cast(tf.cos(tf.cast(x, tf.float32)), x.dtype)))


@right(floats((20,)))
def float32_constants():
    weights = tf.constant(np.linspace(1, 2, 20), tf.float32)
    return custom(lambda x: (x * weights, lambda up: up * weights))


@right(floats((4, 3)))
def variables_in_the_given_order():
    w, b = tf.Variable([1.0, -2.0, 0.5]), tf.Variable([0.3, 0.7, -1.0])

    def f(x):
        def grad(up, variables=None):
            by = {w.ref(): tf.reduce_sum(up * x, 0), b.ref(): tf.reduce_sum(up, 0)}
            return up * w, [by[v.ref()] for v in variables]

        return x * w + b, grad

    return custom(f)


@right(floats((6,)))
def several_outputs():
    return custom(lambda x: ((tf.sin(x), tf.cos(x)), lambda u, v: u * tf.cos(x) - v * tf.sin(x)))


@right(lambda rng: (tf.constant(rng.standard_normal((5, 3)), tf.float32), tf.constant([0, 4, 4, 1])))
def gather_with_repeats():
    def f(table, index):
        return tf.gather(table, index), lambda up: (tf.IndexedSlices(up, index, tf.shape(table)), None)

    return custom(f)


@right(floats((12,)))
def sorted_values():
    def f(x):
        order = tf.argsort(x)
        return tf.gather(x, order), lambda up: tf.gather(up, tf.argsort(order))

    return custom(f)


@right(floats((30,)))
def dropout_with_its_mask():
    def f(x):
        mask = tf.cast(tf.random.uniform(tf.shape(x)) > 0.5, x.dtype) * 2.0
        return x * mask, lambda up: up * mask

    return custom(f)


@right(lambda rng: (tf.constant(rng.standard_normal((2, 3)), tf.float32), 3))
def static_exponent():
    return custom(lambda x, k: (x**k, lambda up: (up * k * x ** (k - 1), None)))


@right(floats((4, 4)))
def recomputed():
    return tf.recompute_grad(lambda x: tf.sin(x) @ x)


@right(floats((4, 4)))
def matrix_inverse():
    def f(x):
        y = tf.linalg.inv(x + 5.0 * tf.eye(4, dtype=x.dtype))
        return y, lambda up: -tf.transpose(y) @ up @ tf.transpose(y)

    return custom(f)
