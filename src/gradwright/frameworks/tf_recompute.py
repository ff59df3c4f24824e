"""The two ways to differentiate a whole function inside a rule: run it again under a tape, or keep the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from gradwright import tree
from gradwright.forms.calls import is_tensor
from gradwright.frameworks.tf_recording import recording
from gradwright.frameworks.tf_replay import Memory, replay


def is_float(value: Any) -> bool:
    """Whether a leaf takes a gradient."""
    return is_tensor(value) and (_base(value).is_floating or _base(value).is_complex)


def _base(value: Any) -> Any:
    return tf.as_dtype(value.dtype).base_dtype


def float_leaves(structure: Any) -> list[Any]:
    """The tensors of a structure that take gradients, in order."""
    return [leaf for leaf in tree.flatten(structure, is_tensor)[0] if is_float(leaf)]


def by_name(values: dict[str, Any], gradients: Any) -> dict[str, Any]:
    """Gradients of the float leaves of the arguments, in the structure of each argument."""
    found = iter(gradients)
    made = {}
    for name, value in values.items():
        leaves, spec = tree.flatten(value, is_tensor)
        if any(map(is_tensor, leaves)):
            made[name] = tree.unflatten(spec, [next(found) if is_float(leaf) else None for leaf in leaves])
    return made


def kept(once: Callable[[], Any], values: dict[str, Any]) -> tuple[Any, Callable[..., Any]]:
    """Run a function under a tape that is kept for the backward pass."""
    inputs = float_leaves(list(values.values()))
    with recording(), tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        output = once()
        # Copies, for what a grad holds of its own output is replaced by the recorded one, which this tape knows not.
        outputs = [tf.identity(leaf) for leaf in float_leaves(output)]

    def grad(*upstreams: Any, variables: Any = None) -> Any:
        pulled = tape.gradient(outputs, [*inputs, *(variables or [])], output_gradients=float_leaves(list(upstreams)))
        gradients = by_name(values, pulled)
        return (gradients, pulled[len(inputs) :]) if variables else gradients

    return output, grad


def again(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], values: dict[str, Any], memory: Memory
) -> Callable[..., Any]:
    """The grad that runs a function a second time, with what the first run drew; and its pushforward."""
    leaves, spec = tree.flatten((list(args), dict(kwargs)), is_tensor)
    places = [i for i, leaf in enumerate(leaves) if is_float(leaf)]
    tensors = [i for i, leaf in enumerate(leaves) if is_tensor(leaf)]

    def second(inputs: list[Any]) -> Any:
        every = list(leaves)
        for place, value in zip(places, inputs, strict=True):
            every[place] = value
        positional, keywords = tree.unflatten(spec, every)
        return replay(lambda: function(*positional, **keywords), memory)

    def grad(*upstreams: Any, variables: Any = None) -> Any:
        ups = float_leaves(list(upstreams))
        inputs = after(ups, [tf.convert_to_tensor(leaves[i]) for i in places])
        with recording(), tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = float_leaves(second(inputs))
        pulled = tape.gradient(outputs, [*inputs, *(variables or [])], output_gradients=ups)
        gradients = by_name(values, pulled)
        return (gradients, pulled[len(inputs) :]) if variables else gradients

    def jvp(*tangents: Any) -> list[Any]:
        """The transpose of the pullback, which is linear: two tapes, so that any mode may differentiate it again."""
        arrived = dict(zip(tensors, tree.flatten(list(tangents), is_tensor)[0], strict=True))
        inputs = [tf.identity(leaves[i]) for i in places]
        with recording(), tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                outputs = tree.flatten(second(inputs), is_tensor)[0]
            floats = [tf.convert_to_tensor(y) for y in outputs if is_float(y)]
            ups = [tf.ones_like(y) for y in floats]
            outer.watch(ups)
            pulled = inner.gradient(floats, inputs, output_gradients=ups)
        pairs = [(g, arrived[i]) for g, i in zip(pulled, places, strict=True) if g is not None]
        pushed = outer.gradient([g for g, _ in pairs], ups, output_gradients=[t for _, t in pairs])
        found = iter(pushed)
        return [next(found) if is_float(y) else None for y in outputs]

    grad.jvp = jvp  # type: ignore[attr-defined]
    return grad


def after(upstreams: list[Any], leaves: list[Any]) -> list[Any]:
    """The inputs anew, once the upstreams are there: or else the graph would run both passes as one."""
    if tf.executing_eagerly():
        return [tf.identity(leaf) for leaf in leaves]
    with tf.control_dependencies(upstreams):
        return [tf.identity(leaf) for leaf in leaves]
