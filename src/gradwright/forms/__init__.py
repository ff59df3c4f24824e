"""Other ways to write a rule: partials, forward and backward apart, linear functions."""

from gradwright.forms.elementwise import elementwise
from gradwright.forms.partials import not_implemented

__all__ = ["elementwise", "not_implemented"]


def rule(*args, **kwargs):
    """Not written yet."""
    raise NotImplementedError("rule")


def linear(*args, **kwargs):
    """Not written yet."""
    raise NotImplementedError("linear")
