"""The seam to PyTorch (and Keras on PyTorch): what a tensor is, and how a gradient is made to fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gradwright import frameworks
from gradwright.errors import Fault, GradientDtypeError
from gradwright.fit import AtRunTime
from gradwright.frameworks import torch_private as private
from gradwright.frameworks import torch_reads
from gradwright.frameworks.base import plan_in_words
from gradwright.frameworks.torch_reads import is_keras_variable
from gradwright.outputs import Outputs
from gradwright.pullback import Fitted
from gradwright.rule import Rule
from gradwright.signature import Bound, Slot
from gradwright.space import Space, kind_of

WORDS = {"tf.transpose(g)": "g.T", "tf.transpose(g,": "torch.permute(g,", "tf.": "torch."}


def dtype_name(dtype: Any) -> str:
    """The plain name of a dtype: `float32`."""
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> Any:
    """The dtype of a plain name."""
    return getattr(torch, name)


class Torch:
    """What the rest of gradwright may ask of PyTorch."""

    name = "torch"
    keyed = "{v: d_v}"

    def is_leaf(self, value: Any) -> bool:
        """Whether a value is a tensor or array, and no structure."""
        return self.is_tensor(value) or isinstance(value, np.ndarray) or is_keras_variable(value)

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor or parameter."""
        return isinstance(value, torch.Tensor)

    def to_tensor_argument(self, value: Any) -> Any:
        """An array in a tensor's place becomes a tensor, a Keras variable its parameter."""
        if isinstance(value, np.ndarray) and value.dtype.kind in "fciub":
            return torch.as_tensor(value)
        return value.value if is_keras_variable(value) else value

    def to_output(self, value: Any) -> Any:
        """A number or array that the forward returned becomes a tensor."""
        if isinstance(value, np.ndarray | np.generic | int | float | complex) and not isinstance(value, bool):
            return torch.as_tensor(value)
        return value.value if is_keras_variable(value) else value

    def is_trainable(self, variable: Any) -> bool:
        """Whether a captured tensor wants a gradient."""
        return bool(variable.requires_grad) and kind_of(dtype_name(variable.dtype)) != "none"

    def variable_of_key(self, key: Any) -> Any:
        """The tensor that a key of variable gradients stands for, or None."""
        key = key.value if is_keras_variable(key) else key
        return key if isinstance(key, torch.Tensor) else None

    def variable_name(self, variable: Any) -> str:
        """The name that the rule's own code has for a captured tensor."""
        return torch_reads.name_of(variable)

    def not_among(self, reads: list[Any], arguments: list[Any]) -> list[Any]:
        """The tensors that were read and are not arguments themselves."""
        own = {id(argument) for argument in arguments}
        return [v for v in reads if id(v) not in own]

    def space(self, value: Any) -> Space:
        """The facts about a tensor that a gradient must fit."""
        if not isinstance(value, torch.Tensor):
            value = np.asarray(value.value.detach() if is_keras_variable(value) else value)
            return Space(value.shape, value.dtype.name)
        return Space(tuple(value.shape), dtype_name(value.dtype))

    def shape_at_run_time(self, value: Any) -> Any:
        """The shape, which is always known."""
        return tuple(value.shape)

    def upstream(self, upstream: Any, space: Space, sparse: bool) -> Any:
        """Make an upstream that a rule can compute with: dense, zeros where there is none."""
        if upstream is None:
            return torch.zeros(space.shape, dtype=dtype_of(space.dtype))
        if space.kind == "none":
            return torch.zeros(space.shape, dtype=dtype_of(space.dtype), device=upstream.device)
        return upstream.to_dense() if upstream.layout != torch.strided and not sparse else upstream

    def fit(
        self,
        gradient: Any,
        space: Space,
        complex: str = "refuse",
        strict: bool = False,
        at: AtRunTime | None = None,
    ) -> Fitted:
        """Carry out the plan that takes a gradient into the space of its input."""
        if gradient is None or space.kind == "none":
            return Fitted(None)
        gradient = as_tensor(gradient, space)
        given = Space(tuple(gradient.shape), dtype_name(gradient.dtype))
        if given == space:
            return Fitted(gradient)
        made = plan_in_words(given, space, complex, strict, WORDS)
        if made.real_part:
            gradient = gradient.real
        if made.cast:
            gradient = gradient.to(dtype_of(made.cast))
        if made.axes:
            gradient = gradient.sum(made.axes).reshape(made.shape)
        return Fitted(gradient, made.repairs)

    def call(self, rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a rule in whatever mode this thread is in."""
        if torch.compiler.is_compiling():
            # Imported here, because it brings the whole compiler with it.
            from gradwright.frameworks import torch_compile

            return torch_compile.leave(self.now, rule, args, kwargs)
        return self.now(rule, args, kwargs)

    def now(self, rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a rule, outside any graph that is being compiled."""
        owner = frameworks.of_call(rule.pair, args, kwargs)
        if owner is not self:
            rule._seam = None
            return owner.call(rule, args, kwargs)
        bound = plain(rule, args) if rule.simple == len(args) and not kwargs else rule.bind(args, kwargs, self)
        output, grad, reads = torch_reads.run(rule, bound)
        outputs = Outputs(output, self)
        if not torch.is_grad_enabled() and not private.dual():
            return outputs.rebuild([outputs.leaves[i] for i in outputs.tensors])
        return torch_function.record(rule, bound, outputs, grad, reads)

    def run(self, rule: Rule, bound: Bound) -> tuple[Any, Callable[..., Any], Outputs, list[Any]]:
        """Run the forward: the output, the user's grad, the outputs taken apart, the tensors that were read."""
        output, grad, reads = torch_reads.run(rule, bound)
        return output, grad, Outputs(output, self), reads

    def variables_by_autodiff(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a rule that answers for its inputs only; captured tensors are differentiated through the forward."""
        with torch.enable_grad():
            output, grad = function(*args, **kwargs)
        own = Native([t for t in torch_reads.tensors_in(output) if t.requires_grad])

        def with_variables(*upstreams: Any, variables: Any = ()) -> Any:
            inputs = grad(*upstreams)
            if not variables:
                return inputs
            return inputs, own.gradients(list(variables), list(torch_reads.tensors_in(list(upstreams))))

        return output, with_variables


def plain(rule: Rule, args: tuple[Any, ...]) -> Bound:
    """Bind a call with one tensor in each place: what `Rule.bind` does, with less to look at."""
    if not all(isinstance(arg, torch.Tensor) for arg in args):
        return rule.bind(args, {}, seam)
    return Bound(
        args, {}, [Slot(name, arg, [arg], None, [0]) for name, arg in zip(rule.signature.names, args, strict=True)]
    )


class Native:
    """Outputs as torch itself recorded them; an object, so that they are not taken for captured values."""

    __slots__ = ("outputs",)

    def __init__(self, outputs: list[Any]):
        self.outputs = outputs

    def gradients(self, variables: list[Any], upstreams: list[Any]) -> list[Any]:
        """torch's own gradients."""
        live = [u for u in upstreams if kind_of(dtype_name(u.dtype)) != "none"]
        return list(
            torch.autograd.grad(
                self.outputs,
                variables,
                live,
                retain_graph=True,
                create_graph=torch.is_grad_enabled(),
                allow_unused=True,
            )
        )


def as_tensor(gradient: Any, space: Space) -> Any:
    """Turn what a rule returned into a tensor: numbers and arrays are converted, a number in the input's dtype."""
    if isinstance(gradient, torch.Tensor):
        return gradient
    if isinstance(gradient, float) or (isinstance(gradient, complex) and space.kind == "complex"):
        return torch.tensor(gradient, dtype=dtype_of(space.dtype))
    try:
        return torch.as_tensor(gradient)
    except (TypeError, ValueError, RuntimeError):
        raise Fault(
            GradientDtypeError, f"is a {type(gradient).__name__}, which is no tensor", "return a tensor"
        ) from None


seam = Torch()

# The modes stand on the seam, so they come after it.
from gradwright.frameworks import torch_function  # noqa: E402
