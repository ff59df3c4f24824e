"""A linear map whose transpose is the user's pullback: the one primitive that a rule needs in JAX.

Reverse mode only transposes it, so the pushforward is worked out when forward mode really asks for it: by the rule's
own jvp, or as the transpose of the pullback where JAX finds that linear. Elsewhere it is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

Values = list[Any]


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear map from tangents to tangents, with residuals.

    Attributes:
        push: (residuals, tangents) to the tangents of the outputs.
        pull: (residuals, cotangents of the outputs) to the cotangents of the tangents.
        outputs: shape and dtype of what push gives.
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
    return [jax.core.ShapedArray(o.shape, o.dtype) for o in linear.outputs]


def derive(primals: Any, tangents: Any, *, linear: Linear) -> tuple[Values, Values]:
    """Derive a push: linear in its tangents; in its residuals, whatever its own code says."""
    residuals, pushed = linear.split(primals)
    moved, tangents = linear.split(tangents)
    made = linear(residuals, pushed)
    terms = [zeros(made)]
    if any(type(t) is not ad.Zero for t in tangents):
        terms.append(linear(residuals, [whole(t, p) for t, p in zip(tangents, pushed, strict=True)]))
    live = [i for i, t in enumerate(moved) if type(t) is not ad.Zero]
    if live:

        def of_live(*values: Any) -> Values:
            given = list(residuals)
            for i, value in zip(live, values, strict=True):
                given[i] = value
            return list(linear.push(given, pushed))

        terms.append(jax.jvp(of_live, tuple(residuals[i] for i in live), tuple(moved[i] for i in live))[1])
    return made, [sum(parts[1:], parts[0]) for parts in zip(*(terms[1:] or terms), strict=True)]


def zeros(like: Values) -> Values:
    """Zeros of these shapes."""
    return [jnp.zeros(v.shape, v.dtype) for v in like]


def whole(tangent: Any, primal: Any) -> Any:
    """A tangent as an array, zeros where there is none."""
    return jnp.zeros(primal.shape, primal.dtype) if type(tangent) is ad.Zero else tangent


def transpose(cotangents: Any, *operands: Any, linear: Linear) -> Values:
    """Pull back by the user's rule."""
    residuals, tangents = linear.split(operands)
    given = [whole(c, o) for c, o in zip(cotangents, linear.outputs, strict=True)]
    made = linear.pull(residuals, given)
    asked = [ad.is_undefined_primal(t) for t in tangents]
    return [None] * len(residuals) + [m if ask else None for m, ask in zip(made, asked, strict=True)]


def batch(operands: Any, dims: Any, *, linear: Linear) -> tuple[Values, Any]:
    """The map of a whole batch: push and pull over the examples, batch axis first."""
    residuals, tangents = linear.split(operands)
    axes, others = linear.split(dims)
    size = next(v.shape[d] for v, d in zip(operands, dims, strict=True) if d is not None)
    tangents = [batching.bdim_at_front(t, d, size) for t, d in zip(tangents, others, strict=True)]

    def over(function: Callable[[Values, Values], Values]) -> Callable[[Values, Values], Values]:
        return lambda residuals, values: jax.vmap(function, (list(axes), 0), axis_size=size)(residuals, values)

    outputs = tuple(jax.ShapeDtypeStruct((size, *o.shape), o.dtype) for o in linear.outputs)
    made = Linear(over(linear.push), over(linear.pull), outputs, linear.residuals)(residuals, tangents)
    return made, [0] * len(made)


ad.primitive_jvps[push_p] = derive
ad.primitive_transposes[push_p] = transpose
batching.primitive_batchers[push_p] = batch
mlir.register_lowering(push_p, mlir.lower_fun(run, multiple_results=True))
