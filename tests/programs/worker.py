# ruff: noqa: E402
"""One of two workers of MultiWorkerMirroredStrategy; `worker.py INDEX PORT PORT`."""

import json
import os
import sys

index, ports = int(sys.argv[1]), sys.argv[2:]
os.environ["TF_CONFIG"] = json.dumps(
    {"cluster": {"worker": [f"127.0.0.1:{p}" for p in ports]}, "task": {"type": "worker", "index": index}}
)

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()

import gradwright as gw

with strategy.scope():
    w = tf.Variable([2.0, 3.0])

same = []


@gw.custom_gradient
def f(x):
    def grad(up, variables=None):
        same.append(variables[0] is w)
        return 3.0 * up * w, [7.0 * up * x]

    return x * w, grad


def step():
    x = tf.constant([1.0, 4.0]) * (index + 1)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    dx, dw = tape.gradient(y, [x, w])
    total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, dw)
    w.assign_sub(0.1 * total)
    return dx, total


dx, total = tf.function(lambda: strategy.run(step))()
read = strategy.experimental_local_results
print(json.dumps([read(dx)[0].numpy().tolist(), read(total)[0].numpy().tolist(), w.numpy().tolist(), all(same)]))
