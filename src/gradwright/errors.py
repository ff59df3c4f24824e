"""Every exception of gradwright, and the one way a message is put together.

A message has up to four parts: whose rule, what is wrong, what was expected against what came, and the repair
as a line of code. The inner code states the fact; the boundary adds the rest once.
"""

from __future__ import annotations


class GradwrightError(Exception):
    """The parent of all errors that gradwright raises.

    >>> import gradwright as gw
    >>> issubclass(gw.GradientShapeError, gw.GradwrightError)
    True
    """

    # TensorFlow rebuilds an exception that leaves a traced function, and keeps its type only if the type
    # is built exactly as Exception is.
    __init__ = Exception.__init__


class GradientShapeError(GradwrightError, ValueError):
    """A gradient has a shape that broadcasting of its input does not explain."""


class GradientDtypeError(GradwrightError, TypeError):
    """A gradient has a dtype that its input cannot take."""


class GradientCountError(GradwrightError, ValueError):
    """A rule returned another number or another structure of gradients than it has arguments."""


class VariablesError(GradwrightError, ValueError):
    """A rule reads variables and does not answer for them in a form that can be understood."""


class ModeError(GradwrightError, RuntimeError):
    """A rule cannot work in the mode it is used in (forward mode, vectorised, saved, ...)."""


class OverrideError(GradwrightError, ValueError):
    """An override names nothing, hit nothing, or asks for what cannot be replaced."""


class WrongGradientError(GradwrightError, AssertionError):
    """`assert_gradients` found a rule that is wrong; the report is the message."""


class ArgumentError(GradwrightError, ValueError):
    """A function of gradwright was called with arguments that do not go together."""


def compose(rule: str, where: str, fact: str, repair: str | None = None) -> str:
    """Put a message together: the rule and its place, the fact, the repair.

    >>> print(compose("scale", "model.py:7", "the gradient of `s` has shape (2, 3)", "tf.reduce_sum(g, 0)"))
    rule `scale` (model.py:7): the gradient of `s` has shape (2, 3)
      repair: tf.reduce_sum(g, 0)
    """
    text = f"rule `{rule}` ({where}): {fact}"
    return f"{text}\n  repair: {repair}" if repair else text


class Fault(Exception):
    """A fact found inside, on its way to the boundary that knows whose rule it is about."""

    def __init__(self, kind: type[GradwrightError], fact: str, repair: str | None = None):
        super().__init__(fact)
        self.kind, self.fact, self.repair = kind, fact, repair

    def of(self, rule: str, where: str) -> GradwrightError:
        """Name the rule: the error that the user sees."""
        return self.kind(compose(rule, where, self.fact, self.repair))
