"""The primitive that stands for a call of a rule.

JAX's own custom_jvp is dropped where a scan is differentiated a second time by something else, and the derivative of
the forward silently takes the place of the rule's. A primitive is kept.
"""

from __future__ import annotations

from typing import Any, Protocol

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

Values = list[Any]


class Derivable(Protocol):
    """Something with an output, and with tangents of it."""

    def primal(self, operands: Values) -> Values:
        """The outputs."""
        ...

    def derive(self, operands: Values, tangents: Values) -> tuple[Values, Values]:
        """The outputs and their tangents; `absent` tangents are no part of the differentiation."""
        ...


class Entry:
    """A derivable thing as the parameter of the primitive; its program is traced when it is first staged."""

    def __init__(self, what: Derivable):
        self.what = what
        self.program: ClosedJaxpr | None = None

    def staged(self, types: Any) -> ClosedJaxpr:
        """The program of the outputs, for operands of these types."""
        if self.program is None:
            self.program = jax.make_jaxpr(lambda *operands: self.what.primal(list(operands)))(*types)
            if any(isinstance(value, jax.core.Tracer) for value in self.program.consts):
                raise jax.errors.UnexpectedTracerError("a traced value that is no operand")
        return self.program


def absent(tangent: Any) -> bool:
    """Whether JAX says that an operand is not being differentiated."""
    return isinstance(tangent, ad.Zero) or getattr(tangent, "dtype", None) == jax.dtypes.float0


rule_p = Primitive("gradwright_rule")
rule_p.multiple_results = True


def call(what: Derivable, operands: Values) -> Values:
    """Give the outputs of a derivable thing, under whatever transforms are at work."""
    return rule_p.bind(*operands, entry=Entry(what))


@rule_p.def_impl
def run(*operands: Any, entry: Entry) -> Values:
    """Compute the outputs now."""
    return list(entry.what.primal(list(operands)))


@rule_p.def_abstract_eval
def shapes(*avals: Any, entry: Entry) -> Any:
    """What comes out, without computing it."""
    return entry.staged(avals).out_avals


def staged(*operands: Any, entry: Entry) -> Values:
    """The program of the outputs, as a compiler wants it."""
    return jaxpr_as_fun(entry.staged([jax.typeof(operand) for operand in operands]))(*operands)


def derive(primals: Any, tangents: Any, *, entry: Entry) -> tuple[Values, Values]:
    """Outputs and tangents."""
    made, pushed = entry.what.derive(list(primals), list(tangents))
    return made, [no_tangent(m) if absent(t) else t for m, t in zip(made, pushed, strict=True)]


def no_tangent(value: Any) -> Any:
    """The tangent of what cannot have one."""
    return ad.Zero(jax.typeof(value).to_tangent_aval())


class Batched:
    """A derivable thing over a batch of examples."""

    def __init__(self, what: Derivable, axes: Values, over: dict[str, Any]):
        self.what, self.axes, self.over = what, axes, over

    def primal(self, operands: Values) -> Values:
        """The outputs of every example, batch axis first."""
        return list(jax.vmap(lambda *o: self.what.primal(list(o)), tuple(self.axes), **self.over)(*operands))

    def derive(self, operands: Values, tangents: Values) -> tuple[Values, Values]:
        """Outputs and tangents of every example."""
        live = [i for i, t in enumerate(tangents) if not absent(t)]
        nothing: Values = []

        def one(operands: Values, moving: Values) -> tuple[Values, Values]:
            full: Values = [np.zeros(np.shape(o), jax.dtypes.float0) for o in operands]
            for i, tangent in zip(live, moving, strict=True):
                full[i] = tangent
            made, pushed = self.what.derive(operands, full)
            nothing[:] = [absent(t) for t in pushed]
            return made, [t for t in pushed if not absent(t)]

        both = jax.vmap(one, (list(self.axes), [self.axes[i] for i in live]), **self.over)
        made, pushed = both(operands, [tangents[i] for i in live])
        rest = iter(pushed)
        flags = zip(made, nothing, strict=True)
        return made, [np.zeros(np.shape(m), jax.dtypes.float0) if none else next(rest) for m, none in flags]


def batch(axis: Any, operands: Any, dims: Any, *, entry: Entry) -> tuple[Values, Values]:
    """A call over a batch is a call of the batched thing."""
    over = mapped(axis)
    if "axis_name" not in over and all(d is None for d in dims):
        made = rule_p.bind(*operands, entry=entry)
        return made, [None] * len(made)
    made = call(Batched(entry.what, list(dims), over), list(operands))
    return made, [0] * len(made)


def mapped(axis: Any) -> dict[str, Any]:
    """The mapped axis as `jax.vmap` wants it said: its size, and its name where it has one."""
    named = isinstance(axis.name, str)
    return {"axis_size": axis.size, **({"axis_name": axis.name} if named else {})}


ad.primitive_jvps[rule_p] = derive
batching.fancy_primitive_batchers[rule_p] = batch
mlir.register_lowering(rule_p, mlir.lower_fun(staged, multiple_results=True))
