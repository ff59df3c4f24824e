"""Eight threads at once: each its own tapes, variables, errors and traces."""

from __future__ import annotations

import threading

import numpy as np
import tensorflow as tf

import gradwright as gw

THREADS = 8


def together(work):
    """Run `work(i)` in all threads from one start; give the results, raise the first error."""
    barrier, results, errors = threading.Barrier(THREADS), [None] * THREADS, []

    def run(i):
        barrier.wait()
        try:
            results[i] = work(i)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


@gw.custom_gradient
def scaled(x, k=1.0):
    y = tf.exp(x)
    return y, lambda up: up * y * k


def test_one_rule_in_many_threads_eager():
    def work(i):
        found = []
        for j in range(20):
            x = tf.constant(0.01 * i + 0.1 * j)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = scaled(x, k=float(i))
            found.append(float(tape.gradient(y, x)) - i * np.exp(0.01 * i + 0.1 * j))
        return np.abs(found).max()

    assert max(together(work)) < 1e-4


def test_orders_are_counted_per_thread():
    """Half of the threads have one tape, half nest three; a shared count would lose orders."""

    def work(i):
        for _ in range(10):
            x = tf.constant(0.5)
            tapes = [tf.GradientTape() for _ in range(1 if i % 2 else 3)]
            for tape in tapes:
                tape.__enter__()
                tape.watch(x)
            y = scaled(x, k=3.0)
            for order, tape in enumerate(reversed(tapes), 1):
                tape.__exit__(None, None, None)
                y = tape.gradient(y, x)
                np.testing.assert_allclose(y, 3.0**order * np.exp(0.5), rtol=1e-5)

    together(work)


def test_variables_are_heard_per_thread():
    def work(i):
        v, u = tf.Variable([float(i + 1)]), tf.Variable([10.0 * (i + 1)])

        @gw.custom_gradient
        def f(x):
            y = x * v * u

            def grad(up, variables=None):
                assert [a is b for a, b in zip(variables, (v, u), strict=True)] == [True, True]
                return up * v * u, [up * x * u, up * x * v]

            return y, grad

        for _ in range(20):
            x = tf.constant([2.0])
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            found = [float(g[0]) for g in tape.gradient(y, [x, v, u])]
            np.testing.assert_allclose(found, [10.0 * (i + 1) ** 2, 20.0 * (i + 1), 2.0 * (i + 1)])

    together(work)


def test_traces_in_many_threads():
    def work(i):
        @tf.function
        def run(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x
                for _ in tf.range(2):
                    y = scaled(y, k=float(i + 1))
            return tape.gradient(y, x)

        found = float(run(tf.constant(0.1)))
        return found - (i + 1) ** 2 * np.exp(np.exp(0.1)) * np.exp(0.1)

    assert np.abs(together(work)).max() < 1e-3


def test_one_traced_function_called_by_many_threads():
    traced = tf.function(lambda x: scaled(x, k=2.0))
    traced(tf.constant(0.0))

    def work(i):
        x = tf.constant(0.1 * i)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = traced(x)
        return float(tape.gradient(y, x)) - 2 * np.exp(0.1 * i)

    assert np.abs(together(work)).max() < 1e-4


def test_an_error_in_one_thread_is_its_own():
    @gw.custom_gradient
    def fragile(x, fail):
        if fail:
            raise RuntimeError("mine")
        return x * 1.0, lambda up: up * 5.0

    def work(i):
        for _ in range(20):
            x = tf.constant(1.0)
            with tf.GradientTape() as tape:
                tape.watch(x)
                try:
                    y = fragile(x, i % 2 == 0)
                except RuntimeError:
                    y = x * 7.0  # recording must go on
            assert float(tape.gradient(y, x)) == (7.0 if i % 2 == 0 else 5.0)

    together(work)
