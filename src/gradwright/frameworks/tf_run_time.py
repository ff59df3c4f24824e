"""Fitting at run time: the table of `fit.py` decided inside the graph, where sizes are not known before."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from gradwright.fit import AtRunTime
from gradwright.frameworks import tf_private_graphs as graphs
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
    """A check that broadcasting explains the shape; XLA has none, there the reshape itself fails."""
    if graphs.in_xla(tf.compat.v1.get_default_graph()):
        return []

    def refuse() -> Any:
        with tf.control_dependencies([tf.debugging.Assert(False, [refusal(given, wanted, label)], summarize=-1)]):
            return tf.identity(False)

    return [tf.cond(broadcast_explains(given, wanted), lambda: tf.constant(True), refuse)]


def broadcast_explains(given: Any, wanted: Any) -> Any:
    """Whether each size of the input is that of the gradient, or one; false for a gradient of lower rank."""
    lost = tf.size(given) - tf.size(wanted)
    return tf.logical_and(lost >= 0, tf.reduce_all(explained(given, stretched(given, wanted))))


def stretched(given: Any, wanted: Any) -> Any:
    """The input's shape with ones in front, as long as the gradient's; cut where the gradient's is shorter."""
    ones = tf.ones([tf.maximum(tf.size(given) - tf.size(wanted), 0)], wanted.dtype)
    return tf.concat([ones, wanted], 0)[: tf.size(given)]


def explained(given: Any, wanted: Any) -> Any:
    """Size by size, whether broadcasting can have made the gradient's of the input's."""
    return tf.equal(wanted, given) | tf.equal(wanted, 1)


def refusal(given: Any, wanted: Any, label: str) -> Any:
    """The message of `fit.unexplained`, written when the graph runs."""
    shapes = [label, " has shape ", shown(given), " but the input has shape ", shown(wanted), ": "]
    return tf.strings.join([*shapes, blame(given, wanted), "\n  repair: ", repair(given, wanted)])


def shown(shape: Any) -> Any:
    """A shape as people write it: (3,), (2, 3)."""
    inner = tf.strings.reduce_join(tf.strings.as_string(shape), separator=", ")
    return tf.strings.join(["(", inner, tf.where(tf.equal(tf.size(shape), 1), ",)", ")")])


def blame(given: Any, wanted: Any) -> Any:
    """The axis that nobody can explain."""
    lost = tf.size(given) - tf.size(wanted)
    bad = tf.logical_not(explained(given, stretched(given, wanted)))
    at = tf.argmax(tf.cast(tf.concat([bad, [False]], 0), tf.int32), output_type=tf.int32)
    of_given, of_wanted = tf.gather(tf.concat([given, [0]], 0), at), tf.gather(tf.concat([wanted, [0]], 0), at - lost)
    fewer = [text(tf.size(given)), tf.where(tf.equal(tf.size(given), 1), " axis", " axes"), " where the input has "]
    sizes = ["axis ", text(at - lost), " of the input has size ", text(of_wanted)]
    return tf.cond(
        lost < 0,
        lambda: tf.strings.join(["it has ", *fewer, text(tf.size(wanted))]),
        lambda: tf.strings.join([*sizes, ", the gradient has ", text(of_given), " there"]),
    )


def repair(given: Any, wanted: Any) -> Any:
    """The line that most likely repairs a shape, as `fit.likely_repair` finds it."""
    elements = tf.reduce_prod(given), tf.reduce_prod(wanted)
    same_sizes = tf.reduce_all(tf.equal(tf.sort(given), tf.sort(stretched(given, wanted))))
    moved = tf.logical_and(tf.equal(tf.size(given), tf.size(wanted)), same_sizes)
    by_guess = "y, back = gw.shapes.flatten(x), and back(g); nothing is reshaped by guess to "
    flat = tf.strings.join([by_guess, shown(wanted)])
    return tf.where(
        moved,
        "the axes seem to be in another order: tf.transpose(g, ...), or y, back = gw.shapes.transpose(x, ...)",
        tf.where(
            tf.equal(*elements),
            flat,
            tf.where(
                elements[0] < elements[1],
                "the gradient is smaller than its input: it was reduced once too often, or must be spread out, "
                "as in g * tf.ones_like(x)",
                tf.strings.join(["return a gradient of shape ", shown(wanted)]),
            ),
        ),
    )


def text(number: Any) -> Any:
    """A number as text."""
    return tf.strings.as_string(number)
