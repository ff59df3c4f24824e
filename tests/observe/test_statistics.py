"""Statistics of eager tensors and of tensors in graphs against numpy in double precision."""

import math

import numpy as np
import pytest
import tensorflow as tf

from gradwright.frameworks.tf_statistics import measured, vector
from gradwright.observe.arrays import statistics

ARRAYS = {
    "ordinary": np.array([[1.5, -2.0, 0.0], [0.0, 3.25, -7.0]], np.float32),
    "scalar": np.array(-3.0, np.float64),
    "zeros": np.zeros([4, 2], np.float32),
    "huge": np.array([3e30, -4e30, 0.0], np.float32),
    "tiny": np.array([3e-30, -4e-30], np.float32),
    "huge double": np.array([3e200, 4e200]),
    "nan": np.array([1.0, np.nan, 0.0], np.float32),
    "infinite": np.array([1.0, -np.inf, 2.0], np.float32),
    "both": np.array([np.inf, np.nan], np.float64),
    "half": np.array([60000.0, 0.0, -60000.0], np.float16),
    "whole numbers": np.array([3, 0, -4], np.int32),
    "complex": np.array([3 + 4j, 0, 1j], np.complex64),
    "random": np.random.default_rng(0).normal(size=[7, 5, 3]).astype(np.float32),
}


def expected(array):
    reals = np.abs(array) if array.dtype.kind == "c" else array.astype(np.float64)
    largest = np.max(np.abs(reals[np.isfinite(reals)]), initial=0) or 1.0
    with np.errstate(all="ignore"):
        norm = largest * np.sqrt(np.sum((reals / largest) ** 2))
        return norm, reals.mean(), reals.min(), reals.max(), np.sum(reals == 0), np.sum(~np.isfinite(reals))


def agree(stats, array):
    norm, mean, low, high, zeros, nonfinite = expected(array)
    assert (stats.shape, stats.dtype) == (array.shape, array.dtype.name)
    for found, wanted in zip((stats.norm, stats.mean, stats.min, stats.max), (norm, mean, low, high), strict=True):
        assert found == pytest.approx(wanted, rel=2e-6, abs=1e-7, nan_ok=True)
    assert (stats.zeros, stats.nonfinite) == (zeros, nonfinite)
    assert isinstance(stats.zeros, int) and isinstance(stats.nonfinite, int)


@pytest.mark.parametrize("name", ARRAYS)
def test_of_an_array(name):
    agree(statistics(ARRAYS[name]), ARRAYS[name])


@pytest.mark.parametrize("jit", [False, True])
def test_in_a_graph(jit):
    for name, array in ARRAYS.items():
        if jit and array.dtype.kind == "c":
            continue
        row = tf.function(lambda t: vector(t, True), jit_compile=jit)(tf.constant(array))
        try:
            agree(measured(array.shape, array.dtype.name, row.numpy()), array)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def test_norms_alone():
    for name, array in ARRAYS.items():
        norm, *_, nonfinite = expected(array)
        row = tf.function(lambda t: vector(t, False))(tf.constant(array)).numpy()
        for stats in (statistics(array, everything=False), measured(array.shape, "float32", row)):
            assert stats.norm == pytest.approx(norm, rel=2e-6, nan_ok=True), name
            assert (stats.nonfinite, stats.mean, stats.zeros) == (nonfinite, None, None)


def test_an_empty_tensor_has_a_norm_and_no_mean():
    for stats in (
        statistics(np.zeros([0, 3], np.float32)),
        measured((0, 3), "float32", vector(tf.zeros([0, 3]), True).numpy()),
    ):
        assert (stats.norm, stats.zeros, stats.nonfinite) == (0.0, 0, 0)
        assert math.isnan(stats.mean) and math.isnan(stats.min) and math.isnan(stats.max)
