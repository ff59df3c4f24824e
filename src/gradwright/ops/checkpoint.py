"""Recompute in the backward pass instead of keeping: the same function, numbers drawn and state included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwright import tree
from gradwright.backends import root_of
from gradwright.errors import ArgumentError
from gradwright.forms.calls import Form, is_tensor, named_values
from gradwright.rule import Options, Rule


def checkpoint(f: Callable[..., Any], *, name: str | None = None) -> Rule:
    """Make a rule of a function that keeps its inputs only, and runs it again in the backward pass.

    >>> noisy = gw.ops.checkpoint(lambda x: x * tf.cast(tf.random.uniform([1000]) > .5, tf.float32))
    >>> x = tf.Variable(tf.ones([1000]))
    >>> with tf.GradientTape() as tape:
    ...     y = noisy(x)
    >>> int(tf.reduce_sum(tf.cast(tape.gradient(y, x) != y, tf.int32)))      # the same mask in both passes
    0

    The second run sees the random numbers of the first: of `tf.random`, of generators, of Keras's seeds and dropout;
    what `tf.random` drew is kept (of generators and Keras only the seed). Variables that f changes (seeds, moving
    averages) are changed once. Where f draws inside a loop, a branch or a `tf.function` of its own, nothing can be
    replayed; then its activations are kept instead, and the gradient is right all the same.

    Args:
        f: any function of tensors, nested or by keyword, that may read variables.
        name: the name in messages.

    With JAX and torch it is `jax.checkpoint` and `torch.utils.checkpoint`.
    Source: Chen et al., Training deep nets with sublinear memory cost, 2016. Linear in the upstream.
    """
    if not callable(f):
        raise ArgumentError(f"gw.ops.checkpoint: a function is wanted, got {f!r}")
    return Checkpoint(f, name)


class Checkpoint(Form):
    """A function that is run again. Made by `checkpoint`."""

    def __init__(self, function: Callable[..., Any], name: str | None):
        self.function = function
        self.keeps = False  # whether a call so far drew numbers that cannot be replayed

        def pair(*args: Any, **kwargs: Any) -> Any:
            return self._run(args, kwargs)

        super().__init__(pair, function, Options(name=name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function; JAX and torch bring a checkpoint of their own."""
        leaves = tree.flatten([*args, *kwargs.values()], is_tensor)[0]
        root = next((root for root in (root_of(type(leaf)) for leaf in leaves) if root), None)
        if root in ("jax", "jaxlib"):
            import jax

            return jax.checkpoint(self.function)(*args, **kwargs)
        if root == "torch":
            import torch.utils.checkpoint as torch_checkpoint

            return torch_checkpoint.checkpoint(self.function, *args, use_reentrant=False, **kwargs)
        return super().__call__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Give the function itself, which the framework differentiates by its own rules."""
        return self.function(*args, **kwargs)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from gradwright.frameworks import tf_recompute, tf_replay

        values = named_values(self.signature.python, args, kwargs)
        once = lambda: self.function(*args, **kwargs)  # noqa: E731
        if not self.keeps and tf_replay.can_replay():
            output, memory = tf_replay.remember(once)
            if not memory.out_of_reach:
                return output, tf_recompute.again(self.function, args, kwargs, values, memory)
            self.keeps = True
        return tf_recompute.kept(once, values)
