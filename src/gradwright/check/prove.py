"""The course of a proof: run, choose an oracle, compare at the point and beside it, try the contract, decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwright.check.adapt import CannotRun, adapt, name_of
from gradwright.check.bench import Bench
from gradwright.check.examine import Examination
from gradwright.check.modes import chosen
from gradwright.check.openers import LABELS
from gradwright.check.report import Fault, Report
from gradwright.check.seeds import kept
from gradwright.errors import GradwrightError


def check(
    f: Callable[..., Any],
    *args: Any,
    like: Callable[..., Any] | None = None,
    modes: Sequence[str] = ("eager",),
    order: int = 1,
    seed: int | None = None,
    contract: bool = True,
    **kwargs: Any,
) -> Report:
    """Prove that the gradient of `f` at these arguments is right, or say what is wrong with it.

    >>> import gradwright as gw, tensorflow as tf
    >>> square = tf.custom_gradient(lambda x: (x * x, lambda up: 2 * x * up))
    >>> gw.check(square, tf.constant([1.0, 2.0])).verdict
    'right'

    `f` is a rule of gradwright, a `tf.custom_gradient` function, a Keras layer or model, a `jax.custom_vjp` function,
    the `apply` of a `torch.autograd.Function`, any differentiable function, or a function that returns (output, grad).
    `like` is a function whose gradient is the right one, for rules that differ from their forward on purpose.
    `order=2` also proves the derivative of the gradient; `modes` are the ways of calling in which the gradient must be
    the same; `contract=False` compares with the oracle alone, which is faster. Never raises on a wrong rule.
    Raises TypeError or ValueError when the arguments cannot be those of `f`.
    """
    rng = np.random.default_rng(0 if seed is None else seed)
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2, not {order!r}")
    try:
        subject = adapt(f, *example_of(f, args, kwargs))
    except CannotRun as failed:
        unusable, reason = failed.args
        return Report(unusable.name, unusable.where, reason=reason)
    except GradwrightError as error:
        return _refused(f, error)
    wanted = chosen(subject, modes)
    surrogate = subject.surrogate if like is None else like
    bench = Bench(subject, _reference(surrogate))
    with kept(subject.backend):
        try:
            return Examination(subject, bench, rng, surrogate).run(contract, wanted, order)
        finally:
            subject.backend.restore(subject.kept)


def example_of(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments given, or those of the rule's own example where none are."""
    example = getattr(getattr(f, "options", None), "example", None)
    if args or kwargs or not callable(example):
        return args, kwargs
    made = example()
    return (tuple(made) if isinstance(made, (tuple, list)) else (made,)), {}


def _refused(f: Any, error: GradwrightError) -> Report:
    """The report of a rule that its own forward shows to be none."""
    report = Report(name_of(f), getattr(f, "where", None), "wrong")
    label = next((label for kind, label in LABELS.items() if isinstance(error, kind)), "value")
    lines = str(error).splitlines()
    repair = next((line.split("repair:", 1)[1].strip() for line in lines if "repair:" in line), None)
    report.faults.append(Fault(label, None, lines[0], repair, report.where))
    return report


def _reference(surrogate: Any) -> Callable[..., Any] | None:
    return surrogate if callable(surrogate) else None


def assert_gradients(f: Callable[..., Any], *args: Any, **options: Any) -> Report:
    """`check`, for tests: raises `WrongGradientError` with the report as its message unless the rule is right.

    >>> import gradwright as gw, tensorflow as tf
    >>> square = tf.custom_gradient(lambda x: (x * x, lambda up: 2 * x * up))
    >>> gw.assert_gradients(square, tf.constant([1.0, 2.0])).ok
    True
    """
    from gradwright.errors import WrongGradientError

    report = check(f, *args, **options)
    if not report.ok:
        raise WrongGradientError(str(report))
    return report
