"""Functions outside of the framework (numpy, scipy, a simulator), with a gradient by hand or by differences."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwright import tree
from gradwright.errors import ArgumentError, ModeError, compose
from gradwright.forms.calls import Call, Form, is_tensor
from gradwright.ops import differences
from gradwright.rule import Options, Rule, custom_gradient

LARGEST_BASIS = 4096
_UPSTREAM = frozenset(("upstream", "upstreams", "up", "ups", "g", "dy", "ct", "cotangent", "u", "v", "grad"))


def external(
    f: Callable[..., Any],
    vjp: Callable[..., Any] | None = None,
    *,
    jvp: Callable[..., Any] | None = None,
    shape: Any = None,
    dtype: Any = None,
    step: float | None = None,
    name: str | None = None,
) -> Rule:
    """Make a rule of a function of numpy arrays.

    >>> sine = gw.ops.external(np.sin, vjp=lambda upstream, x: upstream * np.cos(x))
    >>> x = tf.Variable([0., 1.])
    >>> with tf.GradientTape() as tape:
    ...     y = sine(x)
    >>> print(tape.gradient(y, x).numpy().round(4))
    [1.     0.5403]

    It runs eagerly, in `tf.function`, in loops and vectorised. XLA cannot compile it and a saved model cannot hold
    it: both are refused when asked for, by name. Second derivatives are refused too.

    Args:
        f: of arrays and static arguments; returns an array, or a tuple where `dtype` is one.
        vjp: `vjp(upstream, *arguments)`, in numpy too; returns a gradient, or a tuple with one a float argument.
            The upstream may also come last, if it is named so. Without it: central differences in double precision,
            two calls of f for each element of the inputs.
        jvp: `jvp(arguments, tangents)`, for forward mode. Without it, forward mode comes from the vjp, one call an
            output element, or from one central difference where there is no vjp.
        shape: the shape of the output, where a graph must know it: a tuple, "same" as the first input, or a function
            of the inputs' shapes. Numpy's own elementwise functions need none.
        dtype: of the output; that of the first float input by default.
        step: of the differences, relative to the size of an element.
        name: the name in messages.
    """
    if not callable(f):
        raise ArgumentError(f"gw.ops.external: a function of numpy arrays is wanted, got {f!r}")
    return External(f, vjp, jvp, shape, dtype, step, name)


class External(Form):
    """A function outside of the framework. Made by `external`."""

    def __init__(self, function: Any, vjp: Any, jvp: Any, shape: Any, dtype: Any, step: Any, name: str | None):
        self.function, self.vjp, self.jvp = function, vjp, jvp
        self.shape, self.dtype, self.step = shape, dtype, step
        self.upstream_last = vjp is not None and _upstream_is_last(vjp)

        def pair(*args: Any, **kwargs: Any) -> Any:
            return self._run(args, kwargs)

        super().__init__(pair, _plain(function), Options(name=name), vjp)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from gradwright.frameworks import tf_external

        call = Call(self.signature.python, args, kwargs)
        tensors = [call.leaves[i] for i in call.tensors]
        specs = self._specs(call)
        outputs = tf_external.call(lambda *arrays: self._outputs(call, arrays), tensors, specs, self._refusal)
        return outputs if self._many() else outputs[0], self._pullback(call, tensors, specs)

    def _many(self) -> bool:
        return isinstance(self.dtype, tuple | list)

    def _outputs(self, call: Call, arrays: Sequence[Any]) -> list[Any]:
        """Run the function itself, on arrays of its own: it may return them, or write into them."""
        result = self.function(*call.filled(call.tensors, _copies(arrays), call.leaves), **call.kwargs)
        return list(result) if self._many() else [result]

    def _specs(self, call: Call) -> list[tuple[Any, Any]]:
        """The shape and dtype of each output, as far as they are known before it runs."""
        floats = [call.leaves[i] for i in call.floats]
        if self.dtype is None and not floats:
            raise ArgumentError(compose(self.name, self.where, "no float tensor among the arguments", "dtype=..."))
        declared: Any = self.dtype
        dtypes = list(declared) if self._many() else [declared or floats[0].dtype]
        shapes = [None if t.shape.rank is None else tuple(t.shape) for t in floats]
        shape: Any = self.shape
        if shape == "same":
            shape = shapes[0] if shapes else None
        elif callable(shape):
            shape = shape(*shapes)
        elif shape is None and isinstance(self.function, np.ufunc):
            shape = _broadcast(shapes)
        return list(zip(shape if self._many() and shape else [shape] * len(dtypes), dtypes, strict=True))

    def _refusal(self, reason: str) -> ModeError:
        repair = "call it eagerly or in a plain tf.function, or write it with the framework's own functions"
        return ModeError(compose(self.name, self.where, reason, repair))

    def _pullback(self, call: Call, tensors: list[Any], specs: list[Any]) -> Callable[..., Any]:
        from gradwright.frameworks import tf_external

        floats = [call.leaves[i] for i in call.floats]
        wanted = [(None if x.shape.rank is None else tuple(x.shape), x.dtype) for x in floats]
        count = len(specs)

        def pulled(*values: Any) -> Any:
            run = lambda *arrays: self._pull(call, arrays[:count], arrays[count:])  # noqa: E731
            gradients = tf_external.call(run, list(values), wanted, self._refusal, guarded=False)
            return gradients, self._no_second_order

        first_order = custom_gradient(name=self.name)(pulled)
        first_order.where = self.where

        def grad(*upstreams: Any) -> Any:
            return call.by_argument(call.floats, first_order(*upstreams, *tensors))

        def push(*tangents: Any) -> Any:
            arrived = tree.flatten(list(tangents), is_tensor)[0]
            given = [t for t, i in zip(arrived, call.tensors, strict=False) if i in call.floats]
            run = lambda *arrays: self._push(call, arrays[: len(tensors)], arrays[len(tensors) :])  # noqa: E731
            made = tf_external.call(run, [*tensors, *given], specs, self._refusal, guarded=False)
            return made if self._many() else made[0]

        grad.jvp = push  # type: ignore[attr-defined]
        return grad

    def _no_second_order(self, *_: Any) -> Any:
        fact = "has no second derivative: its gradient is a numpy function too"
        raise ModeError(compose(self.name, self.where, fact, "write it with the framework's own functions"))

    def _pull(self, call: Call, upstreams: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        """The gradients of the float inputs, in numpy."""
        if self.vjp is None:
            of_floats, floats = self._of_floats(call, arrays)
            return differences.vjp(of_floats, upstreams, floats, self.step)
        upstream = tuple(_copies(upstreams)) if self._many() else np.array(upstreams[0])
        args = call.filled(call.tensors, _copies(arrays), call.leaves)
        known = _accepted(self.vjp, call.kwargs)
        made = self.vjp(*args, upstream, **known) if self.upstream_last else self.vjp(upstream, *args, **known)
        made = list(made) if isinstance(made, tuple | list) else [made]
        if len(made) == len(call.tensors) != len(call.floats):
            made = [g for g, i in zip(made, call.tensors, strict=True) if i in call.floats]
        if len(made) != len(call.floats):
            fact = f"vjp must give {len(call.floats)} gradients, one a float argument, and gave {len(made)}"
            raise ValueError(compose(self.name, self.where, fact))
        pairs = zip(made, [arrays[call.tensors.index(i)] for i in call.floats], strict=True)
        return [np.zeros(x.shape) if g is None else _shaped(g, x) for g, x in pairs]

    def _push(self, call: Call, arrays: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The tangents of the outputs, in numpy."""
        if self.jvp is not None:
            args = call.filled(call.tensors, _copies(arrays), call.leaves)
            made = self.jvp(args, call.filled(call.floats, _copies(tangents)), **_accepted(self.jvp, call.kwargs))
            return list(made) if self._many() else [made]
        if self.vjp is not None:
            return self._by_basis(call, arrays, tangents)
        of_floats, floats = self._of_floats(call, arrays)
        return differences.jvp(of_floats, floats, tangents, self.step)

    def _of_floats(self, call: Call, arrays: Sequence[Any]) -> tuple[Callable[..., list[Any]], list[Any]]:
        """The function of its float inputs alone, and those inputs."""
        live = [call.tensors.index(i) for i in call.floats]

        def of_floats(*values: Any) -> list[Any]:
            every = list(arrays)
            for place, value in zip(live, values, strict=True):
                every[place] = value
            return self._outputs(call, every)

        return of_floats, [arrays[i] for i in live]

    def _by_basis(self, call: Call, arrays: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The tangents of the outputs from the vjp, one unit upstream at a time."""
        outputs = [np.asarray(v) for v in self._outputs(call, arrays)]
        if sum(v.size for v in outputs) > LARGEST_BASIS:
            fact = f"forward mode takes a call of the vjp for each of {outputs[0].size} output elements"
            repair = "gw.ops.external(f, vjp, jvp=lambda arguments, tangents: ...)"
            raise ModeError(compose(self.name, self.where, fact, repair))
        pushed = [np.zeros(v.shape, np.result_type(v, np.float32)) for v in outputs]
        for k, place in ((k, place) for k, v in enumerate(outputs) for place in np.ndindex(v.shape)):
            units = [np.zeros(v.shape, p.dtype) for v, p in zip(outputs, pushed, strict=True)]
            units[k][place] = 1
            pulled = self._pull(call, units, arrays)
            pushed[k][place] = sum(np.sum(g * t) for g, t in zip(pulled, tangents, strict=True))
        return pushed


def _copies(arrays: Sequence[Any]) -> list[Any]:
    """Arrays that share no memory with the framework's tensors, nor with the next call's."""
    return [np.array(a) for a in arrays]


def _shaped(gradient: Any, x: Any) -> Any:
    """A gradient summed over the axes along which its input was broadcast."""
    gradient = np.asarray(gradient)
    if gradient.shape == x.shape:
        return gradient
    lost = gradient.ndim - x.ndim
    if lost < 0 or any(n not in (1, g) for n, g in zip(x.shape, gradient.shape[lost:], strict=True)):
        raise ValueError(f"the gradient has shape {gradient.shape}, the input {x.shape}")
    grown = [i + lost for i, n in enumerate(x.shape) if n == 1 != gradient.shape[i + lost]]
    return gradient.sum(axis=(*range(lost), *grown)).reshape(x.shape)


def _broadcast(shapes: list[Any]) -> Any:
    """The shape of an elementwise function, where all sizes are known."""
    if any(s is None or None in s for s in shapes):
        return shapes[0] if len(shapes) == 1 else None
    return np.broadcast_shapes(*shapes)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A numpy ufunc by its inputs alone: its many options are not arguments of the rule."""
    if not isinstance(function, np.ufunc):
        return function
    places = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in "xyzw"[: function.nin]]
    plain = lambda *xs: function(*xs)  # noqa: E731
    plain.__name__, plain.__doc__ = function.__name__, function.__doc__
    plain.__signature__ = inspect.Signature(places)  # type: ignore[attr-defined]
    return plain


def _accepted(function: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """The keywords that a function takes."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return given
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return given
    return {key: value for key, value in given.items() if key in parameters}


def _upstream_is_last(vjp: Callable[..., Any]) -> bool:
    """Whether a vjp takes the upstream last, by the names of its parameters."""
    try:
        names = list(inspect.signature(vjp).parameters)
    except (TypeError, ValueError):
        return False
    return len(names) > 1 and names[-1] in _UPSTREAM and names[0] not in _UPSTREAM
