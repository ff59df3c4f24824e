"""The global seed of eager TensorFlow, which can be set in public but read only in private."""

from __future__ import annotations


def global_seed() -> int | None:
    """The seed that `tf.random.set_seed` set; None where none was set or TensorFlow does not tell."""
    try:
        from tensorflow.python.eager import context

        return context.global_seed()
    except (ImportError, AttributeError):
        return None
