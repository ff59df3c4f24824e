"""Fitting at run time: the table of `fit.py` decided inside the graph, where sizes are not known before."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from gradwright.fit import AtRunTime
from gradwright.frameworks import tf_private as private
from gradwright.space import Space


def fit(gradient: Any, space: Space, at: AtRunTime) -> Any:
    """Sum what broadcasting explains and check the rest, by shapes that are known only when the graph runs."""
    given, wanted = tf.shape(gradient), at.shape()
    with tf.control_dependencies(refusals(given, wanted, at.label)):
        _, axes = tf.raw_ops.BroadcastGradientArgs(s0=given, s1=wanted)
    fitted = tf.reshape(tf.reduce_sum(gradient, axes), wanted)
    fitted.set_shape(space.shape)
    return fitted


def refusals(given: Any, wanted: Any, label: str) -> list[Any]:
    """Asserts that broadcasting explains the shape; XLA has none, there the reshape itself fails."""
    if private.in_xla(tf.compat.v1.get_default_graph()):
        return []
    fact = "has shape {} but the input has shape {}: broadcasting does not explain it"
    message = tf.strings.format(f"{label} {fact}", [given, wanted])
    return [tf.debugging.Assert(broadcast_explains(given, wanted), [message])]


def broadcast_explains(given: Any, wanted: Any) -> Any:
    """Whether each size of the input is that of the gradient, or one; false for a gradient of lower rank."""
    lost = tf.size(given) - tf.size(wanted)
    ones = tf.ones([tf.maximum(lost, 0)], wanted.dtype)
    stretched = tf.concat([ones, wanted], 0)[: tf.size(given)]
    return tf.logical_and(lost >= 0, tf.reduce_all(tf.equal(stretched, given) | tf.equal(stretched, 1)))
