"""What explaining costs: time as a multiple of the plain run and its backward pass, and memory kept alive.

python benchmarks/explain.py
"""

from __future__ import annotations

import gc
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import gradwright as gw


def network(depth=40, width=64):
    weights = [tf.Variable(tf.random.normal([width, width]) / width**0.5) for _ in range(depth)]

    def loss(x):
        for w in weights:
            x = tf.tanh(tf.matmul(x, w)) + x
        return tf.reduce_mean(x**2)

    return loss


def seconds(run, repeat=7):
    run()
    found = []
    for _ in range(repeat):
        begin = time.perf_counter()
        run()
        found.append(time.perf_counter() - begin)
    return min(found)


def plain(loss, x, tape_of=tf.GradientTape):
    with tape_of() as tape:
        tape.watch(x)
        y = loss(x)
    return tape.gradient(y, x)


def kept_alive(keep_values, x, steps=400):
    """Bytes of tensors that the record of a long program holds."""
    with gw.GradientTape(keep_values=keep_values) as tape:
        for _ in range(steps):
            x = tf.sin(x)
    gc.collect()
    log = tape._companion.log
    return sum(t.shape.num_elements() * t.dtype.size for t in log.values.values() if t.dtype.is_floating)


def main():
    loss, x = network(), tf.random.normal([256, 64])
    traced = tf.function(loss)
    base = {"eager": seconds(lambda: plain(loss, x)), "traced": seconds(lambda: plain(traced, x))}
    rows = [
        ("eager", "gw.GradientTape, gradient only", lambda: plain(loss, x, gw.GradientTape)),
        ("eager", "gw.explain", lambda: gw.explain(loss, x)),
        ("eager", "gw.explain(keep_values=False)", lambda: gw.explain(loss, x, keep_values=False)),
        ("eager", "gw.explain of the traced function", lambda: gw.explain(traced, x)),
        ("traced", "gw.GradientTape, gradient only", lambda: plain(traced, x, gw.GradientTape)),
    ]
    for name, value in base.items():
        print(f"{name:7} plain tape and gradient: {value * 1e3:.1f} ms")
    for name, what, run in rows:
        print(f"{name:7} {what:36} {seconds(run) / base[name]:.2f} x")
    big = tf.random.normal([1000, 250])
    for keep in (True, False):
        print(f"400 steps on 1 MB, keep_values={keep}: {kept_alive(keep, big) / 1e6:.0f} MB kept")


if __name__ == "__main__":
    main()
