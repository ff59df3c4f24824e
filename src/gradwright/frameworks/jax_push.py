"""A linear map whose transpose is the user's pullback: the one primitive that a rule needs in JAX.

Reverse mode only transposes it, so the pushforward is worked out when forward mode really asks for it: by the rule's
own jvp, or as the transpose of the pullback where JAX finds that linear. Elsewhere it is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from gradwright.frameworks.jax_rule import mapped

Values = list[Any]


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear map from tangents to tangents, with residuals.

    Attributes:
        push: (residuals, tangents) to the tangents of the outputs.
        pull: (residuals, cotangents of the outputs) to the cotangents of the tangents; None for zero.
        outputs: the types of what push gives.
        residuals: how many of the operands are residuals.
    """

    push: Callable[[Values, Values], Values]
    pull: Callable[[Values, Values], Values]
    outputs: tuple[Any, ...]
    residuals: int

    def __call__(self, residuals: Values, tangents: Values) -> Values:
        """Apply the map; how, is decided by what JAX does with it."""
        return push_p.bind(*residuals, *tangents, linear=self)

    def split(self, operands: Any) -> tuple[Values, Values]:
        """Residuals and tangents among the operands."""
        operands = list(operands)
        return operands[: self.residuals], operands[self.residuals :]


push_p = Primitive("gradwright_push")
push_p.multiple_results = True


@push_p.def_impl
def run(*operands: Any, linear: Linear) -> Values:
    """Push tangents forward for good."""
    return list(linear.push(*linear.split(operands)))


@push_p.def_abstract_eval
def shapes(*_: Any, linear: Linear) -> Any:
    """What comes out, without computing it."""
    return list(linear.outputs)


def derive(primals: Any, tangents: Any, *, linear: Linear) -> tuple[Values, Values]:
    """Derive a push: linear in its tangents; in its residuals, whatever its own code says."""
    residuals, pushed = linear.split(primals)
    moved, tangents = linear.split(tangents)
    made, terms = linear(residuals, pushed), []
    if any(type(t) is not ad.Zero for t in tangents):
        terms.append(linear(residuals, [ad.instantiate_zeros(t) for t in tangents]))
    live = [i for i, t in enumerate(moved) if type(t) is not ad.Zero]
    if live:

        def of_live(*values: Any) -> Values:
            given = list(residuals)
            for i, value in zip(live, values, strict=True):
                given[i] = value
            return list(linear.push(given, pushed))

        terms.append(jax.jvp(of_live, tuple(residuals[i] for i in live), tuple(moved[i] for i in live))[1])
    if not terms:
        return made, [ad.Zero(o) for o in linear.outputs]
    return made, [sum(parts[1:], parts[0]) for parts in zip(*terms, strict=True)]


def transpose(cotangents: Any, *operands: Any, linear: Linear) -> Values:
    """Pull back by the user's rule."""
    residuals, tangents = linear.split(operands)
    made = linear.pull(residuals, [ad.instantiate_zeros(c) for c in cotangents])
    pairs = zip(made, tangents, strict=True)
    return [None] * len(residuals) + [answer(m, t) if ad.is_undefined_primal(t) else None for m, t in pairs]


def answer(gradient: Any, place: Any) -> Any:
    """A cotangent for an operand, zero where the rule gives none."""
    return ad.Zero(place.aval) if gradient is None else gradient


def batch(axis: Any, operands: Any, dims: Any, *, linear: Linear) -> tuple[Values, Any]:
    """The map of a whole batch: push and pull over the examples, batch axis first."""
    if "axis_name" not in mapped(axis) and all(d is None for d in dims):
        made = push_p.bind(*operands, linear=linear)
        return made, [None] * len(made)
    residuals, tangents = linear.split(operands)
    axes, others = linear.split(dims)
    tangents = [batching.bdim_at_front(t, d, axis.size) for t, d in zip(tangents, others, strict=True)]

    def over(function: Callable[[Values, Values], Values]) -> Callable[[Values, Values], Values]:
        return lambda residuals, values: jax.vmap(function, (list(axes), 0), **mapped(axis))(residuals, values)

    outputs = tuple(o.update(shape=(axis.size, *o.shape)) for o in linear.outputs)
    made = Linear(over(linear.push), over(linear.pull), outputs, linear.residuals)(residuals, tangents)
    return made, [0] * len(made)


ad.primitive_jvps[push_p] = derive
ad.primitive_transposes[push_p] = transpose
batching.fancy_primitive_batchers[push_p] = batch
mlir.register_lowering(push_p, mlir.lower_fun(run, multiple_results=True))
