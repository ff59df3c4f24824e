"""`explain` for TensorFlow: run a function while recording, walk back from what it returned, judge each source."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import composite_tensor, ops

from gradwright.errors import GradwrightError
from gradwright.explain import lines
from gradwright.explain.causes import Reason
from gradwright.explain.judge import Judge, Source, Tape
from gradwright.explain.record import Log, Node
from gradwright.explain.walk import Paths, Walk, unfold
from gradwright.frameworks import tf_explain as recorder
from gradwright.frameworks import tf_explain_pull as pull
from gradwright.frameworks.tf_explain_numbers import Numbers
from gradwright.frameworks.tf_values import component, is_variable


class Everything:
    """The tape of `explain(fn, ...)`: it recorded whatever ran."""

    def refuses(self, node: Node) -> str:
        """Nothing is refused."""
        return ""

    def outside(self, key: Any) -> bool:
        """Nothing is outside."""
        return False


@dataclass(frozen=True)
class Named:
    """A tensor or variable under the name that the user knows it by."""

    name: str
    value: Any


def explain(function: Callable, inputs: tuple, wrt: Any = None, keep_values: bool = True) -> list[Reason]:
    """Run `function(*inputs)`, and say for each source why its gradient is what it is."""
    given = [_as_input(value) for value in inputs]
    named = _inputs_by_name(function, given)
    sources = named if wrt is None else _chosen(wrt, named)
    if not sources:
        raise GradwrightError(
            "explain: none of the inputs is a tensor or variable, so there is nothing to take a gradient of\n"
            "  repair: gw.explain(fn, tf.constant([1.0, 2.0]))  # or name variables: wrt=[w]"
        )
    watched = [t for t in (component(s.value) for s in sources) if pull.differentiable(t) and not _frozen(t)]
    with recorder.recording(keep_values) as log:
        with tf.GradientTape(watch_accessed_variables=keep_values) as tape:
            if keep_values:
                tape.watch(watched)
            output = function(*given)
    targets = targets_of(output, "the function", log)
    known = [source_of(log, s, "not-trainable" if _frozen(s.value) else "") for s in sources]
    asked = lines.of_frame(sys._getframe(1))
    return judge(log, targets, known, Everything(), asked, lambda *_: None)


def judge(
    log: Log, targets: list, sources: Sequence[Source], tape: Tape, asked: str, outside_line: Callable
) -> list[Reason]:
    """Walk back through a log once and give the reason of each source."""
    keys, targets_keys = [s.key for s in sources], [key_of(t) for t in targets]
    recorder.remember(log, [t for t in targets if isinstance(t, ops.EagerTensor)], asked=True)
    outer = Paths(log.nodes, targets_keys, keys)
    between = {id(node) for node in outer.nodes}
    with recorder.at_rest():
        nodes = unfold(log.nodes, lambda node: id(node) in between)
        paths = Paths(nodes, targets_keys, keys)

        def kind_of(key):
            return recorder.kind_of(log, key)

        algebra = pull.Values(log) if log.keep_values else pull.States(kind_of)
        walk = Walk(paths, targets_keys, algebra, refuses=lambda node: bool(tape.refuses(node)))
        numbers = Numbers(log, outside_line)
        return Judge(walk, log, targets_keys, list(sources), kind_of, tape, numbers, asked).reasons()


def key_of(value: Any) -> Any:
    """What the record knows a tensor by; a variable by its handle."""
    inner = component(value)
    return inner.handle._id if is_variable(inner) else inner._id


def source_of(log: Log, source: Named, unwatched: str = "", since: int = 0) -> Source:
    """The judge's view of a source."""
    inner = component(source.value)
    tensor = inner.handle if is_variable(inner) else inner
    recorder.remember(log, [t for t in [tensor] if isinstance(t, ops.EagerTensor)], asked=True)
    return Source(source.name, tensor._id, pull.kind(inner), unwatched, since)


def targets_of(output: Any, whose: str, log: Log | None = None) -> list:
    """The tensors of a target; an error that says what came instead, if there are none."""
    flat = [component(t) for t in tf.nest.flatten(output)]
    tensors = [t for t in flat if isinstance(t, tf.Tensor)]
    variables = [t for t in flat if is_variable(t)]
    if variables:
        raise GradwrightError(
            f"explain: the target holds the variable `{variables[0].name}` itself, not something computed from it\n"
            "  repair: use a tensor computed from it, e.g. tf.reduce_sum(v)"
        )
    if tensors:
        return tensors
    left = f"; the last value left TensorFlow at {log.exits[-1].where}" if log is not None and log.exits else ""
    kinds = sorted({type(t).__name__ for t in flat}) or ["nothing"]
    raise GradwrightError(
        f"explain: {whose} gave {', '.join(kinds)}, not a tensor{left}\n"
        "  repair: return the tensor itself, before float(), .numpy() or print"
    )


