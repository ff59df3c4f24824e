"""Running a subject once: a pair (output, grad), an opened rule of gradwright, or a plain differentiable function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwright import errors
from gradwright.check.fitted import Leaf
from gradwright.check.report import Fault
from gradwright.check.subject import Answer, Opened, Refused, Subject, wide

LABELS = {
    errors.GradientShapeError: "shape",
    errors.GradientDtypeError: "dtype",
    errors.GradientCountError: "count",
    errors.VariablesError: "variables",
    errors.ModeError: "mode",
}


def differentiable(dtype: str) -> bool:
    """Whether gradients exist for this dtype."""
    return dtype.startswith(("float", "bfloat", "complex"))


def open_subject(subject: Subject, values: list[np.ndarray], precise: bool) -> Opened:
    """Run the subject at these values (in double precision if `precise`); `Refused` when its rule cannot be used."""
    tensors = subject.tensors(values, precise)
    opened = _open(subject, tensors)
    opened.inputs = tensors
    return opened


def _open(subject: Subject, tensors: list[Any]) -> Opened:
    if subject.rule is not None:
        return _open_rule(subject, tensors)
    if subject.pair is not None:
        return _open_pair(subject, tensors)
    outputs, pull = subject.backend.vjp(subject.over(subject.apply), tensors, subject.variables)
    return _opened(subject, outputs, lambda ups: _blamed(subject, lambda: pull(ups)))


def _open_pair(subject: Subject, tensors: list[Any]) -> Opened:
    args, kwargs = subject.fill(tensors)
    output, grad = subject.pair(*args, **kwargs)  # type: ignore[misc]
    flat = subject.backend.flatten(output)
    return _opened(
        subject, flat, lambda ups: _answer_of_pair(subject, _blamed(subject, lambda: _call(subject, grad, ups)))
    )


def _call(subject: Subject, grad: Callable[..., Any], upstreams: list[Any]) -> Any:
    if not subject.variables:
        return grad(*upstreams)
    if not takes_variables(grad):
        names = ", ".join(f"`{leaf.name}`" for leaf in subject.leaves[len(subject.slots) :])
        raise Refused(
            Fault(
                "variables",
                None,
                f"the rule reads {names} and its grad does not take `variables`",
                repair="def grad(upstream, variables=None): return input_gradients, variable_gradients",
            )
        )
    return grad(*upstreams, variables=list(subject.variables))


def takes_variables(grad: Callable[..., Any]) -> bool:
    """Whether a rule's grad can be told its variables."""
    try:
        parameters = inspect.signature(grad).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in parameters)


def _answer_of_pair(subject: Subject, result: Any) -> Answer:
    count = len(subject.variables)
    inputs, variables = result, []
    if count:
        if not (isinstance(result, (tuple, list)) and len(result) == 2):
            raise Refused(_variables_fault(subject, "the rule did not return (input gradients, variable gradients)"))
        inputs, variables = result[0], list(result[1] if result[1] is not None else [])
        if len(variables) != count:
            raise Refused(_variables_fault(subject, f"{len(variables)} gradients came back for {count} variables"))
    return subject.fitted(_by_slot(subject, inputs) + variables)


def _variables_fault(subject: Subject, fact: str) -> Fault:
    names = ", ".join(f"`{leaf.name}`" for leaf in subject.leaves[len(subject.slots) :])
    repair = "return input_gradients, [gradient of each of `variables`]"
    return Fault("variables", None, f"{fact}; the function reads {names}", repair=repair)


def _by_slot(subject: Subject, inputs: Any) -> list[Any]:
    """The rule's answer, one gradient a differentiable leaf, as TensorFlow counts: one for every positional leaf."""
    flat = _flat(inputs)
    if len(flat) == len(subject.call.slots):
        return [flat[index] for index in subject.slots]
    if len(flat) == len(subject.slots) and not subject.strict:
        return flat
    names = ", ".join(f"`{slot.name}`" for slot in subject.call.slots)
    raise Refused(
        Fault(
            "count",
            None,
            f"the rule returned {len(flat)} gradients for {len(subject.call.slots)} arguments ({names})",
            repair="return " + ", ".join(f"gradient_of_{i}" for i in range(len(subject.call.slots))),
        )
    )


