"""Replacing built-in gradients."""

from gradwright.override import scope as _scope
from gradwright.override.entries import at as _at

override = _scope.override
override.at = _at  # type: ignore[attr-defined]
override.native = _scope.native  # type: ignore[attr-defined]
for _function in (override, _at, _scope.native):
    # AutoGraph calls what carries this mark as it is, instead of converting our source.
    _function.autograph_info__ = {}  # type: ignore[attr-defined]

__all__ = ["override"]
