"""One autograd.Function for every call of a rule.

The forward has run before, recorded by torch itself; the Function stands on its outputs. Its inputs are the
arguments, the captured tensors that want a gradient, and the residuals: what the user's grad has captured. All of
them are saved as torch wants it, and the grad is rebuilt around what torch hands back, so that second derivatives
follow the rule through its output and torch's own record through the residuals.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import torch

from gradwright.errors import ModeError, compose
from gradwright.frameworks import torch_forward, torch_reads
from gradwright.frameworks import torch_private as private
from gradwright.frameworks.closures import Walk, cells_of
from gradwright.frameworks.emptied import Emptied
from gradwright.frameworks.torch import seam
from gradwright.outputs import Outputs
from gradwright.pullback import Pullback
from gradwright.rule import Rule
from gradwright.signature import Bound


class Record:
    """A call: its pullback with an emptied grad, and which saved tensor belongs where in it.

    The Function's tensors are: outputs handed in, inputs that get a gradient, residuals.
    """

    def __init__(self, pullback: Pullback, outputs: list[Any], inputs: list[Any], closed: frozenset[int]):
        walk = Walk(lambda value: isinstance(value, torch.Tensor), closed=closed)
        self.grad = Emptied(pullback.grad, walk)
        captured, self.grad.captured = self.grad.captured, []
        known = {id(t) for t in [*inputs, *outputs]}
        residuals = [t for t in captured if id(t) not in known]
        places = {id(t): i for i, t in enumerate([*inputs, *residuals])}
        behind = {id(t): i for i, t in enumerate(outputs)}
        # An output that is an argument handed through is, to grad, the argument.
        self.saved = [(True, places[id(t)]) if id(t) in places else (False, behind[id(t)]) for t in captured]
        index = {id(t): i for i, t in enumerate(captured)}
        self.captured = {id(v): index[id(v)] for v in pullback.reads if id(v) in index}
        self.pullback = pullback
        pullback.grad = released
        self.tensors = [*inputs, *residuals]
        self.handed, self.inputs, self.residuals = 0, len(inputs), len(residuals)
        self.dead = [i for i, space in enumerate(pullback.output_spaces) if space.kind == "none"]
        self.outputs: list[Any] = []
        self.devices = [t.device for t in outputs]
        self.autocast = autocast_now(self.devices)

    def apply(self, outputs: list[Any]) -> tuple[Any, ...]:
        """Put the Function on the record.

        Outputs that are inputs of a Function cannot be changed in place afterwards, so they are handed over beside
        it; torch.func has to see them as inputs.
        """
        tensors, self.tensors = self.tensors, []
        if private.transformed():
            self.handed = len(outputs)
            return TransformedCall.apply(self, *outputs, *tensors)
        self.outputs = outputs
        return Call.apply(self, *tensors)

    def filled(self, saved: Any) -> Pullback:
        """The pullback with these tensors in its grad."""
        made = copy.copy(self.pullback)
        made.grad = self.grad.filled(saved)
        if not self.captured:
            return made
        # Under a transform, what grad has captured is another object than what the forward read; keys must still meet.
        made.variables = [saved[self.captured[id(v)]] if id(v) in self.captured else v for v in made.variables]
        made.reads = [saved[self.captured[id(v)]] if id(v) in self.captured else v for v in made.reads]
        return made


def released(*_: Any) -> Any:
    """Stands for a grad whose tensors torch keeps."""
    raise RuntimeError("a grad was asked without its tensors")


def autocast_now(devices: list[Any]) -> tuple[str, bool, Any]:
    """The state of autocast, to be there again in the backward."""
    kind = devices[0].type if devices else "cpu"
    if not torch.amp.is_autocast_available(kind):
        return kind, False, None
    return kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)


@contextlib.contextmanager
def autocasting(state: tuple[str, bool, Any]) -> Any:
    """Autocast as it was."""
    kind, enabled, dtype = state
    if not enabled and (not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind)):
        yield
        return
    with torch.autocast(kind, dtype=dtype, enabled=enabled):
        yield


def keep(ctx: Any, record: Record, given: Any, output: Any) -> None:
    """Let torch save what the rule's grad has captured."""
    ctx.record = record
    saved = [given[place] if is_input else output[place] for is_input, place in record.saved]
    ctx.save_for_backward(*saved)
    ctx.save_for_forward(*saved)
    if record.dead:
        ctx.mark_non_differentiable(*(output[i] for i in record.dead))


