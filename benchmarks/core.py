"""What a rule costs, side by side with the native op and `tf.custom_gradient`: `python benchmarks/core.py`.

Times are of one interleaved run: each round calls every contestant once for a short block, and the ratio printed is the
median over rounds of the ratio within a round, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def interleaved(contestants: dict[str, Callable[[], Any]], rounds: int, calls: int) -> dict[str, list[float]]:
    """Seconds per call, per contestant and round."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for call in contestants.values():
        for _ in range(3):
            call()
    for _ in range(rounds):
        for name, call in contestants.items():
            start = time.perf_counter()
            for _ in range(calls):
                call()
            times[name].append((time.perf_counter() - start) / calls)
    return times


def ratio(times: dict[str, list[float]], name: str, to: str) -> float:
    """The median over rounds of the ratio within a round."""
    return statistics.median(a / b for a, b in zip(times[name], times[to], strict=True))


def eager(rounds: int = 40, calls: int = 100) -> list[tuple[str, float, str]]:
    """Calls of one product in eager mode: on a watched tape, on a tape that does not watch, without one."""
    import tensorflow as tf

    import gradwright as gw

    pair = lambda a, b: (a * b, lambda up: (up * b, up * a))
    ours, theirs, native = gw.custom_gradient(pair), tf.custom_gradient(pair), lambda a, b: a * b
    x, y = tf.constant([1.0, 2.0, 3.0]), tf.constant([4.0, 5.0, 6.0])
    found = []

    def on_tape(f: Callable[..., Any], watched: bool) -> Callable[[], Any]:
        """Many calls on one tape, so that the tape itself is not measured."""

        def run() -> None:
            with tf.GradientTape() as tape:
                if watched:
                    tape.watch([x, y])
                for _ in range(calls):
                    f(x, y)

        return run

    def round_trip(f: Callable[..., Any]) -> Callable[[], Any]:
        def run() -> Any:
            with tf.GradientTape() as tape:
                tape.watch([x, y])
                z = f(x, y)
            return tape.gradient(z, [x, y])

        return run

    contests = {
        "watched tape": (lambda f: on_tape(f, True), 1, "at most 1.35, at least 3 times less than tf.custom_gradient"),
        "unwatched tape": (lambda f: on_tape(f, False), 1, "at most 1.2"),
        "no tape": (lambda f: lambda: f(x, y), calls, "at most 1.2"),
        "forward and backward": (round_trip, calls, ""),
    }
    for name, (make, inner, goal) in contests.items():
        times = interleaved({"ours": make(ours), "theirs": make(theirs), "native": make(native)}, rounds, inner)
        found.append((f"eager, {name}: gradwright / native", ratio(times, "ours", "native"), goal))
        found.append((f"eager, {name}: tf.custom_gradient / gradwright", ratio(times, "theirs", "ours"), ""))
    return found


def optimised_ops(function: Any, *args: Any) -> list[str]:
    """The ops of a traced function's graph after TensorFlow's own optimiser, without those that only pass on."""
    from tensorflow.python.eager import context

    context.enable_run_metadata()
    function(*args)
    metadata = context.export_run_metadata()
    context.disable_run_metadata()
    graphs = [g.post_optimization_graph for g in metadata.function_graphs]
    passing = {"_Arg", "_Retval", "Const", "Identity", "NoOp", "Placeholder", "_Recv", "_Send", "ReadVariableOp"}
    return sorted(node.op for graph in graphs for node in graph.node if node.op not in passing)


