"""The same log for PyTorch and JAX."""

import numpy as np
import pytest

import gradwright as gw


def test_torch_eager_compiled_and_transformed():
    torch = pytest.importorskip("torch")

    @gw.custom_gradient
    def scale(x, s):
        return x * s, lambda upstream: (upstream * s, upstream * x)

    x = torch.ones(2, 3, requires_grad=True)
    s = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with gw.observe(values=True) as log:
        gw.probe(scale(x, s), "point").sum().backward()
    point, record = log.records
    assert (point.rule, record.rule, record.upstream.dtype) == ("point", "scale", "float32")
    assert record.repairs == [("s", "summed over axis 0")] and record.gradients["s"].value.tolist() == [2, 2, 2]

    def function(x):
        return (gw.probe(x, "inner") ** 2).sum()

    with gw.observe() as log:
        torch.func.grad(function)(torch.tensor([3.0, 4.0]))
        torch.compile(function, backend="eager")(torch.tensor([3.0, 4.0], requires_grad=True)).backward()
    assert [r.upstream.norm for r in log.records] == [10.0, 10.0]
    with gw.observe() as log:
        torch.func.vmap(torch.func.grad(function))(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    assert [(r.upstream.shape, r.upstream.norm) for r in log.records] == [((2, 2), 10.0)]


def test_torch_low_precision():
    torch = pytest.importorskip("torch")
    x = torch.tensor([3.0, 4.0], dtype=torch.bfloat16, requires_grad=True)
    with gw.observe() as log:
        (gw.probe(x, "low") ** 2).sum().backward()
    assert (log.records[0].upstream.dtype, log.records[0].upstream.norm) == ("bfloat16", 10.0)


def test_jax_at_each_run_of_a_compiled_function():
    jax = pytest.importorskip("jax")

    def function(x):
        return (gw.probe(x, "point") ** 2).sum()

    x = jax.numpy.array([3.0, 4.0])
    with gw.observe() as log:
        jax.grad(function)(x)
        compiled = jax.jit(jax.grad(function))
        compiled(x)
        compiled(2 * x)
        assert [r.upstream.norm for r in log.records] == [10.0, 10.0, 20.0]
    compiled(x)
    assert len(log.records) == 3
    with gw.observe() as log:
        compiled(x)
    assert len(log.records) == 1
    assert isinstance(log.records[0].upstream.norm, float) and not isinstance(log.records[0].upstream.norm, np.floating)
