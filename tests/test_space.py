"""Spaces: facts about an input, and nothing of the input itself."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from gradwright.space import Space, kind_of, show_shape


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e5m2", "float8_e4m3fn"])
def test_floats_are_real(dtype):
    assert kind_of(dtype) == "real"


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_is_complex(dtype):
    assert kind_of(dtype) == "complex"


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64", "bool", "string", "resource", "variant", "qint8", "int4"])
def test_everything_else_carries_no_gradient(dtype):
    assert kind_of(dtype) == "none"


def test_equal_facts_are_equal_and_hash_alike():
    assert Space((2, None), "float32") == Space((2, None), "float32")
    assert hash(Space((2, None), "float32")) == hash(Space((2, None), "float32"))
    assert Space((2, 3), "float32") != Space((2, 3), "float64")


@pytest.mark.parametrize(
    ("shape", "static", "text"),
    [
        ((), True, "()"),
        ((3,), True, "(3,)"),
        ((2, 0), True, "(2, 0)"),
        ((None,), False, "(?,)"),
        ((2, None), False, "(2, ?)"),
        (None, False, "(unknown rank)"),
    ],
)
def test_shapes_are_known_or_not_and_written_as_people_do(shape, static, text):
    assert Space(shape, "float32").static is static
    assert show_shape(shape) == text
    assert str(Space(shape, "float32")) == "float32" + text


def test_a_space_keeps_no_tensor_alive():
    from gradwright.frameworks.numpy import seam

    class Watched(np.ndarray):
        pass

    array = np.ones((2, 3)).view(Watched)
    space, alive = seam.space(array), weakref.ref(array)
    del array
    gc.collect()
    assert alive() is None and space == Space((2, 3), "float64")


def test_the_spaces_of_tensorflow_values():
    import tensorflow as tf

    from gradwright.frameworks.tensorflow import seam

    found = []

    @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec(None, tf.complex64)])
    def look(x, z):
        found.extend([seam.space(x), seam.space(z)])
        return x

    look(tf.ones([3, 2]), tf.ones([1], tf.complex64))
    assert found == [Space((None, 2), "float32"), Space(None, "complex64")]
    assert seam.space(tf.Variable([[1.0]])) == Space((1, 1), "float32")
    assert seam.space(tf.ragged.constant([[1.0], [2.0, 3.0]])) == Space((3,), "float32")
    assert seam.space(tf.constant("a")).kind == "none"
    assert seam.space(np.float64(3.0)) == Space((), "float64")