class Call(torch.autograd.Function):
    """Hands the outputs through; its derivative is the rule's."""

    @staticmethod
    def forward(ctx: Any, record: Record, *tensors: Any) -> Any:
        """Give the outputs that the rule's forward has made."""
        outputs, record.outputs = tuple(record.outputs), []
        keep(ctx, record, tensors, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *upstreams: Any) -> Any:
        """Pull back by the rule; residuals and handed outputs have no part in it."""
        record = ctx.record
        with autocasting(record.autocast):
            gradients = record.filled(ctx.saved_tensors)(list(upstreams))
        return (None, *[None] * record.handed, *gradients, *[None] * record.residuals)

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        """Push forward by the rule's own jvp or by the transpose of its pullback."""
        record, forward_mode = ctx.record, private.forward_mode_on()
        if forward_mode is None:
            raise without_nesting(record.pullback.rule)
        given = list(tangents[record.handed : record.handed + record.inputs])
        with autocasting(record.autocast), forward_mode:
            saved = [private.without_tangent(tensor) for tensor in ctx.saved_tensors]
            return tuple(torch_forward.push(record.filled(saved), given, record.devices))


class TransformedCall(torch.autograd.Function):
    """The same for torch.func, which wants forward and context apart; that takes torch ten times as long."""

    generate_vmap_rule = True

    @staticmethod
    def forward(record: Record, *tensors: Any) -> Any:
        """Give the outputs that were handed in."""
        return tuple(t.clone() for t in tensors[: record.handed])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Let torch save what the rule's grad has captured."""
        keep(ctx, inputs[0], inputs[1 + inputs[0].handed :], output)

    backward = staticmethod(Call.backward)
    jvp = staticmethod(Call.jvp)


def record(rule: Rule, bound: Bound, outputs: Outputs, grad: Any, reads: list[Any]) -> Any:
    """Put a call on torch's record and give its output."""
    pullback = Pullback.of(rule, bound, outputs, grad, reads, seam)
    made = [outputs.leaves[i] for i in outputs.tensors]
    outputs.forget()
    if not made:
        return outputs.rebuild([])
    if torch.jit.is_tracing() or torch.compiler.is_exporting():
        raise without_python(rule)
    inputs = [*bound.tensors(), *pullback.variables]
    call = Record(pullback, made, inputs, cells_of(rule.pair))
    results = call.apply([t.detach() for t in made])
    torch_reads.made_by_rule(list(results))
    return outputs.rebuild(list(results))


def without_python(rule: Rule) -> ModeError:
    """Refuse torch.jit.trace and torch.export: what they write down holds no gradient that is written in Python."""
    what = "torch.jit.trace" if torch.jit.is_tracing() else "torch.export"
    return ModeError(
        compose(
            rule.name,
            rule.where,
            f"{what} cannot keep the gradient of a rule",
            f"for inference only: with torch.no_grad(): {what}(...)",
        )
    )


def without_nesting(rule: Rule) -> ModeError:
    """Refuse forward mode under torch.func where its nesting cannot be kept right."""
    return ModeError(
        compose(
            rule.name,
            rule.where,
            "this version of torch lets no rule take part in nested forward mode of torch.func",
            "use reverse mode (torch.func.grad, jacrev), or torch.autograd.forward_ad",
        )
    )
