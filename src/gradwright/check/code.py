"""Repairs as lines of code, in the words of the user's framework."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Code:
    """Writes the same repair for TensorFlow, JAX, PyTorch and NumPy.

    >>> Code("tensorflow").sum("g", (0,), 1), Code("torch").sum("g", (1,), 0)
    ('tf.reduce_sum(g, axis=0)', 'g.sum(dim=1, keepdim=True)')
    """

    framework: str

    @property
    def np(self) -> str:
        """The usual short name of the framework."""
        return {"tensorflow": "tf", "jax": "jnp", "torch": "torch"}.get(self.framework, "np")

    def sum(self, g: str, axes: tuple[int, ...], lead: int) -> str:
        """Sum over broadcast axes; the first `lead` of them vanish, the others stay with size 1."""
        first = tuple(a for a in axes if a < lead)
        kept = tuple(a - lead for a in axes if a >= lead)
        text = self._sum(g, first, False) if first else g
        return self._sum(text, kept, True) if kept else text

    def _sum(self, g: str, axes: tuple[int, ...], keep: bool) -> str:
        axis = str(axes[0]) if len(axes) == 1 else str(list(axes) if self.framework == "tensorflow" else axes)
        if self.framework == "torch":
            return f"{g}.sum(dim={axis}{', keepdim=True' if keep else ''})"
        name = "reduce_sum" if self.framework == "tensorflow" else "sum"
        return f"{self.np}.{name}({g}, axis={axis}{', keepdims=True' if keep else ''})"

    def reshape(self, g: str, shape: tuple[int, ...]) -> str:
        """Reshape to an input's shape."""
        return f"{self.np}.reshape({g}, {tuple(shape)})"

    def broadcast(self, g: str, name: str) -> str:
        """Spread a too small gradient over the input."""
        return f"{g} * {self.np}.ones_like({name})"

    def cast(self, g: str, name: str) -> str:
        """Cast to an input's dtype."""
        if self.framework == "tensorflow":
            return f"tf.cast({g}, {name}.dtype)"
        return f"{g}.to({name}.dtype)" if self.framework == "torch" else f"{g}.astype({name}.dtype)"

    def conj(self, g: str) -> str:
        """The complex conjugate."""
        return f"tf.math.conj({g})" if self.framework == "tensorflow" else f"{self.np}.conj({g})"

    def transpose(self, g: str, order: tuple[int, ...]) -> str:
        """Permute axes."""
        if order == (1, 0):
            return f"{g}.T" if self.framework != "tensorflow" else f"tf.transpose({g})"
        name = "permute" if self.framework == "torch" else "transpose"
        return f"{self.np}.{name}({g}, {list(order)})" if order else f"{self.np}.{name}({g})"
