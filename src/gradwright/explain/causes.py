"""The causes by name: for each a sentence that a beginner understands, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass, field

CAUSES: dict[str, tuple[str, str]] = {
    "not-watched": (
        "the tape does not watch {source}, so nothing that is computed from it is recorded",
        "tape.watch({name})  # before its first use, inside the `with` block",
    ),
    "outside-tape": (
        "{op} ran outside the tape's `with` block, so the tape has no record of it",
        "move this line inside the `with gw.GradientTape() as tape:` block",
    ),
    "recording-stopped": (
        "{op} ran while the tape's recording was stopped, so the tape has no record of it",
        "move this line out of `with tape.stop_recording():`",
    ),
    "not-trainable": (
        "{source} was made with trainable=False, and a tape watches only trainable variables by itself",
        "tape.watch({name})  # or make it with tf.Variable(..., trainable=True)",
    ),
    "unused": (
        "the target was computed without {source}",
        "use {source} in the computation, or leave it out of the sources",
    ),
    "integer": (
        "{op} gives whole numbers or true/false ({dtype}); they move in jumps, so no gradient passes them",
        "stay in floats: a smooth stand-in (tf.nn.softmax for argmax, tf.sigmoid for a comparison), "
        "or gw.ops.straight_through",
    ),
    "numpy": (
        "the value left TensorFlow through {how} and came back as a plain number, which has no history",
        "use tf operations here instead of Python or NumPy",
    ),
    "stop-gradient": (
        "{op} lets the value through and stops the gradient",
        "remove tf.stop_gradient here, if this path should learn",
    ),
    "no-gradient": (
        "TensorFlow has no gradient for {op}{detail}",
        "replace it by a smooth operation, or give it one: gw.custom_gradient or gw.ops.straight_through",
    ),
    "rule-none": (
        "the custom gradient {op} returned None for this input",
        "return a gradient for every tensor argument of the rule",
    ),
    "py-function": (
        "{op} runs plain Python, which TensorFlow cannot differentiate{detail}",
        "write it with tf operations, or put it into gw.custom_gradient with a gradient of its own",
    ),
    "assigned": (
        "the value went through a variable: {op} stores it, and what is read later has no history",
        "use the value itself in the computation, and assign it only to keep it",
    ),
    "flat": (
        "{op} is flat here: moving its input a little does not move its output, so its derivative is zero{detail}",
        "keep the input where the function moves, or use a function that does (leaky relu, soft clip, "
        "gw.ops.straight_through)",
    ),
    "masked-branch": (
        "the derivative of {op} is not finite here; the result was not used{by}, but 0 times infinity is NaN{detail}",
        "make the input safe before the function too: tf.where(ok, f(tf.where(ok, x, 1.0)), 0.0)",
    ),
    "singular-point": (
        "the derivative of {op} is not finite here{detail}",
        "{instead}",
    ),
}

_AWAY = "keep the input away from this point: add a small number inside, or use"
_OVERFLOW = (
    "keep the input small, or use a form that cannot overflow: tf.reduce_logsumexp, tf.nn.softmax, gw.ops.softplus"
)
_INSTEAD = {  # of an op whose derivative is not finite
    "Sqrt": f"{_AWAY} gw.ops.safe_norm for a norm, gw.ops.where for another root",
    "Exp": _OVERFLOW,
    "Expm1": _OVERFLOW,
    "RealDiv": f"{_AWAY} tf.math.divide_no_nan",
    "Div": f"{_AWAY} tf.math.divide_no_nan",
}


def instead_of(op: str | None) -> str:
    """What to write in place of an op where its derivative is not finite.

    >>> from gradwright.explain.causes import instead_of
    >>> instead_of("Log").endswith("gw.ops.where")
    True
    """
    return _INSTEAD.get(op or "", f"{_AWAY} gw.ops.where")


@dataclass(frozen=True)
class Reason:
    """Why the gradient of one source is what it is.

    >>> from gradwright.explain.causes import Reason
    >>> print(Reason("x", "none", "stop-gradient", "StopGradient", "train.py:12", "it was stopped", "remove it"))
    x: no gradient (stop-gradient): it was stopped
      at train.py:12, StopGradient
      repair: remove it

    `status` is `ok`, `none`, `zero` or `nonfinite`. `also` holds what else was found, on other paths.
    """

    source: str
    status: str
    cause: str | None = None
    op: str | None = None
    where: str | None = None
    message: str = ""
    repair: str | None = None
    also: tuple[Reason, ...] = field(default=())

    def __str__(self) -> str:
        return "\n".join(self._lines(f"{self.source}: {_STATUS[self.status]}"))

    def _lines(self, head: str) -> list[str]:
        lines = [f"{head} ({self.cause}): {self.message}" if self.cause else f"{head}: {self.message}"]
        if self.where or self.op:
            lines.append("  at " + ", ".join(x for x in (self.where, self.op) if x))
        if self.repair:
            lines.append(f"  repair: {self.repair}")
        for other in self.also:
            lines += ["  " + line for line in other._lines("also")]
        return lines

    def to_dict(self) -> dict:
        """Plain values, for JSON."""
        named = ("source", "status", "cause", "op", "where", "message", "repair")
        return {name: getattr(self, name) for name in named} | {"also": [other.to_dict() for other in self.also]}


_STATUS = {"ok": "a gradient arrives", "none": "no gradient", "zero": "the gradient is zero", "nonfinite": "NaN or Inf"}


def compose(source: str, status: str, cause: str, op: str | None, where: str | None, /, **facts: str) -> Reason:
    """Put a reason together from its cause and the facts of this run.

    >>> from gradwright.explain.causes import compose
    >>> compose("x", "none", "integer", "ArgMax", "train.py:7", dtype="int64").where
    'train.py:7'
    """
    sentence, repair = CAUSES[cause]
    words = {
        "op": op or "this step",
        "source": f"`{source}`",
        "detail": "",
        "by": "",
        "name": source,
        "how": "Python",
        "dtype": "integers",
        "instead": instead_of(op),
    }
    words |= facts
    return Reason(source, status, cause, op, where, sentence.format_map(words), repair.format_map(words))
