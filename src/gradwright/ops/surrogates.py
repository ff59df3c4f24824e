"""Functions with no useful derivative, and the gradient that is taken in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwright.errors import ArgumentError, Fault, GradientDtypeError, GradientShapeError
from gradwright.forms.calls import Call, Form, is_tensor
from gradwright.ops import limits
from gradwright.ops.maths import maths_of
from gradwright.rule import Options, Rule, custom_gradient
from gradwright.space import show_shape


def straight_through(f: Callable[..., Any], *, name: str | None = None) -> Rule:
    """Make a rule of a function whose inputs get the upstream as it is, as if the function were the identity.

    >>> rounded = gw.ops.straight_through(tf.round)
    >>> x = tf.Variable([.4, 1.7])
    >>> with tf.GradientTape() as tape:
    ...     y = rounded(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.0, 2.0], [1.0, 1.0])

    Every float input gets the upstream, summed where the input was broadcast. A variable that f reads gets the
    framework's own gradient, with the ops that have none of use (round, rint, floor, ceil, sign) passed straight
    through as well: for round(x / s) * s that is the gradient by s of learned step sizes, round(x / s) - x / s.
    Formula: dx = upstream. Under loss scaling: linear, the scale comes out again.

    Args:
        f: the function, of one tensor or several. Its output has the shape that its inputs broadcast to.
        name: the name in messages.

    Raises:
        GradientShapeError: the output has another shape than the inputs, so there is no straight way through.
        GradientDtypeError: the output is of integers or truth values, which carry no gradient.

    Source: Bengio, Leonard and Courville, Estimating or propagating gradients through stochastic neurons, 2013.
    """
    if not callable(f):
        raise ArgumentError(f"gw.ops.straight_through: a function is wanted, got {f!r}")
    return StraightThrough(f, name)


class StraightThrough(Form):
    """A function passed straight through. Made by `straight_through`."""

    def __init__(self, function: Callable[..., Any], name: str | None):
        self.function = function
        # Whether a call so far has read trainable variables; only then their way through is looked after.
        self.reads_variables: bool | None = None

        def pair(*args: Any, **kwargs: Any) -> Any:
            return self._run(args, kwargs)

        super().__init__(pair, function, Options(surrogate=_sum_of_floats, name=name))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Give the function itself, which the framework differentiates by its own rules."""
        return self.function(*args, **kwargs)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = Call(self.signature.python, args, kwargs)
        m = maths_of(*call.leaves)
        floats = [call.leaves[i] for i in call.floats]
        steps_pass = self.reads_variables is not False
        output, by_variables = m.recorded(lambda: self.function(*args, **kwargs), steps_pass, floats)
        self.reads_variables = bool(self.reads_variables) or by_variables is not None
        self._fits(m, call, output)
        count = len(call.floats)

        def inputs(upstream: Any) -> Any:
            return call.by_argument(call.floats, [upstream] * count)

        def grad(upstream: Any, variables: Any = None) -> Any:
            if variables and by_variables is not None:
                return inputs(upstream), by_variables(variables, upstream)
            return inputs(upstream)

        grad.jvp = self._pushforward(call, output)  # type: ignore[attr-defined]
        return output, grad

    def _fits(self, m: Any, call: Call, output: Any) -> None:
        """Refuse an output that the inputs cannot be passed straight to."""
        if not is_tensor(output):
            raise self.refuse(Fault(GradientShapeError, f"must return one tensor, got {type(output).__name__}"))
        if not m.is_float(output):
            fact = f"the output has dtype {m.dtype_name(output)}, which carries no gradient"
            raise self.refuse(Fault(GradientDtypeError, fact, "tf.cast(output, x.dtype) inside the function"))
        shapes = [m.sizes(call.leaves[i]) for i in call.floats]
        if not _may_be(m.sizes(output), shapes):
            given = " and ".join(show_shape(s) for s in shapes)
            fact = f"the output has shape {show_shape(m.sizes(output))}, the inputs {given}: no straight way through"
            raise self.refuse(Fault(GradientShapeError, fact, "change the shape outside of the function"))

    def _pushforward(self, call: Call, output: Any) -> Callable[..., Any]:
        from gradwright.backends import backend_of

        b = backend_of(output)
        size = b.shape(output)
        floats = [call.tensors.index(i) for i in call.floats]

        def jvp(*tangents: Any) -> Any:
            from gradwright import tree

            flat = tree.flatten(list(tangents), is_tensor)[0]
            return sum(b.broadcast_to(flat[i], size) for i in floats)

        return jvp


