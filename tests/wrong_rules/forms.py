"""Wrong form: sums, axes, order, dtype, count, None."""

import numpy as np
import tensorflow as tf

import gradwright as gw
from tests.wrong_rules.book import floats, wrong

custom = tf.custom_gradient


@wrong(floats((2, 3), (3,)), "not-summed", argument="scale")
def scale_not_summed():
    return custom(lambda x, scale: (x * scale, lambda up: (up * scale, up * x)))


@wrong(floats((4, 3), (4, 1)), "not-summed", argument="c")
def column_not_summed():
    return custom(lambda x, c: (x + c, lambda up: (up, up)))


@wrong(floats((5, 2), ()), "not-summed", argument="t")
def temperature_not_summed():
    return custom(lambda x, t: (x * t, lambda up: (up * t, up * x)))


@wrong(floats((2, 3), (3,)), "not-summed", "sign", argument="b")
def bias_not_summed_and_negated():
    return custom(lambda x, b: (x + b, lambda up: (up, -up)))


@wrong(floats((2, 3), (3,)), "not-summed", argument="s")
def strict_rule_not_summed():
    return gw.custom_gradient(strict=True)(lambda x, s: (x * s, lambda up: (up * s, up * x)))


@wrong(floats((6, 3), (3,)), "averaged", argument="b")
def bias_averaged():
    return custom(lambda x, b: (x + b, lambda up: (up, tf.reduce_mean(up, 0))))


@wrong(floats((4, 5, 3), (3,)), "averaged", argument="s")
def scale_averaged_over_two_axes():
    return custom(lambda x, s: (x * s, lambda up: (up * s, tf.reduce_mean(up * x, [0, 1]))))


@wrong(floats((3, 4)), "transposed")
def transpose_not_undone():
    return custom(lambda x: (tf.transpose(x), lambda up: up))


@wrong(floats((3, 4)), "transposed")
def transpose_undone_by_reshape():
    return custom(lambda x: (tf.transpose(x), lambda up: tf.reshape(up, x.shape)))


@wrong(floats((3, 3), (3, 3)), "transposed", argument="w")
def square_matmul_transposed():
    def grad_of(x, w):
        return lambda up: (up @ tf.transpose(w), tf.transpose(tf.transpose(x) @ up))

    return custom(lambda x, w: (x @ w, grad_of(x, w)))


@wrong(floats((2, 2, 2)), "transposed")
def permuted_the_same_way_again():
    return custom(lambda x: (tf.transpose(x, [1, 2, 0]), lambda up: tf.transpose(up, [1, 2, 0])))


@wrong(floats((7,)), "transposed")
def roll_rolled_on():
    return custom(lambda x: (tf.roll(x, 1, 0), lambda up: tf.roll(up, 1, 0)))


@wrong(floats((7,)), "transposed")
def reverse_forgotten():
    return custom(lambda x: (x[::-1], lambda up: up))


@wrong(floats((9,)), "transposed")
def permutation_not_inverted():
    order = np.array([3, 0, 4, 8, 1, 2, 7, 5, 6])
    return custom(lambda x: (tf.gather(x, order), lambda up: tf.gather(up, order)))


@wrong(floats((4,), (4,)), "swapped", argument="x")
def product_swapped():
    return custom(lambda x, y: (x * y, lambda up: (up * x, up * y)))


@wrong(floats((3, 2), (3, 2)), "swapped", argument="y")
def ratio_swapped():
    return custom(lambda x, y: (x * tf.exp(y), lambda up: (up * x * tf.exp(y), up * tf.exp(y))))


@wrong(floats((3, 4), (4, 2)), "swapped")
def matmul_gradients_in_wrong_order():
    return custom(lambda x, w: (x @ w, lambda up: (tf.transpose(x) @ up, up @ tf.transpose(w))))


@wrong(floats((2, 3, 4)), "shape")
def flatten_without_its_inverse():
    return custom(lambda x: (tf.reshape(x, [2, 12]), lambda up: up))


@wrong(floats((5,)), "shape")
def sum_with_a_scalar_gradient():
    return custom(lambda x: (tf.reduce_sum(x), lambda up: up))


@wrong(floats((5, 3)), "shape")
def row_sum_with_a_column_gradient():
    return custom(lambda x: (tf.reduce_sum(x, 1, keepdims=True), lambda up: up))


@wrong(floats((2, 3, 4)), "shape")
def gradwright_rule_of_wrong_shape():
    return gw.custom_gradient(lambda x: (tf.reshape(x, [2, 12]), lambda up: up))


@wrong(floats((3,)), "dtype")
def double_gradient_for_float():
    return custom(lambda x: (2.0 * x, lambda up: tf.cast(up, tf.float64) * 2.0))


@wrong(floats((3,)), "dtype")
def integer_gradient():
    return custom(lambda x: (tf.identity(x), lambda up: tf.ones([3], tf.int32)))


@wrong(floats((3,)), "none", argument="x")
def nothing_returned():
    return custom(lambda x: (x * x, lambda up: None))


@wrong(floats((3,), (3,)), "none", argument="y")
def none_for_the_second():
    return custom(lambda x, y: (x * y, lambda up: (up * y, None)))


@wrong(floats((3,), (3,)), "count")
def one_gradient_for_two():
    return custom(lambda x, y: (x * y, lambda up: up * y))


@wrong(floats((3,)), "count")
def two_gradients_for_one():
    return custom(lambda x: (x * 2.0, lambda up: (up * 2.0, up)))


@wrong(floats((3,), (3,)), "count")
def gradwright_rule_with_one_of_two():
    return gw.custom_gradient(lambda x, y: (x * y, lambda up: (up * y,)))
