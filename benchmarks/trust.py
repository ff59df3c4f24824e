"""How often is a right rule called wrong, and a wrong one right? Over functions, sizes, dtypes and seeds.

    python benchmarks/trust.py [seeds] [largest size] [--differences]

`--differences` withholds every better oracle, so that the differences and their bounds are tried alone.

Prints one line a dtype and size, then the totals: false alarms, misses, undecided, and how many single wrong
coordinates were found and named.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections import Counter

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
from functions import SPOILS, all_of, draw, spoiled

import gradwright as gw

SIZES = (1, 10, 100, 1000, 10_000, 100_000)
# 0.01 % is asked of float64 alone, 1 % of float32, more of the half precisions.
SMALL = {"0.01 % too large": ("float64",), "1 % too large": ("float64", "float32")}


def spoils_for(dtype: str, index: int) -> list[str]:
    """Two ways to spoil a function, going round; all ways are used over all functions."""
    names = [name for name in SPOILS if dtype in SMALL.get(name, (dtype,))]
    return [names[(2 * index + k) % len(names)] for k in range(2)]


def trial(rule, xs, seed, tally, kind, note):
    try:
        report = gw.check(tf.custom_gradient(rule), *xs, seed=seed)
    except Exception as error:
        tally[kind, "raised"] += 1
        print("  RAISED", note, type(error).__name__, str(error)[:200])
        return None
    tally[kind, report.verdict] += 1
    unexpected = {"right": "wrong", "wrong": "right"}[kind]
    if report.verdict == unexpected:
        print("  ", "FALSE ALARM" if kind == "right" else "MISSED", note, report.oracle[:60], report.labels)
    elif report.verdict == "undecided":
        print("   undecided", note, report.reason[:100])
    return report


def changes(rule, how, xs) -> bool:
    """Whether the spoiled gradient is another one at all: a coordinate that was zero stays right when zeroed."""
    y, grad = rule(*xs)
    ups = [tf.ones_like(t) for t in tf.nest.flatten(y)]
    for g in tf.nest.flatten(grad(*ups)):
        a, b = g.numpy().astype(float), how(g, ups[0]).numpy().astype(float)
        if np.any(np.abs(a - b) > 1e-3 * np.max(np.abs(a)) * 1e-3) and np.any(np.abs(a - b) > 5e-5 * np.abs(a)):
            return True
    return False


def withhold_oracles() -> None:
    """Let the checker judge by differences alone."""
    examine = importlib.import_module("gradwright.check.examine")
    examine.choose = lambda *_: examine.Oracle("differences", "differences alone", None)


def main() -> None:
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    seeds = numbers[0] if numbers else 20
    largest = numbers[1] if len(numbers) > 1 else SIZES[-1]
    if "--differences" in sys.argv:
        withhold_oracles()
    total: Counter = Counter()
    for dtype in ("float64", "float32", "float16", "bfloat16"):
        for n in [n for n in SIZES if n <= largest]:
            tally: Counter = Counter()
            start = time.time()
            for index, (name, (rule, shapes, span)) in enumerate(all_of(n).items()):
                for seed in range(seeds if dtype.startswith("float") and dtype != "float16" else max(1, seeds // 5)):
                    xs = draw(shapes, span, dtype, seed)
                    trial(rule, xs, seed, tally, "right", (name, dtype, n, seed))
                    for spoil in spoils_for(dtype, index + seed):
                        if changes(rule, SPOILS[spoil], xs):
                            trial(spoiled(rule, SPOILS[spoil]), xs, seed, tally, "wrong", (name, spoil, dtype, n, seed))
            total.update(tally)
            print(f"{dtype:9s} n={n:6d} {told(tally)}  {time.time() - start:.0f} s", flush=True)
    print("total", told(total))


def told(tally: Counter) -> str:
    rights, wrongs = ({v: tally[k, v] for v in ("right", "wrong", "undecided", "raised")} for k in ("right", "wrong"))
    return f"right rules: {rights}   wrong rules: {wrongs}"


if __name__ == "__main__":
    main()
