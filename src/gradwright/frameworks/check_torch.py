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

        return super().is_tensor(value) or isinstance(value, torch.Tensor)

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
        """Run `fn`; the variables are the module's parameters, then other tensors it used that want a gradient."""
        from gradwright.frameworks.torch_reads import Reads

        parameters = [] if self.module is None else [p for p in self.module.parameters() if p.requires_grad]
        with Reads(parameters) as reads:
            result = fn()
        return result, parameters + [tensor for tensor in reads.found if tensor.requires_grad]

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

    def modes(self) -> dict[str, tuple[str, Callable[..., list[Any]]]]:
        """The modes by name: what each is, and how to take gradients in it."""

        def eager(fn: Callable[..., Any], xs: list[Any], variables: list[Any], ups: list[Any]) -> list[Any]:
            return self.vjp(fn, xs, variables)[1](ups)

        return {"eager": ("torch.autograd.grad", eager)}

    def second(
        self, fn: Callable[..., Any], xs: list[Any], upstreams: list[Any], tangents: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """The gradients of <tangents, gradients of fn for upstreams> by the inputs and by the upstreams."""
        import torch

        with torch.enable_grad():
            leaves = [x.detach().requires_grad_(True) for x in xs]
            ups = [u.detach().requires_grad_(True) for u in upstreams]
            outputs = self.flatten(fn(*leaves))
            first = torch.autograd.grad(outputs, leaves, ups, create_graph=True, allow_unused=True)
            live = [(t, g) for t, g in zip(tangents, first, strict=True) if g is not None]
            total = sum(((t.conj() * g).real if g.is_complex() else t * g).sum() for t, g in live)
        if not total.requires_grad:
            return [None] * len(xs), [None] * len(ups)
        found = torch.autograd.grad(total, [*leaves, *ups], allow_unused=True)
        return list(found[: len(xs)]), list(found[len(xs) :])

    def forward(self, fn: Callable[..., Any], xs: list[Any], tangents: list[Any]) -> list[Any]:
        """The tangents of the outputs, in forward mode."""
        import torch.autograd.forward_ad as fwd

        with fwd.dual_level():
            outputs = self.flatten(fn(*[fwd.make_dual(x, t) for x, t in zip(xs, tangents, strict=True)]))
            return [fwd.unpack_dual(y).tangent for y in outputs]

    def variable_name(self, variable: Any) -> str:
        """The parameter's path in its module; for another tensor, the name that the rule's own code has for it."""
        from gradwright.frameworks.torch_reads import name_of

        named = {} if self.module is None else {id(p): name for name, p in self.module.named_parameters()}
        return named.get(id(variable)) or name_of(variable)

    def write(self, variable: Any, value: np.ndarray) -> None:
        """Put a value into a parameter."""
        import torch

        # Through `.data`, or the graph of a forward already run would refuse to be pulled back.
        variable.data.copy_(torch.tensor(value).to(variable.dtype))

    def seed(self, seed: int) -> None:
        """Make PyTorch's random numbers repeat."""
        import torch

        torch.manual_seed(seed)

    def state_of(self, f: Any) -> Callable[[], list[tuple[Any, Any]]]:
        """What a module changes by being called: its buffers."""
        module = self.module
        return lambda: [] if module is None else [(b, self.numpy(b)) for b in module.buffers()]

    def restore(self, state: list[tuple[Any, Any]]) -> None:
        """Put such a state back."""
        for buffer, value in state:
            self.write(buffer, value)

    def random_state(self) -> Any:
        """What `restore_random_state` needs."""
        import torch

        return torch.get_rng_state()

    def restore_random_state(self, state: Any) -> None:
        """Let random numbers go on as before the check."""
        import torch

        torch.set_rng_state(state)


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
