"""What the proving engine needs of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwright.frameworks.check_numpy import NumPy


class Torch(NumPy):
    """PyTorch as the prover sees it; a module's parameters that require gradients are its variables."""

    name = "torch"

    def __init__(self, module: Any = None):
        self.module = module

    def is_tensor(self, value: Any) -> bool:
        """Whether a value can be a differentiable input."""
        import torch

        return isinstance(value, (torch.Tensor, np.ndarray))

    def dtype(self, value: Any) -> str:
        """The dtype's plain name."""
        return str(value.dtype).removeprefix("torch.")

    def numpy(self, value: Any) -> np.ndarray:
        """The numbers of a tensor."""
        import torch

        if not isinstance(value, torch.Tensor):
            return np.asarray(value)
        value = value.detach().resolve_conj().cpu()
        return (value.double() if value.dtype == torch.bfloat16 else value).numpy().copy()

    def tensor(self, value: np.ndarray, like: Any, dtype: str) -> Any:
        """A new leaf tensor of that dtype."""
        import torch

        return torch.tensor(np.asarray(value)).to(getattr(torch, dtype))

    def scalar(self, value: Any) -> Any:
        """A python number as PyTorch takes it."""
        import torch

        return torch.tensor(value)

    def flatten(self, output: Any) -> list[Any]:
        """The tensors among the outputs."""
        import torch

        found = [v if isinstance(v, torch.Tensor) else None for v in super().flatten(output)]
        return [v for v in found if v is not None]

    def spy(self, fn: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """Run `fn`; the variables are the module's parameters."""
        parameters = [] if self.module is None else [p for p in self.module.parameters() if p.requires_grad]
        return fn(), parameters

    def vjp(self, fn: Callable[..., Any], tensors: list[Any], variables: list[Any]) -> tuple[list[Any], Callable]:
        """PyTorch's own pullback through a recorded run."""
        import torch

        with torch.enable_grad():
            leaves = [t.detach().requires_grad_(True) for t in tensors]
            outputs = self.flatten(fn(*leaves))
        live = [i for i, y in enumerate(outputs) if y.requires_grad]

        def pull(upstreams: list[Any]) -> list[Any]:
            wanted = leaves + variables
            if not live or not wanted:
                return [None] * len(wanted)
            ys, ups = [outputs[i] for i in live], [upstreams[i] for i in live]
            return list(torch.autograd.grad(ys, wanted, ups, retain_graph=True, allow_unused=True))

        return outputs, pull

    def variable_name(self, variable: Any) -> str:
        """The parameter's path in its module."""
        named = {} if self.module is None else {id(p): name for name, p in self.module.named_parameters()}
        return named.get(id(variable), "parameter")

    def write(self, variable: Any, value: np.ndarray) -> None:
        """Put a value into a parameter."""
        import torch

        with torch.no_grad():
            variable.copy_(torch.tensor(value).to(variable.dtype))

    def seed(self, seed: int) -> None:
        """Make PyTorch's random numbers repeat."""
        import torch

        torch.manual_seed(seed)


class Tape:
    """The context of a `torch.autograd.Function` while its forward is differentiated as plain code."""

    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Nothing will be asked back."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """No matter here."""

    def mark_dirty(self, *tensors: Any) -> None:
        """No matter here."""

    def set_materialize_grads(self, value: bool) -> None:
        """No matter here."""


def plain_forward(function: type) -> Callable[..., Any]:
    """The forward of a `torch.autograd.Function` as a function that PyTorch differentiates by itself."""
    import torch

    if function.setup_context is not torch.autograd.Function.setup_context:
        return function.forward
    return lambda *args, **kwargs: function.forward(Tape(), *args, **kwargs)
