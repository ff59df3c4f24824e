"""Why a gradient is missing."""


def explain(*args, **kwargs):
    """Not written yet."""
    raise NotImplementedError("explain")


class GradientTape:
    """Not written yet."""
