"""Elementwise rules: one line of partials gives the pullback, the pushforward and every order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwright.backends import backend_of
from gradwright.errors import ArgumentError, Fault, GradientShapeError
from gradwright.forms.calls import Form, aligned_values, named_values, signature_of
from gradwright.forms.partials import Partials
from gradwright.rule import Options, Rule
from gradwright.space import Shape, show_shape, stretches


def elementwise(
    f: Callable[..., Any],
    partials: Any,
    *,
    name: str | None = None,
    example: Callable[[], Any] | None = None,
    surrogate: Callable[..., Any] | bool | None = None,
) -> Rule:
    """Make a rule of a function that works element by element, from its partial derivatives.

    >>> tan = gw.elementwise(tf.tan, lambda x, out: 1 + out**2)
    >>> x = tf.constant([0., 1.])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = tan(x)
    >>> print(tape.gradient(y, x).numpy().round(4))
    [1.     3.4255]

    The rule broadcasts like its function, and has forward mode and every order: each order differentiates the
    partials that you wrote.

    Args:
        f: the function, of one argument or several. It may take static arguments too.
        partials: one a differentiable argument, in order: a tuple, a dict by argument name, or one function that
            returns them all. Each is a function of some of the arguments, by their names, or of all in their order
            under any names; and of the output, named `out` or last. Or it is a constant; or None for an argument
            that is not differentiable; or `gw.forms.not_implemented("why")`, an error only when it is used.
        name: the name in messages.
        example: a function that returns arguments, for `gw.check` and the command line.
        surrogate: as for `gw.custom_gradient`, where the partials differ from f's on purpose.

    Complex arguments: write the mathematical derivative; the conjugate that TensorFlow and torch expect is added.
    """
    if not callable(f):
        raise ArgumentError(f"gw.elementwise: the first argument is a function, got {f!r}")
    signature = signature_of(f)
    written = Partials(partials, signature)
    by_place: dict[int, tuple[str, ...]] = {}

    def pair(*args: Any, **kwargs: Any) -> Any:
        out = f(*args, **kwargs)
        if kwargs:
            named = aligned_values(signature, args, kwargs)
            return out, pullback(tuple(named), tuple(named.values()), written, out, made.refuse)
        if len(args) not in by_place:
            by_place[len(args)] = tuple(named_values(signature, args, {}))
        return out, pullback(by_place[len(args)], args, written, out, made.refuse)

    made = Form(pair, f, Options(surrogate=surrogate, example=example, name=name), written.written)
    return made


def pullback(
    names: tuple[str, ...],
    values: tuple[Any, ...],
    partials: Partials,
    out: Any,
    refuse: Callable[[Fault], Exception],
) -> Callable[..., Any]:
    """The grad of one call. It keeps the arguments and the output only as far as the partials use them."""
    dtypes = [getattr(value, "dtype", None) for value in values]
    try:
        places, wants_output = partials.needs(names)
    except Fault as fault:
        raise refuse(fault) from None
    args = tuple(value if place in places else None for place, value in enumerate(values))
    kept = out if wants_output else None
    shape = backend_of(out).shape(out) if len(values) > 1 else None
    sizes = static_shape(out)
    del values, out

    def slopes_here() -> list[Any]:
        try:
            slopes = partials.all_at(args, kept, names, dtypes)
            refuse_beyond(sizes, names, slopes)
            return slopes
        except Fault as fault:
            raise refuse(fault) from None

    def grad(upstream: Any) -> Any:
        b, slopes = backend_of(upstream), slopes_here()
        tensors = [p for p, dtype in zip(slopes, dtypes, strict=True) if dtype is not None]
        gradients = [None if p is None else upstream * b.conjugate(p) for p in tensors]
        return gradients[0] if len(gradients) == 1 else gradients

    def jvp(*tangents: Any) -> Any:
        arrived = iter(tangents)
        parts = [(next(arrived), p) for p, dtype in zip(slopes_here(), dtypes, strict=True) if dtype is not None]
        terms = [tangent * p for tangent, p in parts if p is not None and tangent is not None]
        total = sum(terms[1:], terms[0]) if terms else None
        return total if total is None or shape is None else backend_of(total).broadcast_to(total, shape)

    grad.jvp = jvp  # type: ignore[attr-defined]
    return grad


def static_shape(value: Any) -> Shape | None:
    """The shape of a tensor or array as far as it is known; a number has none."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return tuple(shape)
    return None if shape is None else backend_of(value).static(value)


def refuse_beyond(sizes: Shape | None, names: tuple[str, ...], slopes: list[Any]) -> None:
    """Refuse a partial that broadcasts beyond the output: nothing was broadcast so, and its sum would be wrong."""
    for name, slope in zip(names, slopes, strict=True):
        given = static_shape(slope)
        if stretches(given, sizes):
            raise Fault(
                GradientShapeError,
                f"the partial by `{name}` has shape {show_shape(given)} and the output has shape {show_shape(sizes)}, "
                "to which it must broadcast",
                "compute the partial element by element: each of its elements belongs to one of the output",
            )
