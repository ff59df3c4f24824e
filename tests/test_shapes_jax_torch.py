"""The same shape functions on JAX and torch tensors: forward and adjoint against numpy."""

import numpy as np
import pytest

from gradwright import shapes
from gradwright.errors import ArgumentError
from tests.test_shapes import CASES, IDS, numbers, transposed


@pytest.mark.parametrize("framework", ["jax", "torch"])
@pytest.mark.parametrize(("name", "shape", "pair", "forward", "least"), CASES, ids=IDS)
def test_forward_and_adjoint(framework, name, shape, pair, forward, least):
    if "tensor" in name:
        pytest.skip("the argument is a TensorFlow tensor")
    jnp, torch = pytest.importorskip("jax.numpy"), pytest.importorskip("torch")
    make = {"jax": jnp.asarray, "torch": torch.tensor}[framework]
    x, tangent = numbers(shape), numbers(shape, 1)
    upstream = numbers(forward(np.zeros(shape, "float32")).shape, 2)
    y, back = pair(make(x))
    assert type(y).__module__.partition(".")[0] in (framework, "jaxlib")
    np.testing.assert_allclose(y, forward(x))
    np.testing.assert_allclose(back.jvp(make(tangent)), forward(tangent))
    np.testing.assert_allclose(back(make(upstream)), transposed(forward, shape, upstream), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_lists(framework):
    jnp, torch = pytest.importorskip("jax.numpy"), pytest.importorskip("torch")
    make = {"jax": jnp.asarray, "torch": torch.tensor}[framework]
    a, b, u = numbers((2, 1)), numbers((2, 3)), numbers((2, 4))
    _, back = shapes.concat([make(a), make(b)], -1)
    ga, gb = back(make(u))
    np.testing.assert_array_equal(ga, u[:, :1])
    np.testing.assert_array_equal(gb, u[:, 1:])
    y, back = shapes.stack([make(b), make(b)], 1)
    np.testing.assert_array_equal(back(y)[1], b)
    parts, back = shapes.split(make(u), [1, 3], 1)
    np.testing.assert_array_equal(back(parts[0], None), np.pad(u[:, :1], [[0, 0], [0, 3]]))


def test_jax_under_jit_and_wrong_use():
    jax = pytest.importorskip("jax")
    back = jax.jit(lambda x, u: shapes.transpose(x, [1, 2, 0])[1](u))
    assert back(np.ones((2, 3, 4), "float32"), np.ones((3, 4, 2), "float32")).shape == (2, 3, 4)
    with pytest.raises(ArgumentError, match="must be known when JAX traces"):
        jax.jit(lambda x, n: shapes.reshape(x, n)[0])(np.ones(4), np.array([2, 2]))
    with pytest.raises(ArgumentError, match=r"reshape.*\(4,\)"):
        shapes.reshape(jax.numpy.ones(4), [3])
