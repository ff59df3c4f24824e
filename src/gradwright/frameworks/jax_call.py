"""A call of a rule in JAX: a primitive, whose tangents go through a linear map that is transposed by the rule.

One construct serves reverse mode, forward mode and every nesting of the two. What the function has captured from
outer transforms is lifted into operands first; what grad has captured becomes residuals; the output that grad sees is
the one behind the rule, so that derivatives of the derivative follow it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradwright import tree
from gradwright.errors import VariablesError, compose
from gradwright.frameworks import jax_rule
from gradwright.frameworks.closures import Walk, names_read
from gradwright.frameworks.jax import Jax, Tracer, seam
from gradwright.frameworks.jax_link import Link
from gradwright.outputs import Outputs
from gradwright.pullback import Pullback
from gradwright.rule import Rule
from gradwright.signature import Bound, Signature
from gradwright.space import kind_of


def parts_of_pytree(value: Any) -> Any:
    """Take an object apart that JAX knows as a structure (a module of Equinox or Flax, say)."""
    leaves, spec = jax.tree.flatten_with_path(value)
    if len(leaves) == 1 and not leaves[0][0]:
        return None
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves], lambda new: jax.tree.unflatten(spec, new)


ARRAYS = Walk(lambda value: isinstance(value, jax.Array), parts_of_pytree)
TRACERS = Walk(lambda value: isinstance(value, Tracer), parts_of_pytree)


@dataclass(frozen=True)
class Captured:
    """What a function has captured: every array by name, those its forward reads, those that are being traced."""

    names: dict[int, str]
    reads: list[Any]
    traced: list[Any]


def captured(function: Callable[..., Any]) -> Captured:
    """Look into a function's closure, and at the globals its forward names."""
    found = [(name, value) for name, value in ARRAYS.find(function)]
    inner = getattr(function, "__func__", function)
    reads = list(read_by(inner)) if isinstance(inner, types.FunctionType) else found
    if inner is not function:
        reads += ARRAYS.find(getattr(function, "__self__", None), "self")
    names = {id(value): name for name, value in [*reads, *found]}
    floats = [value for _, value in reads if kind_of(str(value.dtype)) != "none"]
    return Captured(names, floats, [value for _, value in found if isinstance(value, Tracer)])


