"""Other ways to write a rule: partials, forward and backward apart, linear functions."""

from gradwright.forms.defined import rule
from gradwright.forms.elementwise import elementwise
from gradwright.forms.linear import linear
from gradwright.forms.partials import not_implemented

__all__ = ["elementwise", "linear", "not_implemented", "rule"]
