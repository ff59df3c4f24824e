"""The pullback that a call of a rule leaves behind: upstreams in, fitting gradients out."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from gradwright import events
from gradwright.captured import split, takes_variables
from gradwright.errors import Fault, GradientCountError
from gradwright.fit import AtRunTime
from gradwright.matching import listed, match
from gradwright.outputs import Outputs
from gradwright.signature import Bound, Slot
from gradwright.space import Space

if TYPE_CHECKING:
    from gradwright.rule import Rule


class Fitted(NamedTuple):
    """A gradient that fits, and what was repaired on the way."""

    gradient: Any
    repairs: tuple[str, ...] = ()


@dataclass(slots=True)
class Pulled:
    """One backward of an open call; `matched` holds the gradients in order before they were made to fit."""

    raw: Any
    gradients: list[Any]
    variable_gradients: list[Any]
    repairs: list[tuple[str, str]]
    matched: list[Any] = field(default_factory=list)


def refuse_arity(grad: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Say how many upstreams there are, if grad cannot take them; another error is the user's own."""
    try:
        inspect.signature(grad).bind(*args, **kwargs)
    except ValueError:
        return
    except TypeError as error:
        count = len(args) + len([key for key in kwargs if key != "variables"])
        names = ", ".join(f"up_{i}" for i in range(count)) if count > 1 else "upstream"
        fact = f"grad gets {count} upstream{'s' * (count != 1)}, one for each output, and cannot take them: {error}"
        raise Fault(GradientCountError, fact, f"def grad({names}): ...") from None


class _Pulling(threading.local):
    depth = 0


_pulling = _Pulling()


def inside_a_pullback() -> bool:
    """Whether the gradient of some rule is being computed on this thread."""
    return _pulling.depth > 0


