"""Fitting a gradient to its input."""


def fit(*args, **kwargs):
    """Not written yet."""
    raise NotImplementedError("fit")
