"""JAX functions, by the same course."""

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import gradwright as gw  # noqa: E402

X = jnp.array([0.5, -1.0, 2.0])


def vjp(forward, backward):
    f = jax.custom_vjp(forward)
    f.defvjp(lambda *xs: (forward(*xs), xs), backward)
    return f


def test_custom_vjp():
    right = vjp(lambda x, y: jnp.sin(x) * y, lambda r, g: (g * jnp.cos(r[0]) * r[1], g * jnp.sin(r[0])))
    assert gw.check(right, X, X + 1).ok
    wrong = vjp(lambda x, y: jnp.sin(x) * y, lambda r, g: (g * jnp.cos(r[0]) * r[1], -g * jnp.sin(r[0])))
    report = gw.check(wrong, X, X + 1)
    assert [(f.label, f.argument) for f in report.faults] == [("sign", "y")] and "float64" in report.oracle


def test_custom_jvp_in_both_directions():
    f = jax.custom_jvp(lambda x: x**3)
    f.defjvp(lambda p, t: (p[0] ** 3, 3 * p[0] ** 2 * t[0]))
    report = gw.check(f, X, modes=("eager", "jit", "vectorized", "forward"), order=2)
    assert report.ok and set(report.modes.values()) == {"right"}


def test_plain_functions_and_structures():
    assert gw.check(jax.jit(lambda p: jnp.sum(jnp.tanh(p["w"]) * p["b"][0])), {"w": X, "b": [X]}).ok


def test_complex_functions_need_no_conjugate():
    z = jnp.array([1.0 + 2.0j, 0.5 - 1.0j])
    assert gw.check(vjp(lambda z: z * z, lambda r, g: (g * 2 * r[0],)), z).ok
    report = gw.check(vjp(lambda z: z * z, lambda r, g: (g * jnp.conj(2 * r[0]),)), z)
    assert report.labels == ["conjugate"] and "JAX wants" in str(report)


def test_double_precision_is_not_left_switched_on():
    gw.check(lambda x: x * 2, X)
    assert jnp.zeros(1).dtype == jnp.float32
