"""Proving a rule: `check` says right, wrong or undecided, with evidence; `assert_gradients` raises unless right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradwright.check.report import Report

__all__ = ["assert_gradients", "check"]

# NumPy alone would double the time of `import gradwright`: the engine is loaded when it is first called.


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
    >>> forgetful = tf.custom_gradient(lambda x: (x * x, lambda up: 2 * x))
    >>> gw.check(forgetful, tf.constant([1.0, 2.0])).faults[0].label
    'upstream-ignored'

    Args:
        f: a rule of gradwright, a `tf.custom_gradient` function, a Keras layer or model, a `jax.custom_vjp` function,
            the `apply` of a `torch.autograd.Function`, a module, any differentiable function, or a plain function
            that returns (output, grad).
        *args: its arguments. Without any, a rule's own `example` is used.
        like: a function whose gradient is the right one, for rules that differ from their forward on purpose.
        modes: the ways of calling in which the gradient must be the same; "all" for every one there is. TensorFlow:
            eager, persistent, function, function-outside, unknown-shapes, jit, cond, while, map, vectorized,
            jacobian, graph-v1, saved-model, mirrored, forward, second-order. JAX: eager, jit, vectorized, forward,
            second-order. PyTorch: eager, forward, second-order.
        order: 2 to prove the derivative of the gradient as well.
        seed: of the random directions and upstreams.
        contract: False compares with the oracle alone, which is faster.
        **kwargs: keyword arguments of `f`.

    Returns:
        A `Report`; a wrong rule never raises. Its text (`str`) says what was proven and what to repair.

    Raises:
        TypeError, ValueError: the arguments cannot be those of `f`, or a mode or order does not exist.
    """
    from gradwright.check.prove import prove

    return prove(f, args, kwargs, like, modes, order, seed, contract)


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
