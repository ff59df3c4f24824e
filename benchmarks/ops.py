"""Ready rules and forms beside their peers, in one run: `python benchmarks/ops.py [elements]`.

Three questions: does a compiled elementwise rule come to the graph that is written by hand; what does
log(1 + exp(x)) keep between forward and backward, per element and beyond its output; what does `checkpoint` keep and
take, beside `tf.recompute_grad`. Memory is read from TensorFlow's own allocator, one process a contestant.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def optimized_ops(f: Callable[..., Any]) -> Counter[str]:
    """The ops that are left of forward and backward when TensorFlow has optimized them."""
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2, meta_graph_pb2
    from tensorflow.python.framework import meta_graph
    from tensorflow.python.grappler import tf_optimizer

    @tf.function
    def step(x: Any, upstream: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return y, tape.gradient(y, x, output_gradients=upstream)

    spec = tf.TensorSpec([64])
    concrete = step.get_concrete_function(spec, spec)
    graph = meta_graph.create_meta_graph_def(graph=concrete.graph)
    fetch = meta_graph_pb2.CollectionDef()
    fetch.node_list.value.extend([t.name for t in concrete.outputs])
    graph.collection_def["train_op"].CopyFrom(fetch)
    made = tf_optimizer.OptimizeGraph(config_pb2.ConfigProto(), graph)
    quiet = ("Placeholder", "Const", "Identity", "NoOp")
    return Counter(node.op for node in made.node if node.op not in quiet)


def graphs() -> None:
    import tensorflow as tf

    import gradwright as gw

    @tf.custom_gradient
    def by_hand(x: Any) -> Any:
        y = tf.tan(x)
        return y, lambda upstream: upstream * (1.0 + y**2)

    contestants = {
        "native tan": tf.tan,
        "tf.custom_gradient": by_hand,
        "gw.elementwise": gw.elementwise(tf.tan, lambda x, out: 1.0 + out**2),
    }
    print("ops of forward and backward, compiled")
    for name, f in contestants.items():
        ops = optimized_ops(f)
        print(f"  {name:22}{sum(ops.values()):3}  {dict(sorted(ops.items()))}")


def contestant(name: str) -> Callable[..., Any]:
    import tensorflow as tf

    import gradwright as gw

    softplus = lambda x: tf.math.log(1.0 + tf.exp(x))
    deep = lambda x: tf.tanh(tf.sin(tf.tanh(tf.sin(tf.tanh(tf.sin(x))))))
    return {
        "native log(1 + exp)": softplus,
        "native softplus": tf.math.softplus,
        "tf.custom_gradient": tf.custom_gradient(lambda x: (softplus(x), lambda upstream: upstream * tf.sigmoid(x))),
        "gw.ops.log1p_exp": gw.ops.log1p_exp,
        "gw.elementwise": gw.elementwise(softplus, tf.sigmoid),
        "six layers, native": deep,
        "six layers, tf.recompute_grad": tf.recompute_grad(deep),
        "six layers, gw.ops.checkpoint": gw.ops.checkpoint(deep),
    }[name]


NAMES = ("native log(1 + exp)", "native softplus", "tf.custom_gradient", "gw.ops.log1p_exp", "gw.elementwise")
DEEP = ("six layers, native", "six layers, tf.recompute_grad", "six layers, gw.ops.checkpoint")


def measure(name: str, n: int) -> dict[str, float]:
    """Bytes an element held beyond the output, at the peak of the backward, and seconds; in this process."""
    os.environ.update(TF_CPU_ALLOCATOR_USE_BFC="true", TF_CPU_BFC_MEM_LIMIT_IN_MB="3000")
    import tensorflow as tf

    whole = tf.zeros([400_000_000])  # one big block first, so that later ones are split exactly
    del whole
    f, x, upstream = contestant(name), tf.random.uniform([n], -3.0, 3.0), tf.ones([n])
    level = lambda key: tf.config.experimental.get_memory_info("CPU:0")[key]
    rows = []
    for _ in range(4):
        before = level("current")
        start = time.perf_counter()
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        y[:1].numpy()
        held = level("current") - before
        tf.config.experimental.reset_memory_stats("CPU:0")
        tape.gradient(y, x, output_gradients=upstream)[:1].numpy()
        took = time.perf_counter() - start
        rows.append((held / n - 4, (level("peak") - before) / n, took))
        del tape, y
    middle = [statistics.median(column) for column in zip(*rows[1:], strict=True)]
    return dict(zip(("held", "peak", "seconds"), middle, strict=True))


def memory(n: int) -> None:
    for title, names in (("log(1 + exp(x))", NAMES), ("recomputing", DEEP)):
        print(f"{title}: bytes an element held beyond the output, at the peak of the backward; time")
        for name in names:
            run = subprocess.run([sys.executable, __file__, "--one", name, str(n)], capture_output=True, text=True)
            if run.returncode:
                print(f"  {name:32}failed: {run.stderr.strip().splitlines()[-1][:80]}")
                continue
            row = json.loads(run.stdout.strip().splitlines()[-1])
            print(f"  {name:32}{row['held']:6.1f}{row['peak']:8.1f}{row['seconds'] * 1e3:9.1f} ms")


def randomness(n: int = 1000) -> None:
    import tensorflow as tf

    import gradwright as gw

    f = lambda x: x * tf.cast(tf.random.uniform([n]) > 0.5, tf.float32)
    print(f"mask entries of {n} that differ between forward and backward")
    for name, made in (("tf.recompute_grad", tf.recompute_grad(f)), ("gw.ops.checkpoint", gw.ops.checkpoint(f))):
        x = tf.ones([n])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = made(x)
        print(f"  {name:22}{int(tf.reduce_sum(tf.cast(tape.gradient(y, x) != y, tf.int32)))}")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--one"]:
        print(json.dumps(measure(arguments[1], int(arguments[2]))))
        return
    graphs()
    randomness()
    memory(int(arguments[0]) if arguments else 5_000_000)


if __name__ == "__main__":
    main(sys.argv[1:])
