"""Randomness: in the forward it is frozen, in the rule it is a mistake."""

import numpy as np
import tensorflow as tf

import gradwright as gw

custom = tf.custom_gradient
X = tf.random.stateless_normal([40], (1, 2))


def test_a_random_forward_is_judged_with_its_seed_fixed():
    def drop(x):
        mask = tf.cast(tf.random.uniform(tf.shape(x)) > 0.5, x.dtype)
        return x * mask, lambda up: up * mask

    report = gw.check(custom(drop), X)
    assert report.ok and [note.label for note in report.notes] == ["random"]

    def wrong(x):
        mask = tf.cast(tf.random.uniform(tf.shape(x)) > 0.5, x.dtype)
        return x * mask, lambda up: -up * mask

    assert gw.check(custom(wrong), X).labels == ["sign"]


def test_a_forward_random_beyond_reach_is_undecided():
    draw = np.random.default_rng()
    report = gw.check(custom(lambda x: (x * draw.random(), lambda up: up)), X)
    assert report.verdict == "undecided" and "random" in report.reason


def test_a_rule_that_draws_again_is_random():
    rule = custom(lambda x: (x * 1.0, lambda up: up * tf.random.uniform(tf.shape(x), 0.5, 1.5)))
    report = gw.check(rule, X)
    assert report.labels == ["random"] and report.faults[0].error > 0


def test_rare_randomness_is_found():
    calls = []

    def grad(up):
        calls.append(1)
        return up * (1.01 if len(calls) % 5 == 4 else 1.0)

    assert gw.check(custom(lambda x: (x * 1.0, grad)), X).verdict == "wrong"


def test_the_users_generators_go_on_as_if_nothing_had_happened():
    def noisy(x):
        return x * tf.random.uniform([]), lambda up: up

    np.random.seed(7)
    first = np.random.random()
    np.random.seed(7)
    gw.check(custom(noisy), X)
    assert np.random.random() == first


def test_layers_keep_their_state():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((6,)),
            tf.keras.layers.Dense(5),
            tf.keras.layers.BatchNormalization(),
            tf.keras.layers.Dropout(0.5),
        ]
    )
    before = [v.numpy() for v in model.variables]
    report = gw.check(model, tf.random.stateless_normal([8, 6], (3, 4)), training=True)
    assert report.ok, str(report)
    assert all(np.array_equal(b, v.numpy()) for b, v in zip(before, model.variables, strict=True))
