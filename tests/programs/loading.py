# ruff: noqa: E402
"""Load what `saving.py` wrote, in a process that never saw the rules; `loading.py FOLDER` prints gradients."""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

import gradwright as gw

folder = sys.argv[1]
out = {}


@gw.custom_gradient
def another(x):
    """A rule of this process, whose gradient must not be taken for a loaded one."""
    return x * 1.0, lambda up: -1e6 * up


x = tf.constant([[0.1, 0.2], [0.3, -0.4]])
tf.function(lambda x: another(x))(x)


def gradients(f, *sources):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return [
        None if g is None else np.asarray(tf.convert_to_tensor(g)).tolist() for g in tape.gradient(y, [x, *sources])
    ]


def told(name, get):
    try:
        out[name] = get()
    except gw.ModeError as error:
        out[name] = f"ModeError {error}"
    except Exception as error:
        out[name] = f"{type(error).__name__} {str(error)[-300:]}"


def second(f):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        first = inner.gradient(y, x)
    return outer.gradient(first, x).numpy().tolist()


def tangent(f):
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = f(x)
    return accumulator.jvp(y).numpy().tolist()


for kind in ("module", "bare"):
    loaded = tf.saved_model.load(f"{folder}/{kind}")
    told(f"{kind}, jvp", lambda: tangent(loaded.top))
    for name in ("top", "inside", "mapped"):
        told(f"{kind}, {name}", lambda: gradients(getattr(loaded, name)))
        told(f"{kind}, {name}, in function", lambda: gradients(tf.function(lambda x: getattr(loaded, name)(x))))
    for name in ("variable", "variable_inside", "native_inside"):
        told(f"{kind}, {name}", lambda: gradients(getattr(loaded, name), loaded.w))
    told(f"{kind}, trained", lambda: loaded.trained(x).numpy().tolist())
    told(f"{kind}, order 2", lambda: second(loaded.top))

from tests.programs.saved_layers import Marked  # noqa: F401

model = keras.models.load_model(f"{folder}/model.keras")
told("keras", lambda: gradients(model))
exported = tf.saved_model.load(f"{folder}/exported")
told("exported", lambda: gradients(exported.serve))
print(json.dumps(out))
