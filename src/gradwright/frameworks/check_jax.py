"""What the proving engine needs of JAX. JAX pulls back without conjugating: both ends are conjugated here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gradwright.frameworks.check_numpy import NumPy


class Jax(NumPy):
    """JAX as the prover sees it, 64-bit types switched on inside."""

    name = "jax"

    def context(self, precise: bool) -> AbstractContextManager[Any]:
        """Double precision must be switched on for it to exist at all."""
        import jax

        return jax.enable_x64(True) if precise else nullcontext()

    def is_tensor(self, value: Any) -> bool:
        """Whether a value can be a differentiable input."""
        import jax

        return super().is_tensor(value) or isinstance(value, jax.Array)

    def dtype(self, value: Any) -> str:
        """The dtype's plain name."""
        return np.dtype(value.dtype).name if hasattr(value, "dtype") else np.asarray(value).dtype.name

    def tensor(self, value: np.ndarray, like: Any, dtype: str) -> Any:
        """A JAX array of that dtype, double precision included."""
        import jax.numpy as jnp

        with self.context(dtype in ("float64", "complex128")):
            return jnp.asarray(value, dtype=dtype)

    def scalar(self, value: Any) -> Any:
        """A python number as JAX takes it."""
        import jax.numpy as jnp

        return jnp.asarray(value)

    def flatten(self, output: Any) -> list[Any]:
        """The outputs in JAX's order."""
        import jax

        return [leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(output)]

    def spy(self, fn: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """Run `fn`; JAX functions capture no variables."""
        return fn(), []

    def vjp(self, fn: Callable[..., Any], tensors: list[Any], variables: list[Any]) -> tuple[list[Any], Callable]:
        """JAX's own pullback, in the convention of the real inner product."""
        import jax

        outputs, pullback = jax.vjp(lambda *xs: self.flatten(fn(*xs)), *tensors)

        def pull(upstreams: list[Any]) -> list[Any]:
            given = [_cotangent(u, y) for u, y in zip(upstreams, outputs, strict=True)]
            return [np.conj(np.asarray(g)) if np.iscomplexobj(g) else g for g in pullback(given)]

        return outputs, pull

    def modes(self) -> dict[str, tuple[str, Callable[..., list[Any]]]]:
        """The modes by name: what each is, and how to take gradients in it."""
        import jax
        import jax.numpy as jnp

        def reverse(fn: Callable[..., Any], xs: list[Any], ups: list[Any]) -> list[Any]:
            outputs, pull = self.vjp(fn, xs, [])
            given = iter(ups)
            return pull([next(given) if np.issubdtype(y.dtype, np.inexact) else None for y in outputs])

        def jitted(fn: Callable[..., Any], xs: list[Any], _: list[Any], ups: list[Any]) -> list[Any]:
            return reverse(jax.jit(fn), xs, ups)

        def mapped(fn: Callable[..., Any], xs: list[Any], _: list[Any], ups: list[Any]) -> list[Any]:
            def over(*xs: Any) -> list[Any]:
                copies = [jnp.stack([x, x]) for x in xs]
                return [y[0] for y in jax.vmap(lambda *p: self.flatten(fn(*p)))(*copies)]

            return reverse(over, xs, ups)

        return {
            "eager": ("jax.vjp", lambda fn, xs, _, ups: reverse(fn, xs, ups)),
            "jit": ("jax.vjp of jax.jit", jitted),
            "vectorized": ("jax.vjp of jax.vmap", mapped),
        }

    def second(
        self, fn: Callable[..., Any], xs: list[Any], upstreams: list[Any], tangents: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """The gradients of <tangents, gradients of fn for upstreams> by the inputs and by the upstreams."""
        import jax
        import jax.numpy as jnp

        def total(xs: list[Any], upstreams: list[Any]) -> Any:
            _, pull = jax.vjp(lambda *x: self.flatten(fn(*x)), *xs)
            first = pull([jnp.conj(u) for u in upstreams])
            return sum(
                jnp.sum(jnp.real(t * g)) for t, g in zip(map(jnp.conj, tangents), map(jnp.conj, first), strict=True)
            )

        by_x, by_u = jax.grad(total, (0, 1))(xs, upstreams)
        return [jnp.conj(g) for g in by_x], [jnp.conj(g) for g in by_u]

    def forward(self, fn: Callable[..., Any], xs: list[Any], tangents: list[Any]) -> list[Any]:
        """The tangents of the outputs, in forward mode."""
        import jax

        return jax.jvp(lambda *x: self.flatten(fn(*x)), tuple(xs), tuple(tangents))[1]

    def seed(self, seed: int) -> None:
        """JAX keys are arguments: nothing to do."""


def _cotangent(upstream: Any, output: Any) -> Any:
    import jax

    if upstream is None or not np.issubdtype(output.dtype, np.inexact):
        if np.issubdtype(output.dtype, np.inexact) or "float" in np.dtype(output.dtype).name:
            return upstream
        return np.zeros(output.shape, dtype=jax.dtypes.float0)
    return upstream.conj() if np.iscomplexobj(upstream) else upstream
