"""What watching costs: one compiled training step of a small convolutional network, with and without.

Usage: python benchmarks/observe.py [--rounds 20] [--torch]. Variants take turns, so that what else the machine does
hits all alike; the ratios are medians over rounds of (variant / plain), by the clock and by processor time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
BATCH, STEPS = 32, 20


def tensorflow_step(point: Callable[[Any, str], Any]) -> Callable[[], None]:
    """A compiled step whose four activations pass through `point`."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    x, y = tf.random.normal([BATCH, 32, 32, 3]), tf.random.uniform([BATCH], 0, 10, tf.int32)
    layers = [
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10),
    ]
    model = keras.Sequential([keras.Input((32, 32, 3)), *layers])
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            h = x
            for i, layer in enumerate(layers):
                h = layer(h)
                if i in (0, 1, 2, 4):
                    h = point(h, f"point {i}")
            loss = loss_of(y, h)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return lambda: step(x, y)


def summary_point() -> tuple[Callable[[Any, str], Any], Any]:
    """A point that writes a histogram of its upstream by `tf.summary`, and the writer."""
    import tensorflow as tf

    writer = tf.summary.create_file_writer(tempfile.mkdtemp())
    number = tf.Variable(0, dtype=tf.int64)

    def point(x: Any, name: str) -> Any:
        @tf.custom_gradient
        def watched(x: Any) -> Any:
            def grad(upstream: Any) -> Any:
                with writer.as_default():
                    written = tf.summary.histogram(name, upstream, step=number)
                with tf.control_dependencies([written]):
                    return tf.identity(upstream)

            return tf.identity(x), grad

        return watched(x)

    return point, writer


def tensorflow_variants() -> dict[str, tuple[Callable[[], None], Callable[[], Any]]]:
    """Name: (step, the scope that it runs in)."""
    import gradwright as gw

    probed, nothing = tensorflow_step(gw.probe), contextlib.nullcontext
    plain = tensorflow_step(lambda x, name: x)
    return {
        "plain": (plain, nothing),
        "plain again": (tensorflow_step(lambda x, name: x), nothing),
        "four probes, off": (probed, nothing),
        "norms, each step": (probed, lambda: gw.observe(statistics="norm")),
        "all statistics, each step": (probed, gw.observe),
        "all statistics, each tenth": (probed, _kept(gw.observe(every=10))),
        "tf.summary.histogram": (tensorflow_step(summary_point()[0]), nothing),
    }


def _kept(log: Any) -> Callable[[], Any]:
    """The same log at every round: one that thins is part of what a function is traced for."""
    return lambda: log


def torch_variants() -> dict[str, tuple[Callable[[], None], Callable[[], Any]]]:
    """The same network in PyTorch, with its own backward hooks."""
    import torch
    from torch import nn

    import gradwright as gw

    def step(kind: str) -> Callable[[], None]:
        torch.manual_seed(0)
        x, y = torch.randn(BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))
        parts = [nn.Conv2d(3, 16, 3), nn.Conv2d(16, 32, 3, 2), nn.Conv2d(32, 32, 3, 2), nn.Linear(32 * 36, 64)]
        last, seen = nn.Linear(64, 10), []
        parameters = [p for part in [*parts, last] for p in part.parameters()]
        optimizer = torch.optim.SGD(parameters, 0.01)
        if kind == "hooks":
            for part in parts:
                part.register_full_backward_hook(lambda _, __, ups: seen.append(ups[0].norm().item()))

        def run() -> None:
            optimizer.zero_grad()
            h = x
            for i, part in enumerate(parts):
                h = torch.relu(part(h.flatten(1) if i == 3 else h))
                if kind == "probes":
                    h = gw.probe(h, f"point {i}")
            nn.functional.cross_entropy(last(h), y).backward()
            optimizer.step()
            seen.clear()

        return run

    nothing, probed = contextlib.nullcontext, step("probes")
    return {
        "plain": (step("plain"), nothing),
        "four probes, off": (probed, nothing),
        "norms, each step": (probed, lambda: gw.observe(statistics="norm")),
        "all statistics, each step": (probed, gw.observe),
        "torch's full backward hooks, norm": (step("hooks"), nothing),
    }


def timed(step: Callable[[], None], scope: Callable[[], Any]) -> tuple[float, float]:
    """Seconds per step by the clock and by the processor."""
    with scope():
        step()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(STEPS):
            step()
        return (time.perf_counter() - wall) / STEPS, (time.process_time() - cpu) / STEPS


def measure(variants: dict[str, Any], rounds: int) -> None:
    """Time all variants in turn and print a line for each."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for step, scope in variants.values():
        timed(step, scope)
    for _ in range(rounds):
        for name, (step, scope) in variants.items():
            taken[name].append(timed(step, scope))
    print(f"{'':36s}{'ms':>8s}{'clock':>8s}{'cpu':>8s}")
    for name, times in taken.items():
        clock, cpu = (
            statistics.median(t[k] / p[k] for t, p in zip(times, taken["plain"], strict=True)) for k in (0, 1)
        )
        print(f"{name:36s}{1e3 * min(t[0] for t in times):8.2f}{clock:8.3f}{cpu:8.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--torch", action="store_true")
    given = parser.parse_args()
    measure(torch_variants() if given.torch else tensorflow_variants(), given.rounds)
