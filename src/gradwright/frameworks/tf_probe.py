"""Where a probe meets Keras's drawing of a model, and where it would do nothing."""

from __future__ import annotations

import sys
from typing import Any

from gradwright.frameworks import tf_private as private


def symbolic(x: Any, name: str, where: str) -> Any:
    """The probe as a layer of a functional model that is being drawn; None for a real tensor."""
    keras = sys.modules.get("keras")
    symbol = getattr(keras, "KerasTensor", None)
    if symbol is None or not isinstance(x, symbol):
        return None
    return layer_class()(name, where)(x)


_made: list[Any] = []


def layer_class() -> Any:
    """The layer that a probe is in a functional model; Keras saves and loads it."""
    if _made:
        return _made[0]
    import keras

    from gradwright.observe.probe import at

    @keras.saving.register_keras_serializable(package="gradwright")
    class Probe(keras.layers.Layer):
        def __init__(self, label: str, where: str, **options: Any):
            super().__init__(**options)
            self.label, self.where = label, where
            self.supports_masking = True

        def call(self, x: Any) -> Any:
            return at(x, self.label, self.where)

        def compute_output_shape(self, shape: Any) -> Any:
            return shape

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "label": self.label, "where": self.where}

    _made.append(Probe)
    return Probe


def without_effect(x: Any) -> bool:
    """Whether a probe could never show: in a graph that nobody watches, or where no tape looks at the tensor."""
    return not private.executing_eagerly() or private.no_tapes()