def compiled() -> list[tuple[str, list[str], list[str]]]:
    """Optimised ops of a rule under a tape in a function, and of the same gradient written by hand."""
    import tensorflow as tf

    import gradwright as gw

    marked = gw.custom_gradient(lambda x: (lambda y: (y, lambda up: 3.0 * up * y))(tf.exp(x)), name="marked")
    product = gw.custom_gradient(lambda a, b: (a * b, lambda up: (up * b, up * a)), name="product")

    def by_tape(f: Callable[..., Any]) -> Callable[..., Any]:
        def run(*xs: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(xs)
                y = f(*xs)
                loss = tf.reduce_sum(y * y)
            return tape.gradient(loss, list(xs))

        return tf.function(run)

    def marked_by_hand(x: Any) -> Any:
        y = tf.exp(x)
        return 3.0 * (y + y) * y

    def product_by_hand(a: Any, b: Any) -> Any:
        y = a * b
        up = y + y
        return up * b, tf.reduce_sum(up * a, 0)

    def chain(x: Any) -> Any:
        for _ in range(10):
            x = marked(x)
        return x

    def chain_by_hand(x: Any) -> Any:
        ys = []
        for _ in range(10):
            x = tf.exp(x)
            ys.append(x)
        up = x + x
        for y in reversed(ys):
            up = 3.0 * up * y
        return up

    a, b = tf.random.normal([2, 3]), tf.random.normal([3])
    return [
        ("exp, marked", optimised_ops(by_tape(marked), a), optimised_ops(tf.function(marked_by_hand), a)),
        ("broadcast product", optimised_ops(by_tape(product), a, b), optimised_ops(tf.function(product_by_hand), a, b)),
        ("ten in a row", optimised_ops(by_tape(chain), a), optimised_ops(tf.function(chain_by_hand), a)),
    ]


def tracing(count: int = 100, rounds: int = 5) -> list[tuple[str, float, str]]:
    """The time to trace a function with so many rules and its gradient."""
    import tensorflow as tf

    import gradwright as gw

    pair = lambda a, b: (a * b, lambda up: (up * b, up * a))

    def trace(f: Callable[..., Any]) -> Callable[[], Any]:
        def python(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                z = x
                for _ in range(count):
                    z = f(z, y)
            return tape.gradient(z, x)

        spec = tf.TensorSpec([3])
        return lambda: tf.function(python).get_concrete_function(spec, spec)

    contestants = {"ours": gw.custom_gradient(pair), "theirs": tf.custom_gradient(pair), "native": lambda a, b: a * b}
    times = interleaved({name: trace(f) for name, f in contestants.items()}, rounds, 1)
    return [
        (f"trace of {count} rules: gradwright / tf.custom_gradient", ratio(times, "ours", "theirs"), "at most 1"),
        (f"trace of {count} rules: gradwright / native", ratio(times, "ours", "native"), ""),
    ]


def memory(megabytes: int = 8) -> list[tuple[str, float, str]]:
    """Bytes kept alive on a tape by a rule that uses one tensor of three, in sizes of its input."""
    import gc

    import tensorflow as tf

    import gradwright as gw

    size = megabytes * 2**18

    def kept(decorate: Callable[..., Any]) -> float:
        def pair(x: Any) -> Any:
            used = tf.exp(x)
            return tf.sin(used * 2.0) * 1.0, lambda up: up * used

        f = decorate(pair)
        x = tf.ones([size])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x * 1.0)
            loss = tf.reduce_sum(y)
            del y
        gc.collect()
        alive = {id(o): o for o in gc.get_objects() if isinstance(o, tf.Tensor) and o.shape == [size]}
        seen = len(
            {t.__array_interface__["data"][0] if hasattr(t, "__array_interface__") else i for i, t in alive.items()}
        )
        assert loss is not None
        return float(seen)

    return [("tensors kept by tape and source: gradwright", kept(gw.custom_gradient), "at most tf.custom_gradient's"),
            ("tensors kept by tape and source: tf.custom_gradient", kept(tf.custom_gradient), "")]  # fmt: skip


def importing(rounds: int = 7) -> list[tuple[str, float, str]]:
    """Milliseconds of processor time that `import gradwright` takes in a fresh process that has numpy."""
    code = "import numpy, time; t = time.process_time(); import gradwright; print((time.process_time() - t) * 1e3)"
    runs = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
            for _ in range(rounds)]  # fmt: skip
    return [("import gradwright beyond numpy, ms (best of runs)", min(runs), "under 60")]


def main() -> None:
    for section in (importing, eager, tracing, memory):
        for name, value, goal in section():
            print(f"{name:58} {value:8.2f}   {goal}", flush=True)
    for name, ours, by_hand in compiled():
        print(f"optimised ops, {name:43} {len(ours):5} by hand {len(by_hand):3}   {'' if ours == by_hand else ours}")


if __name__ == "__main__":
    main()