def _may_be(output: Any, inputs: list[Any]) -> bool:
    """Whether inputs of these shapes may broadcast together to the output's, as far as sizes are known."""
    if output is None or not inputs or None in inputs:
        return True
    if max(len(s) for s in inputs) != len(output):
        return False
    for back in range(1, len(output) + 1):
        along = [s[-back] for s in inputs if len(s) >= back]
        wide = [n for n in along if n != 1]
        if None in (*along, output[-back]):
            continue
        if output[-back] != (wide[0] if wide else 1) or len(set(wide)) > 1:
            return False
    return True


def _sum_of_floats(*args: Any, **kwargs: Any) -> Any:
    """The function whose gradient the surrogate is: the sum of the inputs."""
    tensors = [a for a in (*args, *kwargs.values()) if is_tensor(a) and maths_of(a).is_float(maths_of(a).tensor(a))]
    return sum(tensors[1:], tensors[0])


@custom_gradient(surrogate=lambda x: x, example=lambda: (_row(),))
def round_ste(x: Any) -> Any:
    """Round to the nearest whole number (halves to even); the gradient is the upstream.

    >>> x = tf.Variable([.4, 1.7])
    >>> with tf.GradientTape() as tape:
    ...     y = gw.ops.round_ste(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.0, 2.0], [1.0, 1.0])

    Source: as for `straight_through`. Under loss scaling: linear, the scale comes out again.
    """
    m = maths_of(x)
    grad = lambda upstream: upstream  # noqa: E731
    grad.jvp = lambda tangent: tangent  # type: ignore[attr-defined]
    return m.round(m.tensor(x)), grad


@custom_gradient(surrogate=True, example=lambda: (_row(),))
def sign_ste(x: Any, clip: float | bool | None = None) -> Any:
    """Give the sign; the gradient is the upstream, with `clip` only where |x| <= clip.

    >>> x = tf.Variable([-3., .5])
    >>> with tf.GradientTape() as tape:
    ...     y = gw.ops.sign_ste(x, clip=1.)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([-1.0, 1.0], [0.0, 1.0])

    Formula: dx = upstream, or upstream where |x| <= clip and 0 elsewhere: the derivative of x clipped to the range,
    as binarised networks use it. `clip=True` is `clip=1.`. The sign of 0 is the framework's, 0.

    Source: Courbariaux et al., Binarized neural networks, 2016. Under loss scaling: linear, the scale comes out.
    """
    m = maths_of(x)
    x = m.tensor(x)
    limit = {True: 1.0, False: None}.get(clip, clip) if isinstance(clip, bool) else clip
    if limit is None:
        passed = lambda upstream, *_: upstream  # noqa: E731
    else:
        limits.at_least_zero("sign_ste", "clip", limit, zero=False)
        inside = m.abs(x) <= limit
        passed = lambda upstream, *_: m.where(inside, upstream, m.zeros_like(upstream))  # noqa: E731
    grad = lambda upstream: passed(upstream)  # noqa: E731
    grad.jvp = passed  # type: ignore[attr-defined]
    return m.sign(x), grad


def _row() -> Any:
    """An example for the prover."""
    import numpy as np

    return np.array([-2.6, -0.2, 0.7, 1.9], "float32")
