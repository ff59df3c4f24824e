"""Statistics of a TensorFlow tensor, in few ops and where the tensor is."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from gradwright.frameworks import tf_private as private
from gradwright.observe.arrays import statistics
from gradwright.observe.records import Stats

COLUMNS = {False: ("norm", "nonfinite"), True: ("norm", "nonfinite", "mean", "min", "max", "zeros")}
"""What a vector of statistics holds: of norms alone, and of everything."""


def statistics_of(tensor: Any, everything: bool, value: bool) -> Stats:
    """The statistics of an eager tensor."""
    tensor = tf.convert_to_tensor(tensor)
    if "CPU" in tensor.device.upper() or value:
        return statistics(tensor.numpy(), everything, value)
    row = vector(tensor, everything).numpy()
    return measured(private.shape_tuple(tensor), tensor.dtype.name, row)


def measured(shape: tuple[int, ...], dtype: str, row: np.ndarray, value: Any = None) -> Stats:
    """The statistics that a vector holds."""
    if len(row) == 2:
        return Stats(shape, dtype, float(row[0]), nonfinite=int(row[1]), value=value)
    norm, nonfinite, mean, low, high, zeros = (float(n) for n in row)
    return Stats(shape, dtype, norm, mean, low, high, int(zeros), int(nonfinite), value)


def vector(tensor: Any, everything: bool) -> Any:
    """The statistics as a vector of float64, in the order of `COLUMNS`."""
    made = Measure(tensor, everything)
    return tf.cond(made.healthy, made.short, made.careful)


class Measure:
    """A tensor with two ways to its statistics.

    The sum of squares tells whether the short way is right: it is not where squares overflow or vanish or where
    an element is not finite.
    """

    def __init__(self, tensor: Any, everything: bool):
        self.reals, self.everything = magnitudes(tf.stop_gradient(tf.convert_to_tensor(tensor))), everything
        self.square = tf.cast(tf.nn.l2_loss(self.reals), tf.float64) * 2
        self.healthy = tf.math.is_finite(self.square) & (self.square > 1e-20)

    def short(self) -> Any:
        """The vector of a healthy tensor."""
        return healthy_row(self.reals, self.square, self.everything)

    def careful(self) -> Any:
        """The vector of any tensor."""
        return careful_row(self.reals, self.everything)


def magnitudes(tensor: Any) -> Any:
    """A flat tensor of reals of at least single precision; absolute values where the numbers are complex."""
    flat = tf.reshape(tensor, [-1])
    if flat.dtype.is_complex:
        return tf.abs(flat)
    if flat.dtype in (tf.float32, tf.float64):
        return flat
    return tf.cast(flat, tf.float32 if flat.dtype in (tf.float16, tf.bfloat16) else tf.float64)


def healthy_row(reals: Any, square: Any, everything: bool) -> Any:
    """From the sum of squares."""
    norm = tf.stack([tf.sqrt(square), tf.zeros([], tf.float64)])
    if not everything:
        return norm
    zeros = tf.reduce_sum(tf.cast(tf.equal(reals, 0), tf.float32))
    rest = tf.stack(
        [tf.cast(n, tf.float64) for n in (tf.reduce_mean(reals), tf.reduce_min(reals), tf.reduce_max(reals))]
    )
    return tf.concat([norm, rest, [tf.cast(zeros, tf.float64)]], 0)


def careful_row(reals: Any, everything: bool) -> Any:
    """In double precision, squares scaled, NaN kept in the minimum and maximum; an empty tensor has no mean."""
    reals = tf.cast(reals, tf.float64)
    nonfinite = tf.reduce_sum(tf.cast(~tf.math.is_finite(reals), tf.float64))
    largest = tf.reduce_max(tf.concat([tf.abs(reals), [0.0]], 0))
    scale = tf.where((largest > 0) & (nonfinite < 1), largest, tf.ones_like(largest))
    norm = tf.stack([scale * tf.sqrt(tf.reduce_sum(tf.square(reals / scale))), nonfinite])
    if not everything:
        return norm
    nan = tf.constant(float("nan"), tf.float64)
    empty = tf.equal(tf.size(reals), 0)
    spoiled = empty | tf.reduce_any(tf.math.is_nan(reals))
    low, high = (tf.where(spoiled, nan, bound(reals)) for bound in (tf.reduce_min, tf.reduce_max))
    mean = tf.where(empty, nan, tf.reduce_mean(reals))
    zeros = tf.reduce_sum(tf.cast(tf.equal(reals, 0), tf.float64))
    return tf.concat([norm, tf.stack([mean, low, high, zeros])], 0)
