"""Our checker beside those of the frameworks: time and evaluations on the same mathematics, in one run.

    python benchmarks/check.py [largest size] [--json]

Cases: elementwise tan; tan(x @ w + b); relu of a convolution. `evaluations` are calls of the function and of its
gradient. `units` is the time in units of the function's own forward and backward in its own framework.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

import gradwright as gw

warnings.filterwarnings("ignore")
TIRED = 60.0  # seconds after which a checker is not tried at the next size
DENSE = {10: (2, 2, 2), 100: (6, 8, 6), 1000: (20, 25, 20), 10_000: (64, 78, 64), 100_000: (200, 250, 200)}
IMAGES = {10: ((1, 2, 3, 1), (2, 2, 1, 1)), 100: ((1, 8, 8, 1), (3, 3, 1, 4)), 1000: ((1, 16, 16, 3), (3, 3, 3, 8)),
          10_000: ((1, 48, 48, 4), (3, 3, 4, 16)), 100_000: ((1, 150, 150, 4), (3, 3, 4, 16))}  # fmt: skip


def inputs(case: str, n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    if case == "tan":
        return [rng.uniform(-1, 1, n)]
    if case == "dense":
        b, i, o = DENSE[n]
        return [rng.uniform(-1, 1, (b, i)), rng.uniform(-1, 1, (i, o)) / np.sqrt(i), rng.uniform(-0.3, 0.3, o)]
    x, k = IMAGES[n]
    return [rng.standard_normal(x), rng.standard_normal(k) / np.sqrt(np.prod(k[:3]))]


def tensorflow_function(case: str) -> Callable[..., Any]:
    return {
        "tan": tf.math.tan,
        "dense": lambda x, w, b: tf.math.tan(x @ w + b),
        "conv": lambda x, k: tf.nn.relu(tf.nn.conv2d(x, k, 1, "SAME")),
    }[case]


def rule(case: str) -> Any:
    """The same as a rule with its own gradient, which is what people check."""
    if case == "tan":
        return tf.custom_gradient(lambda x: (tf.math.tan(x), lambda u: u / tf.cos(x) ** 2))

    def dense(x, w, b):
        z = x @ w + b

        def grad(u):
            d = u / tf.cos(z) ** 2
            return d @ tf.transpose(w), tf.transpose(x) @ d, tf.reduce_sum(d, 0)

        return tf.math.tan(z), grad

    def conv(x, k):
        y = tf.nn.conv2d(x, k, 1, "SAME")

        def grad(u):
            d = u * tf.cast(y > 0, u.dtype)
            back = tf.nn.conv2d_transpose(d, k, x.shape, 1, "SAME")
            return back, tf.raw_ops.Conv2DBackpropFilter(
                input=x, filter_sizes=k.shape, out_backprop=d, strides=[1] * 4, padding="SAME"
            )

        return tf.nn.relu(y), grad

    return tf.custom_gradient({"dense": dense, "conv": conv}[case])


def timed(fn: Callable[[], Any], at_most: int = 7) -> tuple[float, float]:
    """The first call, and the median of later ones."""
    start = time.perf_counter()
    fn()
    first = time.perf_counter() - start
    later = []
    while len(later) < at_most and sum(later) < 5 and first < 5:
        start = time.perf_counter()
        fn()
        later.append(time.perf_counter() - start)
    return first, statistics.median(later) if later else first


def ours(case: str, n: int, contract: bool) -> tuple[Callable[[], Any], int]:
    f, xs = rule(case), [tf.constant(x) for x in inputs(case, n)]
    report = gw.check(f, *xs, contract=contract)
    assert report.ok, str(report)
    return lambda: gw.check(f, *xs, contract=contract), report.evaluations


def tensorflows(case: str, n: int) -> tuple[Callable[[], Any], int]:
    f, xs = rule(case), inputs(case, n)
    outputs, count = int(np.prod(f(*map(tf.constant, xs)).shape)), sum(x.size for x in xs)
    return lambda: tf.test.compute_gradient(f, xs), 1 + len(xs) * outputs + 2 * count + len(xs) * outputs


def torchs(case: str, n: int, fast: bool) -> tuple[Callable[[], Any], int]:
    import torch
    from torch.nn.functional import conv2d

    arrays, calls = inputs(case, n), [0]
    if case == "conv":
        arrays = [arrays[0].transpose(0, 3, 1, 2).copy(), arrays[1].transpose(3, 2, 0, 1).copy()]
    xs = tuple(torch.tensor(x, requires_grad=True) for x in arrays)
    functions = {
        "tan": torch.tan,
        "dense": lambda x, w, b: torch.tan(x @ w + b),
        "conv": lambda x, k: torch.relu(conv2d(x, k, padding="same")),
    }

    def counted(*xs):
        calls[0] += 1
        y = functions[case](*xs)
        y.register_hook(lambda g: calls.__setitem__(0, calls[0] + 1))
        return y

    run = lambda: torch.autograd.gradcheck(counted, xs, fast_mode=fast, raise_exception=False)
    if n <= 1000 or fast:
        run()
    return run, calls[0]


def jaxs(case: str, n: int) -> tuple[Callable[[], Any], int]:
    import jax
    from jax.test_util import check_grads

    jax.config.update("jax_enable_x64", True)
    xs, calls = [jax.numpy.asarray(x) for x in inputs(case, n)], [0]
    numbers = ("NHWC", "HWIO", "NHWC")
    functions = {
        "tan": jax.numpy.tan,
        "dense": lambda x, w, b: jax.numpy.tan(x @ w + b),
        "conv": lambda x, k: jax.nn.relu(jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=numbers)),
    }

    def counted(*xs):
        calls[0] += 1
        return functions[case](*xs)

    # Wide tolerances: with its own it rejects right gradients here; the work is the same.
    run = lambda: check_grads(counted, xs, order=1, modes=["rev"], atol=1e9, rtol=1e9)
    run()
    return run, calls[0]


CHECKERS: dict[str, Callable[[str, int], tuple[Callable[[], Any], int]]] = {
    "gw.check": lambda case, n: ours(case, n, True),
    "gw.check(contract=False)": lambda case, n: ours(case, n, False),
    "torch gradcheck fast": lambda case, n: torchs(case, n, True),
    "jax check_grads": jaxs,
    "torch gradcheck slow": lambda case, n: torchs(case, n, False),
    "tf.test.compute_gradient": tensorflows,
}


def unit(name: str, case: str, n: int) -> float:
    """One forward and backward of the function in the checker's framework."""
    arrays = inputs(case, n)
    if "torch" in name:
        import torch
        from torch.nn.functional import conv2d

        if case == "conv":
            arrays = [arrays[0].transpose(0, 3, 1, 2).copy(), arrays[1].transpose(3, 2, 0, 1).copy()]
        ts = [torch.tensor(x, requires_grad=True) for x in arrays]
        fs = {"tan": torch.tan, "dense": lambda x, w, b: torch.tan(x @ w + b)}
        f = fs.get(case, lambda x, k: torch.relu(conv2d(x, k, padding="same")))
        return timed(lambda: torch.autograd.grad(f(*ts).sum(), ts), 25)[1]
    ts = [tf.constant(x) for x in arrays]

    def both() -> None:
        with tf.GradientTape() as tape:
            tape.watch(ts)
            y = tensorflow_function(case)(*ts)
        for g in tape.gradient(y, ts):
            g.numpy()

    return timed(both, 25)[1]


def main() -> None:
    largest = next((int(a) for a in sys.argv[1:] if a.isdigit()), 10_000)
    rows = []
    for case in ("tan", "dense", "conv"):
        tired: set[str] = set()
        for n in [n for n in DENSE if n <= largest]:
            for name, make in CHECKERS.items():
                if name in tired:
                    continue
                with contextlib.redirect_stdout(io.StringIO()):
                    run, evaluations = make(case, n)
                    first, warm = timed(run)
                if 12 * warm > TIRED:
                    tired.add(name)
                row = {"case": case, "n": n, "checker": name, "first_ms": first * 1e3, "warm_ms": warm * 1e3,
                       "evaluations": evaluations, "units": warm / unit(name, case, n)}  # fmt: skip
                rows.append(row)
                if "--json" not in sys.argv:
                    print(f"{case:6s} n={n:6d} {name:26s} {warm * 1e3:10.1f} ms  (first {first * 1e3:8.1f})  "
                          f"{evaluations:7d} evaluations  {row['units']:8.1f} units", flush=True)  # fmt: skip
    if "--json" in sys.argv:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
