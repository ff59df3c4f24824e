"""The few private names of torch that are used, each behind what it tells, each with an answer where it is missing."""

from __future__ import annotations

import contextlib
from typing import Any

import torch


def transformed() -> bool:
    """Whether a transform of torch.func is running (vmap, grad, jvp); True where torch does not tell."""
    ask = getattr(torch._C, "_are_functorch_transforms_active", None)
    return True if ask is None else bool(ask())


def dual() -> bool:
    """Whether forward mode may be on; True where torch does not tell."""
    return getattr(torch.autograd.forward_ad, "_current_level", 0) >= 0


def moment() -> int | None:
    """The number that the next recorded operation of this thread gets; None where torch does not tell."""
    ask = getattr(torch._C._autograd, "_get_sequence_nr", None)
    return None if ask is None else int(ask())


def recorded_since(tensor: Any, start: int | None) -> bool:
    """Whether a tensor comes from an operation that was recorded after a moment; False where torch does not tell."""
    number = getattr(tensor.grad_fn, "_sequence_nr", None)
    return start is not None and number is not None and number() >= start


def leaves_since(outputs: list[Any], start: int | None) -> list[Any]:
    """The leaf tensors that outputs were computed from by operations recorded after a moment.

    What a wrapper of tensors does inside itself no TorchFunctionMode sees; torch's record has it.
    """
    if start is None or transformed():
        return []
    found, seen, waiting = [], set(), [t.grad_fn for t in outputs if t.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        elif node._sequence_nr() >= start:
            waiting.extend(after for after, _ in reversed(node.next_functions) if after is not None)
    return found


def bare(tensor: Any) -> Any:
    """The plain tensor behind the wrappers of torch.func, batch axes and all."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def outside_transforms() -> Any:
    """A scope in which the transforms of torch.func do not wrap what is computed."""
    guard = getattr(torch._C, "_DisableFuncTorch", None)
    return contextlib.nullcontext() if guard is None else guard()


def forward_mode_on() -> Any:
    """A scope in which forward mode is on; None where torch cannot give it.

    torch turns it off inside the jvp of a Function; under torch.func a second forward derivative would then be zero
    without a word. Outside torch.func there is one level of forward mode only, and it must stay off.
    """
    if not transformed():
        return contextlib.nullcontext()
    switch = getattr(torch.autograd.forward_ad, "_set_fwd_grad_enabled", None)
    return None if switch is None else switch(True)


def without_tangent(tensor: Any) -> Any:
    """The primal of a tensor that may carry a tangent of the transform that is being worked on."""
    return torch.autograd.forward_ad.unpack_dual(tensor, level=0).primal if transformed() else tensor