class Pullback:
    """What a call leaves behind: upstreams in, one fitting gradient per tensor argument and captured variable out.

    It holds facts about the inputs, the structure of the output, and the user's grad; no tensor of its own.
    """

    __slots__ = (
        "dynamic_shape", "grad", "optional", "output_spaces", "outputs", "reads", "restrictions", "rule", "seam",
        "slots", "spaces", "takes", "variable_spaces", "variables",
    )  # fmt: skip

    def __init__(
        self,
        rule: Rule,
        slots: list[Slot],
        spaces: list[Space],
        outputs: Outputs,
        output_spaces: list[Space],
        grad: Callable[..., Any],
        seam: Any,
        reads: Sequence[Any] = (),
    ):
        self.rule, self.slots, self.spaces, self.seam = rule, slots, spaces, seam
        self.outputs, self.output_spaces, self.grad = outputs, output_spaces, grad
        self.reads = list(reads)
        self.variables = [v for v in self.reads if seam.is_trainable(v)]
        self.variable_spaces: list[Space] = [seam.space(v) for v in self.variables]
        self.takes = bool(self.variables) and takes_variables(grad)
        # The variables that the forward itself made: they may be answered for, and need not be.
        self.optional: frozenset[int] = frozenset()
        self.dynamic_shape: Callable[[int], Any] | None = None
        self.restrictions: dict[int, Callable[[Any], Any]] = {}

    @classmethod
    def of(cls, rule: Rule, bound: Bound, outputs: Outputs, grad: Any, reads: list[Any], seam: Any) -> Pullback:
        """The pullback of a call that has just run."""
        tensors = bound.tensors()
        made = cls(
            rule,
            [slot.skeleton() for slot in bound.slots],
            [seam.space(tensor) for tensor in tensors],
            outputs,
            [seam.space(outputs.leaves[i]) for i in outputs.tensors],
            grad,
            seam,
            seam.not_among(reads, tensors),
        )
        made.optional = getattr(reads, "young", frozenset())
        if hasattr(seam, "restrictions"):
            made.restrictions = seam.restrictions(tensors)
        return made

    def names(self) -> list[str]:
        """The path of each tensor argument, then the name of each captured variable."""
        own = [name for slot in self.slots for name in slot.names()]
        return own + [self.seam.variable_name(v) for v in self.variables]

    def __call__(self, upstreams: list[Any]) -> list[Any]:
        """Pull upstreams back; every gradient fits its input."""
        pulled = self.pull(upstreams)
        if events.watched():
            for listener in events.listeners:
                listener.watch(self, upstreams, pulled)
        return pulled.gradients + pulled.variable_gradients

    def pull(self, upstreams: list[Any], fit: bool = True) -> Pulled:
        """Pull upstreams back, and keep what the user's grad returned and what was repaired."""
        try:
            raw = self.returned(upstreams)
        except Fault as fault:
            raise self.rule.refuse(fault) from None
        return self.settle(raw, fit)

    def settle(self, raw: Any, fit: bool = True) -> Pulled:
        """Make gradients of what the user's grad returned: split, matched, fitted."""
        try:
            matched, answered = self.matched(raw)
            if not fit:
                return Pulled(raw, matched, answered, [])
            return self.fitted(raw, matched + answered, len(matched))
        except Fault as fault:
            raise self.rule.refuse(fault) from None

    def returned(self, upstreams: list[Any]) -> Any:
        """Call the user's grad on dense upstreams, shaped like the output."""
        sparse = self.rule.options.sparse
        ups = [self.seam.upstream(u, s, sparse) for u, s in zip(upstreams, self.output_spaces, strict=True)]
        args, kwargs = self.outputs.spread(ups, self.grad)
        if self.takes:
            kwargs["variables"] = list(self.variables)
        _pulling.depth += 1
        try:
            return self.grad(*args, **kwargs)
        except TypeError:
            refuse_arity(self.grad, args, kwargs)
            raise
        finally:
            _pulling.depth -= 1

    def matched(self, raw: Any) -> tuple[list[Any], list[Any]]:
        """Split and order what grad returned: per tensor argument, and per captured variable."""
        inputs, answered = split(raw, self.variables, self.reads, self.seam, self.optional)
        gradients = match(inputs, self.slots, self.seam, [space.kind != "none" for space in self.spaces])
        self.refuse_nothing(gradients, answered)
        return gradients, answered

    def refuse_nothing(self, gradients: list[Any], answered: list[Any]) -> None:
        """Refuse a rule that returned no gradient at all although some input could take one."""
        if any(g is not None for g in gradients + answered):
            return
        takers = [n for n, s in zip(self.names(), self.spaces + self.variable_spaces, strict=True) if s.kind != "none"]
        if takers:
            raise Fault(
                GradientCountError,
                f"expected {len(takers)} gradient{'s' * (len(takers) != 1)}, for {listed(takers)}, "
                "but grad returned nothing (None) for everything",
                "is a `return` missing in grad? To stop the gradient on purpose, use the framework's stop_gradient",
            )

    def fitted(self, raw: Any, gradients: list[Any], inputs: int) -> Pulled:
        """Make every gradient fit its input."""
        done, repairs = [], []
        for i, (gradient, space) in enumerate(zip(gradients, self.spaces + self.variable_spaces, strict=True)):
            if i in self.restrictions:
                gradient = self.restrictions[i](gradient)
            try:
                made = self.seam.fit(gradient, space, strict=self.rule.options.strict, at=self.at_run_time(i))
            except Fault as fault:
                name = self.names()[i]
                raise Fault(fault.kind, f"the gradient of `{name}` {fault.fact}", fault.repair) from None
            done.append(made.gradient)
            if made.repairs:
                repairs.extend((self.names()[i], text) for text in made.repairs)
        return Pulled(raw, done[:inputs], done[inputs:], repairs, gradients)

    def at_run_time(self, index: int) -> AtRunTime | None:
        """How to learn the shape of an input at run time, where sizes are unknown."""
        if self.dynamic_shape is None:
            return None
        label = f"rule `{self.rule.name}` ({self.rule.where}): the gradient of `{self.names()[index]}`"
        return AtRunTime(functools.partial(self.dynamic_shape, index), label)


class OpenCall:
    """A call taken apart for provers: the forward has run, the pullback can be asked at will."""

    def __init__(self, rule: Rule, bound: Bound, seam: Any):
        self.rule, self.seam = rule, seam
        self.names, self.leaves = bound.names(), bound.tensors()
        self.output, grad, outputs, reads = seam.run(rule, bound)
        self.outputs = [outputs.leaves[i] for i in outputs.tensors]
        self._pullback = Pullback.of(rule, bound, outputs, grad, reads, seam)
        self.variables = self._pullback.variables
        self.variable_names = [seam.variable_name(v) for v in self.variables]
        self.grad = grad

    def pull(self, upstreams: list[Any], fit: bool = True) -> Pulled:
        """Pull upstreams (one per tensor of the output) back."""
        return self._pullback.pull(list(upstreams), fit)
