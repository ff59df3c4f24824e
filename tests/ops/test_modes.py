"""Every ready rule and every form of definition through the modes; expected values are written in numpy."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from tests import modes

X = np.array([[0.3, 1.0], [2.0, 0.5]], "float32")
Y = np.array([[1.5, 0.7], [-0.5, 2.0]], "float32")
INSIDE = np.array([[0.3, -0.7], [0.1, 0.5]], "float32")
UP = np.array([[1.0, -2.0], [0.5, 3.0]], "float32")

SHORT = {
    "gradients": [
        "eager", "function, tape inside", "function, tape outside", "unknown shapes, tape outside",
        "jit_compile, tape inside", "while, tape outside", "cond in while, tape inside", "jacobian",
        "vectorized_map, gradient through",
    ],
    "second": ["eager, order 2", "function, order 2, both tapes inside", "forward over reverse, eager"],
    "tangents": ["forward mode, eager", "forward mode, accumulator in function",
                 "forward mode, accumulator outside function"],
}  # fmt: skip


@dataclass
class Case:
    """A rule, inputs, and what mathematics says: slopes by input, and their derivative summed for order two."""

    name: str
    rule: Callable[..., Any]
    inputs: list[Any]
    slopes: Callable[..., tuple[Any, ...]]
    second: Callable[..., tuple[Any, ...]] | None = None
    elementwise: bool = True
    lacks: str = ""
    upstream: Any = field(default_factory=lambda: UP)
    without: tuple[str, ...] = ()
    may_refuse: bool = False


class Named:
    """A call of a rule with options, under the rule's name."""

    def __init__(self, rule: Any, call: Callable[..., Any]):
        self.name, self.call = rule.name, call

    def __call__(self, *xs: Any) -> Any:
        return self.call(*xs)


def defined() -> list[Case]:
    by_vjp = gw.rule(lambda x: x**3)
    by_vjp.defvjp(lambda x: (x**3, x), lambda x, upstream: (upstream * 3 * x**2,))
    by_jvp = gw.rule(lambda x: x**3)
    by_jvp.defjvp(lambda primals, tangents: (primals[0] ** 3, 3 * primals[0] ** 2 * tangents[0]))
    both = gw.rule(lambda x: x**3)
    both.defvjp(lambda x: (x**3, x), lambda x, upstream: (upstream * 3 * x**2,))
    both.defjvp(lambda primals, tangents: (primals[0] ** 3, 3 * primals[0] ** 2 * tangents[0]))
    cube = lambda x: (3 * x**2,)
    return [
        Case(f"rule {name}", rule, [X], cube, lambda x, u: (u * 6 * x,))
        for name, rule in (("vjp", by_vjp), ("jvp", by_jvp), ("both", both))
    ]


def ones(*xs: Any) -> tuple[Any, ...]:
    return tuple(np.ones_like(x) for x in xs)


def zeros(x: Any, u: Any) -> tuple[Any, ...]:
    return (np.zeros_like(x),)


