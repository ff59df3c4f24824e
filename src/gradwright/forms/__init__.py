"""Other ways to write a rule: fwd and bwd, partials, linear maps."""


def rule(*args, **kwargs):
    """Not written yet."""
    raise NotImplementedError("rule")


def elementwise(*args, **kwargs):
    """Not written yet."""
    raise NotImplementedError("elementwise")


def linear(*args, **kwargs):
    """Not written yet."""
    raise NotImplementedError("linear")
