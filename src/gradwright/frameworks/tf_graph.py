"""Rules in graphs: one IdentityN op per call, whose gradient is the rule's lifted pullback.

The op carries the outputs, the inputs and the residuals. Its gradient function reads all of them from the op it is
asked about, never from a closure, so that the rule survives every copy of the graph; the outputs are read behind
the op, so that derivatives of the derivative follow the rule.
"""

from __future__ import annotations

import functools
import uuid
import weakref
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

from gradwright.frameworks import tf_forward, tf_tapes
from gradwright.frameworks import tf_private as private
from gradwright.frameworks.tensorflow import as_input, component, is_variable, raw_variable, seam, with_component
from gradwright.frameworks.tf_lift import Lifted, lift
from gradwright.outputs import Outputs
from gradwright.rule import Pullback, Rule

# Names of gradients must differ between processes: a saved model brings the names of the one that wrote it.
_PROCESS = uuid.uuid4().hex[:8]


def general(rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Put a call of a rule into the graph that is being built."""
    graph = tf.compat.v1.get_default_graph()
    bound = rule.bind(args, kwargs, seam)
    tensors = bound.tensors()
    for tensor in tensors:
        if is_variable(tensor) and raw_variable(tensor).trainable:
            private.tell_tapes_of(raw_variable(tensor))
    inputs = [as_input(tensor) for tensor in tensors]
    first_order = private.possible_orders(inputs) == 1 and tf_tapes.only_one_tape()
    output, grad, reads = tf_tapes.run(rule, bound, first_order)
    outputs = Outputs(output, seam)
    pullback = Pullback.of(rule, bound, outputs, grad, reads, seam)
    for variable in pullback.variables:
        private.tell_tapes_of(variable)
    inputs += [variable.handle for variable in pullback.variables]
    wholes = [outputs.leaves[i] for i in outputs.tensors]
    outputs.forget()
    pullback.dynamic_shape = shapes_in(graph, [*tensors, *pullback.variables])
    parts = [tf.convert_to_tensor(component(whole)) for whole in wholes]
    made = put(Emission(pullback, lift(pullback, parts)), graph, parts, inputs) if parts and inputs else parts
    return outputs.rebuild([with_component(w, m) for w, m in zip(wholes, made, strict=True)])


def shapes_in(graph: Any, tensors: list[Any]) -> Any:
    """How to learn the shape of an input at run time: an op in the graph of the call, made when first asked for."""
    known: dict[int, Any] = {}

    def shape(index: int) -> Any:
        if index not in known:
            with graph.as_default(), private.record.stop_recording():
                known[index] = tf.shape(component(tensors[index]))
        return known[index]

    return shape


class Emission:
    """A call of a rule in a graph: what its op needs to be differentiated.

    The graph keeps it alive, the registry of gradients knows it by a weak reference only.
    """

    def __init__(self, pullback: Pullback, lifted: Lifted):
        self.pullback, self.lifted = pullback, lifted
        self.name = f"Gradwright-{_PROCESS}-{pullback.rule.__name__}-{ops.uid()}"
        self.counts = (0, 0, 0)
        self.places: list[int] = []
        self.op: Any = None

    def arrange(self, outputs: list[Any], inputs: list[Any]) -> list[Any]:
        """Give every captured value a place among the op's outputs, inputs or residuals; list the residuals."""
        known = {id(t): i for i, t in enumerate(inputs, len(outputs))}
        known.update({id(t): i for i, t in enumerate(outputs)})
        residuals: list[Any] = []
        for value in self.lifted.captured:
            if id(value) not in known:
                known[id(value)] = len(outputs) + len(inputs) + len(residuals)
                residuals.append(value)
            self.places.append(known[id(value)])
        self.counts = (len(outputs), len(inputs), len(residuals))
        return residuals

    def pull(self, op_inputs: Any, op_outputs: Any, upstreams: list[Any]) -> list[Any]:
        """Gradients of the inputs, from the op's own tensors."""
        outs = self.counts[0]
        pairs = zip(upstreams[:outs], op_outputs[:outs], strict=True)
        ups = [dense(upstream, output) for upstream, output in pairs]
        values = [op_outputs[p] if p < outs else op_inputs[p] for p in self.places]
        return self.lifted(ups, values)

    def differentiate(self, op: Any, *upstreams: Any) -> list[Any]:
        """The gradient function of the op; at export TensorFlow asks without an op."""
        op = self.op() if op is None else op
        outs, _, rest = self.counts
        gradients = self.pull(op.inputs, op.outputs, list(upstreams))
        return [None] * outs + gradients + [None] * rest


def dense(upstream: Any, output: Any) -> Any:
    """An upstream that a function can take: zeros for none, slices summed."""
    if upstream is None:
        return tf.zeros_like(output)
    return tf.convert_to_tensor(upstream)


def put(emission: Emission, graph: Any, outputs: list[Any], inputs: list[Any]) -> list[Any]:
    """Put the op into the graph and record it on the tapes; gives the outputs behind the op."""
    residuals = emission.arrange(outputs, inputs)
    register(emission, graph)
    with private.record.stop_recording(), graph.gradient_override_map({"IdentityN": emission.name}):
        made = tf.identity_n([*outputs, *inputs, *residuals])
    op = made[0].op
    emission.op = weakref.ref(op)
    made = list(op.outputs)[: len(outputs)]
    replace_outputs(emission.pullback, outputs, made)
    op_inputs, op_outputs = list(op.inputs), list(op.outputs)

    def backward(*upstreams: Any) -> list[Any]:
        return emission.pull(op_inputs, op_outputs, list(upstreams))

    pushforward = functools.partial(tf_forward.in_graph, emission, op_inputs, op_outputs)
    private.record_operation(emission.pullback.rule.name, made, inputs, backward, pushforward)
    return made


def replace_outputs(pullback: Pullback, outputs: list[Any], made: list[Any]) -> None:
    """Let the rule's own jvp see the outputs behind the op."""
    if getattr(pullback.grad, "jvp", None) is not None:
        for old, new in zip(outputs, made, strict=True):
            tf_tapes.replace_in_closure(pullback.grad.jvp, old, new)


def register(emission: Emission, graph: Any) -> None:
    """Register the gradient under its name for as long as a graph lives that may hold the op or a copy."""
    known = weakref.ref(emission)

    def gradient(op: Any, *upstreams: Any) -> list[Any]:
        return known().differentiate(op, *upstreams)  # type: ignore[union-attr]

    private.register_gradient(emission.name, gradient)
    weakref.finalize(emission, private.forget_gradient, emission.name)
    for holder in private.enclosing_graphs(graph):
        if not hasattr(holder, "_gradwright_emissions"):
            holder._gradwright_emissions = []
        holder._gradwright_emissions.append(emission)