def read_by(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The arrays that a function's own lines read, in order; those that only grad uses are none of the forward's."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    seen: set[int] = set()
    for name in names_read(function.__code__):
        value = cells[name].cell_contents if name in cells else function.__globals__.get(name)
        if name in cells or isinstance(value, jax.Array | dict | list | tuple):
            yield from ARRAYS.find(value, name, seen)


class Seam(Jax):
    """The seam of one call: it knows which captured arrays are being differentiated, and their names."""

    def __init__(self, names: dict[int, str], live: set[int]):
        self.names, self.live = names, live

    def is_trainable(self, variable: Any) -> bool:
        """Whether a captured array is being differentiated."""
        return id(variable) in self.live

    def variable_name(self, variable: Any) -> str:
        """The user's own name for a captured array."""
        return self.names.get(id(variable)) or super().variable_name(variable)


def general(rule: Rule, bound: Bound) -> Any:
    """Call a rule; where nothing is being traced, that is only its forward."""
    known = captured(rule.pair)
    operands = [*bound.tensors(), *known.traced]
    if not any(isinstance(operand, Tracer) for operand in operands):
        output = rule.unpack(rule.pair(*bound.args, **bound.kwargs))[0]
        outputs = Outputs(output, seam)
        if not any(isinstance(leaf, Tracer) for leaf in outputs.leaves):
            return outputs.rebuild([outputs.leaves[i] for i in outputs.tensors])
    call = Call(rule, bound, known)
    try:
        flat = jax_rule.call(call, operands)
    except jax.errors.UnexpectedTracerError as error:
        raise hidden(rule) from error
    assert call.outputs is not None
    return call.outputs.rebuild(list(flat))


def hidden(rule: Rule) -> VariablesError:
    """Refuse a traced value that the rule reads from a place where it cannot be found."""
    return VariablesError(
        compose(
            rule.name,
            rule.where,
            "the forward reads a value that JAX is tracing or differentiating, and that is neither an argument nor "
            "in the function's own closure",
            "pass it as an argument",
        )
    )


class Call:
    """One call, as often as JAX runs it: for its output alone, or with derivatives."""

    def __init__(self, rule: Rule, bound: Bound, known: Captured):
        self.rule, self.bound, self.known = rule, bound, known
        self.count = len(bound.tensors())
        self.outputs: Outputs | None = None

    def run(self, operands: Any) -> tuple[Outputs, list[Any], Callable[..., Any]]:
        """Run the user's function on these operands: structure of the output, its arrays, and grad."""
        given = list(operands)
        new = {id(old): value for old, value in zip(self.known.traced, given[self.count :], strict=True)}
        pair = TRACERS.put(self.rule.pair, lambda old: new[id(old)]) if new else self.rule.pair
        args, kwargs = refilled(self.rule.signature, self.bound, given[: self.count])
        output, grad = self.rule.unpack(pair(*args, **kwargs))
        outputs = Outputs(output, seam)
        made = [outputs.leaves[i] for i in outputs.tensors]
        outputs.forget()
        self.outputs = outputs
        return outputs, made, grad

    def primal(self, operands: list[Any]) -> list[Any]:
        """The output alone."""
        return self.run(arrays(operands))[1]

    def derive(self, primals: list[Any], tangents: list[Any]) -> tuple[list[Any], list[Any]]:
        """The output and its tangents, by the rule."""
        primals = arrays(primals)
        outputs, made, grad = self.run(primals)
        live = {id(p) for p, t in zip(primals, tangents, strict=True) if not jax_rule.absent(t)}
        pullback = self.pullback(primals, outputs, made, grad, live)
        places = {id(v): self.count + k for k, v in enumerate(pullback.variables)}
        takers = [(i, i) for i in range(self.count)]
        takers += [(places[id(p)], i) for i, p in enumerate(primals) if i >= self.count and id(p) in places]
        takers = [(place, i) for place, i in takers if kind_of(str(primals[i].dtype)) != "none"]
        link = Link.of(pullback, made, [place for place, _ in takers], primals)
        return link([primals[i] for _, i in takers], [tangents[i] for _, i in takers])

    def pullback(self, primals: Any, outputs: Outputs, made: list[Any], grad: Any, live: set[int]) -> Pullback:
        """The pullback of this run; captured arrays that are being differentiated are its variables."""
        new = {id(old): value for old, value in zip(self.known.traced, primals[self.count :], strict=True)}
        reads = [new.get(id(read), read) for read in self.known.reads]
        names = {id(new.get(id(v), v)): self.known.names[id(v)] for v in self.known.reads}
        outputs.leaves = [None] * len(outputs.statics)
        for i, value in zip(outputs.tensors, made, strict=True):
            outputs.leaves[i] = value
        own = Pullback.of(self.rule, self.bound, outputs, grad, reads, Seam(names, live))
        outputs.forget()
        return own


def arrays(operands: list[Any]) -> list[Any]:
    """Operands as arrays: JAX hands numbers on as its own kind of float, which is none."""
    return [o if isinstance(o, jax.Array) else jnp.asarray(o, getattr(o, "dtype", None)) for o in operands]


def refilled(signature: Signature, bound: Bound, tensors: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call with other tensors in its places."""
    given = iter(tensors)
    values = iter([with_tensors(slot, given) for slot in bound.slots])
    call = signature.python.bind(*bound.args, **bound.kwargs)
    call.apply_defaults()
    for name, parameter in signature.python.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            call.arguments[name] = tuple(next(values) for _ in call.arguments[name])
        elif parameter.kind is parameter.VAR_KEYWORD:
            call.arguments[name] = {key: next(values) for key in call.arguments[name]}
        else:
            call.arguments[name] = next(values)
    return call.args, call.kwargs


def with_tensors(slot: Any, given: Any) -> Any:
    """The value of one argument with the next tensors in it."""
    if not slot.is_tensor:
        return slot.value
    leaves = list(slot.leaves)
    for i in slot.tensors:
        leaves[i] = next(given)
    return leaves[0] if slot.spec is None else tree.unflatten(slot.spec, leaves)


def native(function: Callable[..., Any], args: Any, kwargs: Any, variables: list[Any], upstreams: list[Any]) -> Any:
    """JAX's own gradient of the forward by captured arrays."""
    index = {id(v): i for i, v in enumerate(variables)}
    walk = Walk(lambda value: id(value) in index, parts_of_pytree)

    def forward(*values: Any) -> list[Any]:
        output = walk.put(function, lambda old: values[index[id(old)]])(*args, **kwargs)[0]
        return [leaf for leaf in jax.tree.leaves(output) if jnp.issubdtype(jnp.result_type(leaf), np.inexact)]

    return list(jax.vjp(forward, *variables)[1](upstreams))
