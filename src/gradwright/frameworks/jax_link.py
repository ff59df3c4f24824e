"""The link between a call's outputs and its inputs, as JAX differentiates it.

A link hands outputs through. Its derivative is the rule, with the outputs that come out of the link itself in place
of those that grad has captured; so it stays itself however often it is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from gradwright import events
from gradwright.errors import Fault, GradwrightError
from gradwright.frameworks import jax_rule
from gradwright.frameworks.forward import nonlinear, own_jvp, pushed_by
from gradwright.frameworks.jax import Tracer, as_array
from gradwright.frameworks.jax_push import Linear
from gradwright.pullback import Pullback, Pulled
from gradwright.space import Space

Values = list[Any]


class Traced:
    """A function traced once; every value it had captured is among its constants, and can be another one."""

    def __init__(self, function: Callable[..., Values], types: Values):
        self.given: list[bool] = []

        def those_given(*arguments: Any) -> Values:
            made = function(*arguments)
            self.given = [m is not None for m in made]
            return [m for m in made if m is not None]

        closed = jax.make_jaxpr(those_given)(*types)
        self.jaxpr, self.constants = closed.jaxpr, list(closed.consts)

    def __call__(self, constants: Values, arguments: Values) -> Values:
        """Run it with these constants; what it gave as None is None again."""
        made = iter(jaxpr_as_fun(ClosedJaxpr(self.jaxpr, constants))(*arguments))
        return [next(made) if given else None for given in self.given]


class Link:
    """A call's pullback, prepared: what it keeps, how it pulls, how it pushes.

    Attributes:
        outputs: the outputs as the forward made them; later, nothing.
        residuals: what grad captured, apart from outputs.
        pull: (outputs, residuals, upstreams of the float outputs) to one gradient per taker.
        push: (outputs, residuals, one tangent per tensor argument) to tangents of the float outputs; or None.
    """

    def __init__(self, pullback: Pullback, outputs: Values, takers: list[int]):
        self.rule, self.spaces = pullback.rule, pullback.output_spaces
        self.live = [i for i, space in enumerate(self.spaces) if space.kind != "none"]
        self.arguments, self.takers = pullback.spaces, takers
        self.outputs, self.residuals = outputs, []
        self.pull = lambda outs, kept, ups: pulled(pullback, self.full(ups), takers)
        own = own_jvp(pullback)
        self.push = None if own is None else lambda outs, kept, ts: pushed(pullback, own, ts)
        self.traced, self.counts = False, (len(outputs), 0)

    @classmethod
    def of(cls, pullback: Pullback, outputs: Values, takers: list[int], operands: Values) -> Link:
        """Prepare a pullback. Where all is concrete it is kept as it is; where not, grad is traced once."""
        link = cls(pullback, outputs, takers)
        if any(isinstance(value, Tracer) for value in [*operands, *outputs]):
            link.trace()
        return link

    def full(self, upstreams: Values) -> Values:
        """One upstream per output, None for those that are no floats."""
        given = dict(zip(self.live, upstreams, strict=True))
        return [given.get(i) for i in range(len(self.spaces))]

    def trace(self) -> None:
        """Trace grad, and the rule's own jvp, into functions of what they have captured."""
        self.traced = True
        pull, push = self.pull, self.push
        ups = [jax.typeof(self.outputs[i]) for i in self.live]
        self.pull = self.opened(Traced(lambda *u: pull([], [], list(u)), ups))
        if push is None:
            return
        ts = [shape_of(space) for space in self.arguments if space.kind != "none"]
        try:
            self.push = self.opened(Traced(lambda *t: push([], [], list(t)), ts))
        except Exception as error:
            self.push = raising(error)  # it matters only where forward mode is used

    def opened(self, traced: Traced) -> Callable[[Values, Values, Values], Values]:
        """A traced function of (outputs, residuals, arguments); its constants join the residuals."""
        behind = {id(output): i for i, output in enumerate(self.outputs)}
        places = []
        for constant in traced.constants:
            if id(constant) in behind:
                places.append((True, behind[id(constant)]))
            else:
                places.append((False, len(self.residuals)))
                self.residuals.append(constant)
        traced.constants = []
        return lambda outs, kept, values: traced([outs[i] if out else kept[i] for out, i in places], values)

    def __call__(self, primals: Values, tangents: Values) -> tuple[Values, Values]:
        """The outputs behind the link, and their tangents."""
        outputs, self.outputs = self.outputs, []
        if not self.traced:
            return outputs, self.tangents(outputs, [], tangents)
        kept, self.residuals = self.residuals, []
        self.counts = (len(outputs), len(primals))
        return self.derive([*outputs, *primals, *kept], [*outputs, *tangents])

    def primal(self, operands: Values) -> Values:
        """Hand the outputs through."""
        return operands[: self.counts[0]]

    def derive(self, operands: Values, tangents: Values) -> tuple[Values, Values]:
        """Derive as the call does, with the outputs that come out of the link."""
        outs, ins = self.counts
        made = jax_rule.call(self, operands)
        return made, self.tangents(made, operands[outs + ins :], tangents[outs : outs + ins])

    def tangents(self, outputs: Values, kept: Values, tangents: Values) -> Values:
        """The tangents of the outputs, as a linear map of those tangents that there are."""
        moved = [i for i, t in enumerate(tangents) if not jax_rule.absent(t)]
        whole = len(outputs)

        def pull(residuals: Values, cotangents: Values) -> Values:
            gradients = self.pull(residuals[:whole], residuals[whole:], cotangents)
            return [gradients[i] for i in moved]

        def push(residuals: Values, given: Values) -> Values:
            if self.push is not None:
                return self.push(residuals[:whole], residuals[whole:], self.spread(moved, given))
            return self.transposed(lambda *ups: pull(residuals, list(ups)), types, given)

        types = tuple(jax.typeof(outputs[i]).to_tangent_aval() for i in self.live)
        linear = Linear(push, pull, types, whole + len(kept))
        made = linear([*outputs, *kept], [tangents[i] for i in moved]) if moved and types else zeros(types)
        return [
            np.zeros(space.shape, jax.dtypes.float0) if t is None else t
            for t, space in zip(self.full(made), self.spaces, strict=True)
        ]

    def spread(self, moved: list[int], given: Values) -> Values:
        """One tangent per float argument, zeros where there is none."""
        at = {self.takers[i]: t for i, t in zip(moved, given, strict=True)}
        floats = [(i, space) for i, space in enumerate(self.arguments) if space.kind != "none"]
        return [at[i] if i in at else jnp.zeros(space.shape, space.dtype) for i, space in floats]

    def transposed(self, pull: Callable[..., Values], types: Any, tangents: Values) -> Values:
        """Transpose the pullback, if JAX finds it linear."""
        given = [gradient is not None for gradient in jax.eval_shape(pull, *types)]
        met = tuple(t for t, is_given in zip(tangents, given, strict=True) if is_given)
        if not met:
            return zeros(types)
        try:
            back = jax.linear_transpose(lambda *ups: tuple(g for g in pull(*ups) if g is not None), *types)
            return list(back(met))
        except GradwrightError:
            raise
        except Exception as error:
            reason = str(error).strip().split("\n")[0] or "it computes with products or conditions of upstreams"
            raise nonlinear(self.rule, reason) from None


