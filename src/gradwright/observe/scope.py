"""`gw.observe`: every upstream and gradient that flows."""

from __future__ import annotations

from typing import Any

from gradwright.errors import ArgumentError
from gradwright.observe import wishes
from gradwright.observe.log import Log


def observe(
    *models: Any,
    values: bool = False,
    rules: Any = None,
    layers: Any = None,
    every: int = 1,
    statistics: str = "all",
    live: bool = False,
) -> Log:
    """Watch every upstream and gradient of the rules, probes and layers that a backward pass meets.

    >>> import tensorflow as tf, gradwright as gw
    >>> @gw.custom_gradient
    ... def scale(x, s):
    ...     return x * s, lambda upstream: (upstream * s, upstream * x)
    >>> x, s = tf.ones([2, 2]), tf.constant(3.0)
    >>> with gw.observe() as log, tf.GradientTape() as tape:
    ...     tape.watch([x, s])
    ...     gradient = tape.gradient(scale(x, s), s)
    >>> record = log.records[0]
    >>> record.rule, record.upstream.shape, record.upstream.norm, record.gradients["s"].max
    ('scale', (2, 2), 2.0, 4.0)
    >>> record.repairs
    [('s', 'summed over axes 0 and 1')]

    Args:
        models: Keras models; each of their layers is watched too, under its own name, as long as the log is open.
        values: keep the tensors themselves, not only their statistics.
        rules: names (patterns as "block*") or rules; only their records are kept. `[]` leaves the layers alone.
        layers: names (patterns), layers or layer classes of the models; only these are watched.
        every: keep each n-th record: of each rule, and in compiled functions of each place where it is called.
        statistics: "all", or "norm" for norms and counts of non-finite elements alone, which cost less.
        live: show the table in the terminal while it fills.

    Returns:
        A `Log`, to be opened by `with`. There is one record for each call and backward, also inside compiled
        functions at each run. Functions that were traced before are traced once more while a log is open, and run
        as they were traced at first when it is closed. A log hears its own thread and every thread that has no log
        of its own.

    Raises:
        ArgumentError: the arguments do not go together.
        ModeError: in the backward pass, where values are asked of a function that XLA compiles.
    """
    if models and isinstance(models[0], bool):
        raise ArgumentError("observe takes models by place; write gw.observe(values=True)")
    wish = {
        "everything": wishes.checked_statistics(statistics),
        "values": bool(values),
        "every": wishes.checked_every(every),
        "rules": wishes.wanted_rules(rules),
    }
    if layers is not None and not models:
        raise ArgumentError("layers= chooses among the layers of a model: gw.observe(model, layers=...)")
    if not models:
        return Log(None, live, **wish)
    from gradwright.observe.layers import LayerWatch

    watch = LayerWatch(models, layers)
    return Log(watch, live, layers=watch.identities, **wish)
