"""What a forward reads without taking it as an argument: parameters, and other tensors that want a gradient.

torch has no watcher of variables, so every call of a torch function in the forward is seen by a TorchFunctionMode.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from gradwright.frameworks import torch_private as private
from gradwright.frameworks.closures import Walk
from gradwright.rule import Rule

# To detach is to say that no gradient is wanted.
_DETACHING = frozenset({torch.Tensor.detach, torch.Tensor.data.__get__, torch.Tensor.requires_grad_})  # type: ignore[attr-defined]
# The rule that last read a tensor, by which its name is found when a message needs it.
_readers: Any = WeakIdKeyDictionary()


def is_keras_variable(value: Any) -> bool:
    """Whether a value is a Keras variable, which wraps a parameter."""
    found = getattr(sys.modules.get("keras"), "Variable", None)
    return found is not None and isinstance(value, found)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.open: list[Reads] = []


_thread = _Thread()


class Reads(TorchFunctionMode):
    """Within it, tensors that are used and come from outside, in order of first use."""

    def __init__(self, arguments: list[Any]):
        super().__init__()
        self.found: list[Any] = []
        self.start = private.moment()
        # Arguments and results are kept, so that an id means one tensor as long as the forward runs.
        self.known = {id(argument): argument for argument in arguments}

    def __enter__(self) -> Reads:
        _thread.open.append(self)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        _thread.open.pop()
        super().__exit__(*error)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at what goes in and what comes out."""
        result = func(*args, **(kwargs or {}))
        made = list(tensors_in(result))
        if made and func not in _DETACHING:
            for tensor in tensors_in([args, list((kwargs or {}).values())]):
                self.see(tensor)
        self.own(made)
        return result

    def see(self, tensor: Any) -> None:
        """Note a tensor that is used, if it wants a gradient and is neither an argument nor made here."""
        if id(tensor) in self.known or not (tensor.requires_grad or isinstance(tensor, torch.nn.Parameter)):
            return
        self.known[id(tensor)] = tensor
        if not private.recorded_since(tensor, self.start):
            self.found.append(tensor)

    def own(self, tensors: list[Any]) -> None:
        """Note tensors as made here."""
        for tensor in tensors:
            self.known[id(tensor)] = tensor


def made_by_rule(tensors: list[Any]) -> None:
    """Tell the forwards that are running of outputs which no torch function returned."""
    for reads in _thread.open:
        reads.own(tensors)


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in nested lists, tuples and dicts, and behind the variables of Keras."""
    if isinstance(value, torch.Tensor):
        yield value
    elif is_keras_variable(value):
        yield value.value
    elif isinstance(value, list | tuple):
        for child in value:
            yield from tensors_in(child)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def run(rule: Rule, bound: Any) -> tuple[Any, Callable[..., Any], list[Any]]:
    """Run the user's function: output, grad and what was read."""
    with Reads(bound.tensors()) as reads:
        result = rule.pair(*bound.args, **bound.kwargs)
    output, grad = rule.unpack(result)
    for tensor in private.leaves_since(list(tensors_in(output)), reads.start):
        reads.see(tensor)
    for outer in _thread.open:
        for tensor in reads.found:
            outer.see(tensor)
    for tensor in reads.found:
        _readers[tensor] = weakref.ref(rule)
    return output, grad, reads.found


def name_of(tensor: Any) -> str:
    """The name a user knows a captured tensor by: `w`, `layer.weight`; its shape where nothing names it."""
    reader = _readers.get(tensor)
    rule = reader() if reader is not None else None
    walk = Walk(lambda value: value is tensor, expand=_parameters)
    for place in _places(rule) if rule is not None else []:
        found = next(walk.find(*place), None)
        if found is not None:
            return found[0].removeprefix("self.").removeprefix(".") or "parameter"
    return f"{type(tensor).__name__.lower()} of shape {tuple(tensor.shape)}"


def _places(rule: Rule) -> list[tuple[Any, str]]:
    """Where a rule may have a tensor from: its closure, then the globals that its code names."""
    function = getattr(rule.pair, "__func__", rule.pair)
    code, scope = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    named = [(scope[name], name) for name in (code.co_names if code else ()) if name in scope]
    return [(rule.pair, ""), *((v, n) for v, n in named if isinstance(v, torch.Tensor | torch.nn.Module | dict | list))]


def _parameters(value: Any) -> Any:
    """Take a module apart into its parameters, by their qualified names."""
    if not isinstance(value, torch.nn.Module):
        return None
    return [(f".{name}", p) for name, p in [*value.named_parameters(), *value.named_buffers()]], lambda _: value
