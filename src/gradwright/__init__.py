"""Custom gradients that fit, proven right: write them, prove them, watch them, explain and replace them.

Importing gradwright loads no framework; a framework is touched only when a tensor of it arrives.
"""

from typing import TYPE_CHECKING, Any

from gradwright._version import __version__
from gradwright.check import assert_gradients, check
from gradwright.errors import (
    GradientCountError,
    GradientDtypeError,
    GradientShapeError,
    GradwrightError,
    ModeError,
    OverrideError,
    VariablesError,
    WrongGradientError,
)
from gradwright.explain import GradientTape, explain
from gradwright.fit import fit
from gradwright.forms import elementwise, linear, rule
from gradwright.observe import observe, probe
from gradwright.override import override
from gradwright.rule import custom_gradient

if TYPE_CHECKING:
    from gradwright import compat, ops, shapes

__all__ = [
    "GradientCountError",
    "GradientDtypeError",
    "GradientShapeError",
    "GradientTape",
    "GradwrightError",
    "ModeError",
    "OverrideError",
    "VariablesError",
    "WrongGradientError",
    "__version__",
    "assert_gradients",
    "check",
    "compat",
    "custom_gradient",
    "elementwise",
    "explain",
    "fit",
    "linear",
    "observe",
    "ops",
    "override",
    "probe",
    "rule",
    "shapes",
]


def __getattr__(name: str) -> Any:
    """Load the larger rooms when they are first entered."""
    if name in ("compat", "ops", "shapes"):
        import importlib

        return importlib.import_module(f"gradwright.{name}")
    raise AttributeError(f"module 'gradwright' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
