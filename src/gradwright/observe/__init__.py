"""Watching gradients: every upstream and gradient that flows, eager and compiled."""

from gradwright.observe.probe import probe
from gradwright.observe.scope import observe

__all__ = ["observe", "probe"]
