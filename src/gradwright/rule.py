"""A rule and its life."""


def custom_gradient(*args, **kwargs):
    """Not written yet."""
    raise NotImplementedError("custom_gradient")
