"""Replacing built-in gradients."""


def override(*args, **kwargs):
    """Not written yet."""
    raise NotImplementedError("override")