def _flat(inputs: Any) -> list[Any]:
    if isinstance(inputs, dict):
        return [item for key in sorted(inputs) for item in _flat(inputs[key])]
    if isinstance(inputs, (tuple, list)):
        return [item for part in inputs for item in _flat(part)]
    return [inputs]


def _open_rule(subject: Subject, tensors: list[Any]) -> Opened:
    args, kwargs = subject.fill(tensors)
    call = subject.rule.open(*args, **kwargs)
    opened = _opened(subject, list(call.outputs), lambda ups: _answer_of_rule(subject, call, ups))
    opened.pushes = callable(getattr(call.grad, "jvp", None))
    return opened


def _answer_of_rule(subject: Subject, call: Any, upstreams: list[Any]) -> Answer:
    pulled = _blamed(subject, lambda: call.pull(upstreams, fit=False))
    by_name = dict(zip(call.names, pulled.gradients, strict=True))
    names = [leaf.name for leaf in subject.arguments]
    known = all(name in by_name for name in names)
    gradients = [by_name[name] for name in names] if known else list(pulled.gradients)[: len(names)]
    by_variable = {id(v): g for v, g in zip(call.variables, pulled.variable_gradients or [], strict=False)}
    return subject.fitted(gradients + [by_variable.get(id(v)) for v in subject.variables])


def _blamed(subject: Subject, step: Callable[[], Any]) -> Any:
    """Run a step of the rule; whatever it raises is a fault of the rule."""
    try:
        return step()
    except Refused:
        raise
    except Exception as error:
        label = next((label for kind, label in LABELS.items() if isinstance(error, kind)), None) or _guessed(str(error))
        first = str(error).strip().splitlines()[0] if str(error).strip() else ""
        text = (
            first if isinstance(error, errors.GradwrightError) else f"the rule raised {type(error).__name__}: {first}"
        )
        raise Refused(Fault(label, _argument_in(subject, first), text, repair=_repair_in(str(error)))) from error


def _guessed(text: str) -> str:
    """The label of what TensorFlow itself says of a rule."""
    if "custom_gradient function expected to return" in text:
        return "count"
    return "variables" if "'variables'" in text or "gradient for each variable" in text else "value"


def _argument_in(subject: Subject, text: str) -> str | None:
    return next((leaf.name for leaf in subject.leaves if f"`{leaf.name}`" in text), None)


def _repair_in(text: str) -> str | None:
    return next((line.split("repair:", 1)[1].strip() for line in text.splitlines() if "repair:" in line), None)


def _opened(subject: Subject, outputs: list[Any], pull: Callable[[list[Any]], Any]) -> Opened:
    """Outputs as NumPy arrays; integer outputs get zeros for an upstream and are not judged."""
    backend = subject.backend
    dtypes = [backend.dtype(t) for t in outputs]
    live = [i for i, dtype in enumerate(dtypes) if differentiable(dtype)]
    arrays = [wide(backend.numpy(outputs[i])) for i in live]

    def pull_arrays(upstreams: list[np.ndarray]) -> Answer:
        given = dict(zip(live, upstreams, strict=True))
        full = [
            backend.tensor(given[i] if i in given else np.zeros(np.shape(backend.numpy(t))), t, dtypes[i])
            for i, t in enumerate(outputs)
        ]
        answer = pull(full)
        return answer if isinstance(answer, Answer) else subject.fitted(list(answer))

    return Opened(arrays, [dtypes[i] for i in live], pull_arrays)


def leaf_of(backend: Any, name: str, kind: str, value: Any) -> Leaf:
    """The facts of one input."""
    return Leaf(name, kind, value, backend.dtype(value), tuple(backend.numpy(value).shape))
