"""The command line."""


def main(*args, **kwargs):
    """Not written yet."""
    raise NotImplementedError("main")
