"""What `gradwright run` costs a program besides the proofs: the same training step, watched and not, in turns.

    python benchmarks/watch_cost.py

Prints the ratio watched / plain of the shortest times of a step for rules called eagerly, as methods and in a compiled
function. The goal is 1.10 at most.
"""

import time

import tensorflow as tf

import gradwright as gw
from gradwright.check.watch import Watch, watching


def product(x, y):
    return x * y, lambda upstream: (upstream * y, upstream * x)


class Layer:
    @gw.custom_gradient
    def own(self, x, y):
        return product(x, y)

    @tf.custom_gradient
    def plain(self, x, y):
        return product(x, y)


layer, weights, data = Layer(), tf.Variable(tf.ones([64])), tf.ones([64])
RULES = {
    "gw.custom_gradient": gw.custom_gradient(product),
    "gw.custom_gradient, method": layer.own,
    "tf.custom_gradient": tf.custom_gradient(product),
    "tf.custom_gradient, method": lambda x, y: layer.plain(x, y),
}
RULES["tf.custom_gradient in tf.function"] = tf.function(RULES["tf.custom_gradient"])


def step(rule):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(rule(weights, data))
    return tape.gradient(loss, weights)


def seconds(rule, steps=100):
    start = time.perf_counter()
    for _ in range(steps):
        step(rule)
    return (time.perf_counter() - start) / steps


def main(turns=25):
    watch = Watch()
    for name, rule in RULES.items():
        step(rule)
        plain, watched = [], []
        for _ in range(turns):
            plain.append(seconds(rule))
            with watching(watch):
                watched.append(seconds(rule))
        ratio = min(watched) / min(plain)
        print(f"{name:36s} {min(plain) * 1e6:7.0f} us a step, watched {ratio:.2f} x")


if __name__ == "__main__":
    main()