ops = gw.ops
CASES = [
    Case("elementwise", gw.elementwise(tf.tan, lambda x, out: 1 + out**2), [X],
         lambda x: (1 / np.cos(x) ** 2,), lambda x, u: (u * 2 * np.tan(x) / np.cos(x) ** 2,)),
    Case("elementwise of two",
         gw.elementwise(lambda x, y: x * y**2, (lambda x, y: y**2, lambda x, y: 2 * x * y)), [X, Y],
         lambda x, y: (y**2, 2 * x * y), lambda x, y, u: (u * 2 * y, u * (2 * y + 2 * x))),
    *defined(),
    Case("linear", gw.linear(lambda x: 3.0 * x[..., ::-1]), [X], lambda x: (3 * np.ones_like(x),), None,
         elementwise=False, upstream=np.ones_like(X)),
    Case("sqrt", ops.sqrt, [X], lambda x: (0.5 / np.sqrt(x),), lambda x, u: (-0.25 * u * x**-1.5,)),
    Case("log", ops.log, [X], lambda x: (1 / x,), lambda x, u: (-u / x**2,)),
    Case("log1p_exp", ops.log1p_exp, [X], lambda x: (1 / (1 + np.exp(-x)),),
         lambda x, u: (u * np.exp(-x) / (1 + np.exp(-x)) ** 2,)),
    Case("log1mexp", ops.log1mexp, [X], lambda x: (1 / np.expm1(x),),
         lambda x, u: (-u * np.exp(x) / np.expm1(x) ** 2,)),
    Case("acos", ops.acos, [INSIDE], lambda x: (-1 / np.sqrt(1 - x**2),), lambda x, u: (-u * x * (1 - x**2) ** -1.5,)),
    Case("asin", ops.asin, [INSIDE], lambda x: (1 / np.sqrt(1 - x**2),), lambda x, u: (u * x * (1 - x**2) ** -1.5,)),
    Case("xlogy", ops.xlogy, [Y, X], lambda x, y: (np.log(y), x / y),
         lambda x, y, u: (u / y, u * (1 / y - x / y**2))),
    Case("pow", ops.pow, [X, Y], lambda x, y: (y * x ** (y - 1), x**y * np.log(x)),
         lambda x, y, u: (u * (y * (y - 1) * x ** (y - 2) + x ** (y - 1) * (1 + y * np.log(x))),
                          u * (x ** (y - 1) * (1 + y * np.log(x)) + x**y * np.log(x) ** 2))),
    Case("atan2", ops.atan2, [Y, X], lambda y, x: (x / (x**2 + y**2), -y / (x**2 + y**2))),
    Case("norm of rows", Named(ops.norm, lambda x: ops.norm(x, axis=-1, keepdims=True)), [X],
         lambda x: (x / np.linalg.norm(x, axis=-1, keepdims=True),), None, elementwise=False, upstream=UP[:, :1]),
    Case("std of rows", Named(ops.std, lambda x: ops.std(x, axis=-1, keepdims=True)), [X],
         lambda x: ((x - x.mean(-1, keepdims=True)) / (2 * x.std(-1, keepdims=True)),), None, elementwise=False,
         upstream=UP[:, :1]),
    Case("where", Named(ops.sqrt, lambda x: ops.where(x > 0.4, tf.sqrt, lambda x: 3.0 * x, x)), [X],
         lambda x: (np.where(x > 0.4, 0.5 / np.sqrt(x), 3.0),),
         lambda x, u: (np.where(x > 0.4, -0.25 * u * x**-1.5, 0.0),),
         without=("Keras functional model",)),  # a composition of ops, which Keras cannot draw outside of a layer
    Case("reverse", Named(ops.reverse, lambda x: ops.reverse(x, scale=0.3)), [X],
         lambda x: (-0.3 * np.ones_like(x),), zeros),
    Case("scale", Named(ops.scale, lambda x: ops.scale(x, tf.constant(0.3))), [X],
         lambda x: (0.3 * np.ones_like(x),), zeros),
    Case("mask", Named(ops.mask, lambda x: ops.mask(x, x > 0.4)), [X], lambda x: (1.0 * (x > 0.4),), zeros),
    Case("clip", Named(ops.clip, lambda x: ops.clip(x, 100.0)), [X], ones, zeros, may_refuse=True),
    Case("straight_through", ops.straight_through(tf.round), [X], ones, zeros),
    Case("straight_through of two", ops.straight_through(lambda x, y: tf.round(x + y)), [X, Y], ones),
    Case("round_ste", ops.round_ste, [X], ones, zeros),
    Case("sign_ste", Named(ops.sign_ste, lambda x: ops.sign_ste(x, clip=0.4)), [X],
         lambda x: (1.0 * (x <= 0.4),), zeros),
    Case("checkpoint", ops.checkpoint(lambda x: tf.exp(x) * x), [X], lambda x: (np.exp(x) * (1 + x),),
         lambda x, u: (u * np.exp(x) * (2 + x),)),
    Case("external", ops.external(np.sin, lambda upstream, x: upstream * np.cos(x)), [X], lambda x: (np.cos(x),), zeros,
         may_refuse=True),
]  # fmt: skip
# The accumulator and the branch in one function, the jvp of a captured input: an error of TensorFlow's, not yet ours.
OPEN = "forward mode, cond"
IDS = [case.name for case in CASES]


def expected(case: Case, gives: str) -> list[Any] | None:
    slopes = case.slopes(*case.inputs)
    if gives == "gradients":
        return [case.upstream * s for s in slopes]
    if gives == "tangents":
        return [sum(slopes)] if case.elementwise else None
    if gives == "second" and case.second:
        return list(case.second(*case.inputs, case.upstream))
    return None


def check(case: Case, gives: str, names: list[str]) -> None:
    want = expected(case, gives)
    if want is None:
        return
    left: list[str] = []
    for name in names:
        want_here = want
        if gives == "second" and name.startswith("reverse over forward"):
            want_here = want if len(case.inputs) == 1 else None
        if want_here is None or (len(case.inputs) > 1 and "over" in name):
            continue
        how = {} if gives == "tangents" else {"upstream": case.upstream}
        # A gradient that does not depend on its input may be None to the second order.
        try:
            outcome = tolerant(name, case, want_here, how)
        except tf.errors.InvalidArgumentError:
            if name != OPEN:
                raise
            left.append(name)
            continue
        if outcome == "refused" and not case.may_refuse:
            modes.run(name, case.rule, case.inputs, **how)  # raises with the reason
        assert outcome == "right" or case.may_refuse, f"{case.name} in {name}: {outcome}"
    if left:
        pytest.xfail(f"{OPEN}: TensorFlow's error, loud, for a rule with a jvp of its own that captured its input")


def tolerant(name: str, case: Case, want: list[Any], how: dict[str, Any]) -> str:
    try:
        return modes.outcome(name, case.rule, case.inputs, want, rtol=2e-4, **how)
    except AssertionError:
        if all(np.all(np.asarray(w) == 0) for w in want):
            found = modes.run(name, case.rule, case.inputs, **how)
            assert all(f is None or np.all(f == 0) for f in found), f"{case.name} in {name}"
            return "right"
        raise


@pytest.mark.parametrize("gives", SHORT)
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_usual_modes(case, gives):
    check(case, gives, SHORT[gives])


@pytest.mark.slow
@pytest.mark.parametrize("gives", SHORT)
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_all_modes(case, gives):
    check(case, gives, [name for name in modes.names(gives, case.lacks) if name not in (*SHORT[gives], *case.without)])
