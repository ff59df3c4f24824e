"""Wrong numbers: sign, factor, point, terms, upstream."""

import tensorflow as tf

from tests.wrong_rules.book import floats, wrong

custom = tf.custom_gradient


@wrong(floats((5,)), "upstream-ignored", argument="x")
def square_without_upstream():
    return custom(lambda x: (x * x, lambda up: 2.0 * x))


@wrong(floats(()), "upstream-ignored")
def scalar_square_without_upstream():
    return custom(lambda x: (x * x, lambda up: 2.0 * x))


@wrong(floats((4, 3)), "upstream-ignored")
def sum_without_upstream():
    return custom(lambda x: (tf.reduce_sum(tf.sin(x)), lambda up: tf.cos(x)))


@wrong(floats((5,)), "upstream-ignored", "sign")
def cosine_without_upstream_and_sign():
    return custom(lambda x: (tf.cos(x), lambda up: tf.sin(x)))


@wrong(floats((3, 4), (4, 2)), "upstream-ignored", argument="w")
def matmul_without_upstream_for_w():
    def f(x, w):
        def grad(up):
            return up @ tf.transpose(w), tf.transpose(x) @ tf.ones_like(up)

        return x @ w, grad

    return custom(f)


@wrong(floats((5,)), "sign")
def cosine_sign():
    return custom(lambda x: (tf.cos(x), lambda up: up * tf.sin(x)))


@wrong(floats((3,), (3,)), "sign", argument="y")
def difference_sign():
    return custom(lambda x, y: (x - y, lambda up: (up, up)))


@wrong(floats((4,), positive=True), "sign")
def reciprocal_sign():
    return custom(lambda x: (1.0 / x, lambda up: up / (x * x)))


@wrong(floats((2, 3), dtype="float64"), "sign")
def negated_double():
    return custom(lambda x: (tf.exp(x), lambda up: -up * tf.exp(x)))


@wrong(floats((6,)), "factor")
def square_without_two():
    return custom(lambda x: (x * x, lambda up: up * x))


@wrong(floats((6,), positive=True), "factor")
def sqrt_without_half():
    return custom(lambda x: (tf.sqrt(x), lambda up: up / tf.sqrt(x)))


@wrong(floats((7,)), "factor")
def mean_without_its_count():
    return custom(lambda x: (tf.reduce_mean(x), lambda up: up * tf.ones_like(x)))


@wrong(floats((5, 4)), "factor")
def loss_divided_twice():
    return custom(lambda x: (tf.reduce_sum(x * x) / 5.0, lambda up: up * 2.0 * x / 25.0))


@wrong(floats((9,), dtype="float64"), "factor")
def a_tenth_of_a_permille():
    return custom(lambda x: (tf.sin(x), lambda up: up * tf.cos(x) * 1.0001))


@wrong(floats((200,)), "factor")
def one_percent_in_float32():
    return custom(lambda x: (tf.tanh(x), lambda up: up * (1.0 - tf.tanh(x) ** 2) * 1.01))


@wrong(floats((5,)), "sign", "factor")
def minus_twice():
    return custom(lambda x: (tf.sin(x), lambda up: -2.0 * up * tf.cos(x)))


@wrong(floats((5,)), "wrong-point")
def sine_at_the_output():
    return custom(lambda x: (tf.sin(x), lambda up: up * tf.cos(tf.sin(x))))


@wrong(floats((5,)), "wrong-point")
def tanh_with_the_input():
    return custom(lambda x: (tf.tanh(x), lambda up: up * (1.0 - x * x)))


@wrong(floats((5,)), "wrong-point")
def sigmoid_with_the_input():
    return custom(lambda x: (tf.sigmoid(x), lambda up: up * x * (1.0 - x)))


@wrong(floats((5,)), "wrong-point")
def derivative_at_an_intermediate():
    def f(x):
        inner = 3.0 * x + 1.0
        return tf.sin(inner) * 1.0, lambda up: up * 3.0 * tf.cos(3.0 * inner + 1.0)

    return custom(f)


@wrong(floats((4,)), "wrong-point")
def softplus_at_its_output():
    return custom(lambda x: (tf.nn.softplus(x), lambda up: up * tf.sigmoid(tf.nn.softplus(x))))


@wrong(floats((5,)), "missing-term")
def product_rule_half():
    return custom(lambda x: (x * tf.sin(x), lambda up: up * tf.sin(x)))


@wrong(floats((5,)), "missing-term")
def polynomial_without_its_line():
    return custom(lambda x: (x**3 + 4.0 * x, lambda up: up * 3.0 * x**2))


@wrong(floats((3, 4)), "missing-term")
def softmax_without_its_sum():
    def f(x):
        s = tf.nn.softmax(x)
        return s, lambda up: up * s

    return custom(f)


@wrong(floats((3, 4)), "missing-term")
def centred_without_the_mean():
    return custom(lambda x: (x - tf.reduce_mean(x, -1, keepdims=True), lambda up: up))


@wrong(floats((6,)), "missing-term")
def normalised_without_the_norm():
    return custom(lambda x: (x / tf.norm(x), lambda up: up / tf.norm(x)))


@wrong(floats((3, 3)), "missing-term")
def gram_one_side():
    return custom(lambda x: (x @ tf.transpose(x), lambda up: up @ x))


@wrong(floats((5,)), "missing-term")
def swish_without_its_gate():
    return custom(lambda x: (x * tf.sigmoid(x), lambda up: up * tf.sigmoid(x)))


@wrong(floats((5,)), "nonlinear")
def clipped_upstream():
    return custom(lambda x: (x * 1.0, lambda up: tf.clip_by_value(up, -0.1, 0.1)))


@wrong(floats((5,)), "nonlinear")
def squared_upstream():
    return custom(lambda x: (tf.sin(x), lambda up: up * up * tf.cos(x)))


@wrong(floats((5,)), "nonlinear")
def normalised_upstream():
    return custom(lambda x: (x * 1.0, lambda up: up / (tf.norm(up) + 1e-3)))


@wrong(floats((5,)), "nonlinear")
def sign_of_upstream():
    return custom(lambda x: (2.0 * x, lambda up: tf.sign(up)))


@wrong(floats((5,)), "nonlinear")
def absolute_upstream():
    return custom(lambda x: (tf.exp(x), lambda up: tf.abs(up) * tf.exp(x)))


@wrong(floats((5,)), "nonlinear")
def upstream_with_decay_added():
    return custom(lambda x: (x * 1.0, lambda up: up + 0.01 * x))


@wrong(floats((5,)), "value")
def rounded_without_a_word():
    return custom(lambda x: (tf.round(x), lambda up: up))


@wrong(floats((8,)), "value")
def zero_gradient():
    return custom(lambda x: (tf.sin(x), lambda up: tf.zeros_like(x)))


@wrong(floats((40,)), "value")
def leaky_slope_forgotten():
    return custom(lambda x: (tf.nn.leaky_relu(x, 0.2), lambda up: up * tf.cast(x > 0, x.dtype)))


@wrong(floats((5,), positive=True), "value")
def power_with_wrong_exponent():
    return custom(lambda x: (x**3, lambda up: up * 3.0 * x))
