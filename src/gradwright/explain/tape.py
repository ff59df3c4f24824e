"""The drop-in tape: `tf.GradientTape` that can say afterwards why a gradient is missing."""

from __future__ import annotations

from typing import Any


class _Front(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance).__name__ == "ExplainingTape" or super().__instancecheck__(instance)


class GradientTape(metaclass=_Front):
    """A `tf.GradientTape` with `explain(target, sources)`.

    >>> import gradwright as gw, tensorflow as tf
    >>> x = tf.constant([1.0, 2.0])
    >>> with gw.GradientTape() as tape:
    ...     y = tf.reduce_sum(x * x)
    >>> print(tape.gradient(y, x))
    None
    >>> tape.explain(y, x)[0].cause
    'not-watched'

    It is a `tf.GradientTape` in every respect: options, methods, nesting, persistence, inside `tf.function`.
    `explain` may be called after the `with` block, also after `gradient` has used the tape up.

    Args:
        persistent: as for `tf.GradientTape`.
        watch_accessed_variables: as for `tf.GradientTape`.
        keep_values: False lets no intermediate tensor live longer than the tape itself needs it.
    """

    def __new__(cls, persistent: bool = False, watch_accessed_variables: bool = True, keep_values: bool = True) -> Any:
        """Make the TensorFlow tape; the class is only known once TensorFlow is there."""
        from gradwright.frameworks.tf_explain_tape import ExplainingTape

        return ExplainingTape(persistent, watch_accessed_variables, keep_values)