def pulled(pullback: Pullback, upstreams: Values, takers: list[int]) -> Values:
    """One gradient per taker, None where there is none."""
    result = pullback.pull(upstreams)
    tell(pullback, upstreams, result)
    gradients = result.gradients + result.variable_gradients
    return [gradients[i] for i in takers]


def tell(pullback: Pullback, upstreams: Values, result: Pulled) -> None:
    """Tell whoever watches, with values: at once where they are known, else from inside the program."""
    if not events.listeners:
        return
    values = [upstreams, result.gradients, result.variable_gradients]

    def told(upstreams: Values, gradients: Values, others: Values) -> None:
        for listener in events.listeners:
            listener.watch(pullback, upstreams, Pulled(result.raw, gradients, others, result.repairs, result.matched))

    if any(isinstance(value, Tracer) for value in jax.tree.leaves(values)):
        jax.debug.callback(told, *values)
    else:
        told(*values)


def pushed(pullback: Pullback, own: Callable[..., Any], tangents: Values) -> Values:
    """Push tangents by the rule's own jvp."""
    from gradwright.frameworks.jax import seam

    given = iter(tangents)
    full = [next(given) if space.kind != "none" else None for space in pullback.spaces]
    try:
        made = pushed_by(own, pullback, full, seam)
    except Fault as fault:
        raise pullback.rule.refuse(fault) from None
    pairs = [(t, space) for t, space in zip(made, pullback.output_spaces, strict=True) if space.kind != "none"]
    return [into(t, space) for t, space in pairs]


def into(tangent: Any, space: Space) -> Any:
    """A tangent of the output's dtype and shape."""
    if tangent is None:
        return jnp.zeros(space.shape, space.dtype)
    return jnp.broadcast_to(as_array(tangent, space).astype(space.dtype), space.shape)


def shape_of(space: Space) -> Any:
    """A space as JAX writes it."""
    return jax.ShapeDtypeStruct(space.shape, space.dtype)


def zeros(shapes: Any) -> Values:
    """Zeros of these shapes."""
    return [jnp.zeros(s.shape, s.dtype) for s in shapes]


def raising(error: Exception) -> Callable[..., Any]:
    """A function that raises an error which was met earlier."""

    def raise_it(*_: Any) -> Any:
        raise error

    return raise_it