def sources_of(values: Any, frame: Any = None) -> list[Named]:
    """The flat list of sources with names: the variable's own, the user's local name, or a number."""
    flat = tf.nest.flatten(values)
    for number, value in enumerate(flat):
        if not isinstance(value, tf.Tensor) and not is_variable(value) and not _composite(value):
            raise GradwrightError(
                f"explain: source {number} is {type(value).__name__}, not a tensor or variable\n"
                "  repair: x = tf.convert_to_tensor(x)  # before the tape, and then tape.watch(x)"
            )
    return [Named(_name(value, number, frame), value) for number, value in enumerate(flat)]


def _composite(value: Any) -> bool:
    return isinstance(value, composite_tensor.CompositeTensor)


def _name(value: Any, number: int, frame: Any) -> str:
    frame = users_frame(frame)
    for scope in (frame.f_locals, frame.f_globals) if frame is not None else ():
        for name, other in list(scope.items()):
            if other is value and not name.startswith("_"):
                return name
    inner = component(value)
    return inner.name.removesuffix(":0") if is_variable(inner) else f"source {number}"


def users_frame(frame: Any) -> Any:
    """The innermost frame of the user's code, as written or as AutoGraph has rewritten it."""
    found = frame
    while found is not None:
        name = found.f_code.co_filename
        if lines.rank(name) == lines.USER or "__autograph_generated_file" in name:
            return found
        found = found.f_back
    return frame


def _frozen(value: Any) -> bool:
    """A variable that no tape watches by itself."""
    inner = component(value)
    return is_variable(inner) and not inner.trainable


def _as_input(value: Any) -> Any:
    """Floats and arrays become tensors; whatever else the function takes is handed on as it is."""
    if isinstance(value, (float, complex, np.floating, np.complexfloating, np.ndarray)):
        return tf.convert_to_tensor(value, tf.float32 if isinstance(value, float) else None)
    return value


def _inputs_by_name(function: Callable, inputs: list) -> list[Named]:
    names = _parameters(function, len(inputs))
    named: list[Named] = []
    for name, value in zip(names, inputs, strict=True):
        with contextlib.suppress(TypeError):
            named += _leaves(name, value)
    return named


def _leaves(name: str, value: Any) -> list[Named]:
    if isinstance(value, dict):
        return [leaf for k in value for leaf in _leaves(f"{name}[{k!r}]", value[k])]
    if isinstance(value, (list, tuple)):
        return [leaf for i, part in enumerate(value) for leaf in _leaves(f"{name}[{i}]", part)]
    if isinstance(value, tf.Tensor) or is_variable(value) or _composite(value):
        return [Named(name, value)]
    return []


def _parameters(function: Callable, count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [f"input {i}" for i in range(count)]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), "input")
    return [names[i] if i < len(names) else f"{rest}[{i - len(names)}]" for i in range(count)]


def _chosen(wrt: Any, named: list[Named]) -> list[Named]:
    """`wrt` may be tensors, variables, argument names or numbers, or a list of these."""
    chosen: list[Named] = []
    for item in wrt if isinstance(wrt, (list, tuple)) else [wrt]:
        if isinstance(item, str):
            found = [n for n in named if n.name == item or n.name.startswith((f"{item}[", f"{item}."))]
        elif isinstance(item, int) and not isinstance(item, bool):
            found = named[item : item + 1] if item >= 0 else named[item:][:1]
        else:
            found = [n for n in named if n.value is item] or sources_of([item])
        if not found:
            known = ", ".join(n.name for n in named)
            raise GradwrightError(f"explain: wrt={item!r} names none of the inputs\n  repair: wrt=... one of: {known}")
        chosen += found
    return chosen


def never_entered() -> GradwrightError:
    """The error for a tape that was asked before it recorded anything."""
    return GradwrightError(
        "explain: this tape has not recorded anything; its `with` block was never entered\n"
        "  repair: with gw.GradientTape() as tape: y = f(x)  # and then tape.explain(y, x)"
    )
