"""Proving without being noticed: no output of the rules, no random number of the program's drawn."""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import numpy as np

from gradwright.frameworks import tf_random


@contextmanager
def silence() -> Iterator[None]:
    """What rules print while they are proven is not shown, neither from Python nor from the framework underneath."""
    sys.stdout.flush()
    sys.stderr.flush()
    with open(os.devnull, "w") as nowhere, _descriptors_to(nowhere.fileno()):
        with redirect_stdout(nowhere), redirect_stderr(nowhere), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


@contextmanager
def _descriptors_to(target: int) -> Iterator[None]:
    saved = {number: os.dup(number) for number in (1, 2) if _is_open(number)}
    for number in saved:
        os.dup2(target, number)
    try:
        yield
    finally:
        for number, copy in saved.items():
            os.dup2(copy, number)
            os.close(copy)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


@contextmanager
def random_kept() -> Iterator[None]:
    """Python's, numpy's, TensorFlow's and PyTorch's random numbers go on as if none had been drawn in between."""
    python, numpy_state = random.getstate(), np.random.get_state()
    torch = sys.modules.get("torch")
    torch_state = torch.get_rng_state() if torch is not None and hasattr(torch, "get_rng_state") else None
    try:
        with tf_random.random_state_kept():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy_state)
        if torch is not None and torch_state is not None:
            torch.set_rng_state(torch_state)
