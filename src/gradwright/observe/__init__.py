"""Watching gradients."""


def observe(*args, **kwargs):
    """Not written yet."""
    raise NotImplementedError("observe")


def probe(*args, **kwargs):
    """Not written yet."""
    raise NotImplementedError("probe")
