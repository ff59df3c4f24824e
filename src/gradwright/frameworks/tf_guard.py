"""A pullback that TensorFlow may transpose, guarded by an op of its own.

TensorFlow makes the JVP of a whole function by differentiating its backward function. A rule with a jvp of its own
answers for itself there; one that is not linear in its upstream refuses. The guard carries all it needs through its
op, as the rule's own op does.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

from gradwright import events
from gradwright.frameworks import tf_forward
from gradwright.frameworks import tf_private as private
from gradwright.frameworks import tf_private_doors as doors
from gradwright.frameworks import tf_private_graphs as graphs


def pull(emission: Any, op_inputs: Any, op_outputs: Any, upstreams: list[Any]) -> list[Any]:
    """Pull back, with the guard behind."""
    outs = emission.counts[0]
    ups = [tf_forward.zeros_or(u, o) for u, o in zip(upstreams[:outs], op_outputs[:outs], strict=True)]
    gradients = emission.pull(op_inputs, op_outputs, ups)
    dense = [i for i, g in enumerate(gradients) if isinstance(g, tf.Tensor)]
    if not dense:
        return gradients
    guard = Guard(emission, dense)
    for i, kept in zip(dense, guard.put(gradients, ups, op_inputs, op_outputs), strict=True):
        gradients[i] = kept
    return gradients


class Guard:
    """The op behind a pullback: (gradients, upstreams, captured values, values of the jvp, outputs) pass through."""

    def __init__(self, emission: Any, dense: list[int]):
        self.emission, self.dense = emission, dense
        self.name = f"{emission.name}-guard-{ops.uid()}"
        self.op: Any = None
        self.made_for = doors.op_being_recorded()

    def for_forward_mode(self) -> bool:
        """Whether the guard is asked for the JVP of the rule, and not for a derivative of its gradient.

        The JVP of a branch or loop is made while that op is recorded: its gradient is built and differentiated at once.
        """
        if doors.transposing_for_forward_mode():
            return True
        return self.made_for is not None and self.made_for == doors.op_being_recorded()

    def put(self, gradients: list[Any], ups: list[Any], op_inputs: Any, op_outputs: Any) -> list[Any]:
        """Put the op into the graph that is being built; gives the gradients behind it."""
        from gradwright.frameworks.tf_graph import register

        emission = self.emission
        values = emission.values(emission.places, op_inputs, op_outputs)
        pushed = emission.values(emission.push_places, op_inputs, op_outputs)
        outs, inputs = emission.counts[:2]
        like = list(op_inputs[outs : outs + inputs]) if emission.pushed is not None else []
        self.cuts = [0]
        for part in (self.dense, ups, values, pushed, like):
            self.cuts.append(self.cuts[-1] + len(part))
        graph = tf.compat.v1.get_default_graph()
        register(self, graph)
        kept = [gradients[i] for i in self.dense]
        with graph.gradient_override_map({"IdentityN": self.name}):
            made = tf.identity_n([*kept, *ups, *values, *pushed, *like])
        self.op = made[0].op
        if private.possible_orders([*kept, *ups, *values]):
            tensors = list(made[0].op.inputs)
            backward = functools.partial(self.recorded, tensors)
            private.record_operation("guard", list(made), [*kept, *ups, *values, *pushed, *like], backward, None)
        return list(made)[: len(kept)]

    def recorded(self, tensors: list[Any], *tangents: Any) -> list[Any]:
        """The backward of the op for a tape in the same graph."""
        return self.answer(tensors, list(tangents))

    def differentiate(self, op: Any, *tangents: Any) -> list[Any]:
        """The gradient function of the op."""
        return self.answer(list((self.op if op is None else op).inputs), list(tangents))

    def answer(self, tensors: list[Any], tangents: list[Any]) -> list[Any]:
        """Forward mode gets the rule's answer, a derivative of higher order the pullback's own derivative."""
        kept, ups, values, pushed, like = (tensors[a:b] for a, b in zip(self.cuts, self.cuts[1:], strict=False))
        tangents = [tf_forward.zeros_or(t, k) for t, k in zip(tangents[: len(kept)], kept, strict=True)]
        with events.unwatched():
            if self.for_forward_mode():
                found = self.forward_mode(tangents, ups, values, pushed, like) + [None] * len(values)
            else:
                found = self.derivative(tangents, ups, values)
        return [None] * len(kept) + found + [None] * (len(pushed) + len(like))

    def forward_mode(self, tangents: Any, ups: Any, values: Any, pushed: Any, like: Any) -> list[Any]:
        """The rule's own jvp; or the transpose, tried with numbers; or a refusal."""
        emission = self.emission
        if emission.linear.reason and emission.pushed is None:
            raise tf_forward.nonlinear(emission.pullback, emission.linear.reason)
        given: list[Any] = [None] * emission.counts[1]
        for i, tangent in zip(self.dense, tangents, strict=True):
            given[i] = tangent
        if emission.pushed is not None:
            return emission.pushed(
                [tf.zeros_like(v) if t is None else t for t, v in zip(given, like, strict=True)], pushed
            )

        tf_forward.refuse_unseen_in_batch(emission)
        if graphs.is_branch_gradient(tf.compat.v1.get_default_graph()):
            raise tf_forward.nonlinear(emission.pullback, "its ops cannot be seen into, inside a branch")

        def lifted(upstreams: list[Any]) -> list[Any]:
            return emission.lifted(upstreams, values)

        made = tf_forward.transpose(lifted, emission.pullback.output_spaces, given, ups)
        return tf_forward.checked_at_run_time(emission.pullback, lifted, ups, made)

    def derivative(self, tangents: list[Any], ups: list[Any], values: list[Any]) -> list[Any]:
        """The derivative of the pullback by its upstreams and by the values it captured."""
        sources = [here(t) for t in (*ups, *values)]
        gradients = self.emission.lifted(sources[: len(ups)], sources[len(ups) :])
        return tf.gradients([gradients[i] for i in self.dense], sources, tangents)


def here(tensor: Any) -> Any:
    """A tensor as a source of its own in the graph that is being built.

    A captured output depends on a captured input; as they are, the derivative by the input would count that path
    too, which the output's own upstream brings already.
    """
    return tf.identity(tensor)
