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

from gradwright.frameworks import tf_forward, tf_guard, tf_linearity, tf_orders, tf_tapes
from gradwright.frameworks import tf_private as private
from gradwright.frameworks import tf_private_doors as doors
from gradwright.frameworks import tf_private_graphs as graphs
from gradwright.frameworks.tensorflow import seam
from gradwright.frameworks.tf_lift import Lifted, lift, trace
from gradwright.frameworks.tf_values import as_input, component, is_variable, raw_variable, with_component
from gradwright.outputs import Outputs
from gradwright.pullback import Pullback, inside_a_pullback
from gradwright.rule import Rule

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
    output, grad, reads = run(rule, bound, first_order)
    outputs = Outputs(output, seam)
    pullback = Pullback.of(rule, bound, outputs, grad, reads, seam)
    for variable in pullback.variables:
        private.tell_tapes_of(variable)
    inputs += [variable.handle for variable in pullback.variables]
    wholes = [outputs.leaves[i] for i in outputs.tensors]
    outputs.forget()
    pullback.dynamic_shape = shapes_in(graph, [*tensors, *pullback.variables])
    parts = [tf.convert_to_tensor(component(whole)) for whole in wholes]
    if not parts or not inputs:
        return outputs.rebuild([with_component(w, p) for w, p in zip(wholes, parts, strict=True)])
    emission = emitted(pullback, parts, inputs)
    if inside_a_pullback():
        tf_orders.refuse_lost_capture(rule, tensors)
        emission.loses = tf_orders.captures_unknown(rule, tensors)
    made = put(emission, graph, parts, inputs)
    return outputs.rebuild([with_component(w, m) for w, m in zip(wholes, made, strict=True)])


def run(rule: Rule, bound: Any, first_order: bool) -> tuple[Any, Any, list[Any]]:
    """Run the user's function; python control flow on tensors is converted where it turns out to need it."""
    try:
        return tf_tapes.run(rule, bound, first_order)
    except tf.errors.OperatorNotAllowedInGraphError:
        converted = doors.converted_by_autograph(rule.pair)
        return tf_tapes.run(rule, bound, first_order, converted)


def shapes_in(graph: Any, tensors: list[Any]) -> Any:
    """How to learn the shape of an input at run time: an op in the graph of the call, made when first asked for."""
    known: dict[int, Any] = {}

    def shape(index: int) -> Any:
        if index not in known:
            with graph.as_default(), private.record.stop_recording():
                known[index] = tf.shape(component(tensors[index]))
        return known[index]

    return shape


def emitted(pullback: Pullback, parts: list[Any], inputs: list[Any]) -> Emission:
    """Lift a pullback, and the rule's own jvp where it has one."""
    own = getattr(pullback.grad, "jvp", None)
    pushed = None
    if own is not None and not pullback.variables:
        pushed = trace(functools.partial(tf_forward.by_own_jvp, pullback, own), inputs, "pushforward")
    return Emission(pullback, lift(pullback, parts), pushed)


class Emission:
    """A call of a rule in a graph: what its op needs to be differentiated.

    The graph keeps it alive, the registry of gradients knows it by a weak reference only.
    """

    batched = False

    def __init__(self, pullback: Pullback, lifted: Lifted, pushed: Lifted | None = None):
        self.pullback, self.lifted, self.pushed = pullback, lifted, pushed
        self.name = f"Gradwright-{_PROCESS}-{pullback.rule.__name__}-{ops.uid()}"
        self.counts = (0, 0, 0)
        self.places: list[int] = []
        self.push_places: list[int] = []
        self.op: Any = None
        self.loses = False

    @functools.cached_property
    def linear(self) -> tf_linearity.Verdict:
        """Whether the pullback is linear in its upstreams."""
        if self.lifted.error is not None:
            raise self.lifted.error
        return tf_linearity.of_graph(self.lifted.function.graph, self.counts[0])

    def arrange(self, outputs: list[Any], inputs: list[Any]) -> list[Any]:
        """Give every captured value a place among the op's outputs, inputs or residuals; list the residuals."""
        known = {id(t): i for i, t in enumerate(outputs)}
        # An input that is handed on as an output is still the input to the grad that captured it.
        known.update({id(t): i for i, t in enumerate(inputs, len(outputs))})
        residuals: list[Any] = []
        for value in [*self.lifted.captured, *(self.pushed.captured if self.pushed else [])]:
            if id(value) not in known:
                known[id(value)] = len(outputs) + len(inputs) + len(residuals)
                residuals.append(value)
        self.places = [known[id(value)] for value in self.lifted.captured]
        self.push_places = [known[id(value)] for value in self.pushed.captured] if self.pushed else []
        self.counts = (len(outputs), len(inputs), len(residuals))
        return residuals

    def values(self, places: list[int], op_inputs: Any, op_outputs: Any) -> list[Any]:
        """The captured values, outputs from behind the op."""
        return [op_outputs[p] if p < self.counts[0] else op_inputs[p] for p in places]

    def values_for_export(self, op: Any) -> list[Any]:
        """The captured values as a saved model can bind them again: handles of variables from outside of the graph."""
        inside = self.values(self.places, op.inputs, op.outputs)
        pairs = zip(self.lifted.captured, inside, strict=True)
        return [c if isinstance(c, private.EagerTensor) else v for c, v in pairs]

    def pull(self, op_inputs: Any, op_outputs: Any, upstreams: list[Any]) -> list[Any]:
        """Gradients of the inputs, from the op's own tensors."""
        outs = self.counts[0]
        pairs = zip(upstreams[:outs], op_outputs[:outs], strict=True)
        ups = [dense(upstream, output) for upstream, output in pairs]
        return self.lifted(ups, self.values(self.places, op_inputs, op_outputs))

    def push(self, op_inputs: Any, op_outputs: Any, tangents: list[Any]) -> list[Any]:
        """Tangents of the outputs by the rule's own jvp."""
        assert self.pushed is not None
        outs = self.counts[0]
        # Integer and bool inputs come without a tangent; the traced jvp has a place for each input all the same.
        pairs = zip(tangents, op_inputs[outs : outs + len(tangents)], strict=True)
        tangents = [tf.zeros_like(i) if t is None and i.dtype != tf.resource else t for t, i in pairs]
        return self.pushed(tangents, self.values(self.push_places, op_inputs, op_outputs))

    def differentiate(self, op: Any, *upstreams: Any) -> list[Any]:
        """The gradient function of the op; at export TensorFlow asks without an op."""
        if self.loses:
            raise tf_orders.lost_capture(self.pullback.rule)
        outs, _, rest = self.counts
        if op is None:
            op = self.op()
            gradients = self.lifted(list(upstreams[:outs]), self.values_for_export(op))
            return [None] * outs + gradients + [None] * rest
        if self.lifted.error is None and (self.pushed is not None or not self.linear.linear):
            gradients = tf_guard.pull(self, op.inputs, op.outputs, list(upstreams))
        else:
            gradients = self.pull(op.inputs, op.outputs, list(upstreams))
        return [None] * outs + gradients + [None] * rest


def dense(upstream: Any, output: Any) -> Any:
    """An upstream that a function can take: zeros for none, slices summed."""
    if upstream is None:
        return tf.zeros_like(output)
    return tf.convert_to_tensor(upstream)


def put(emission: Emission, graph: Any, outputs: list[Any], inputs: list[Any]) -> list[Any]:
    """Put the op of a call into the graph and record it on the tapes; gives the outputs behind the op."""
    residuals = emission.arrange(outputs, inputs)
    made = put_recorded(emission, graph, [*outputs, *inputs, *residuals])
    tf_saved.write(emission, graph, made[0].op)
    return made[: len(outputs)]


def put_recorded(emission: Emission, graph: Any, tensors: list[Any]) -> list[Any]:
    """Put an op into the graph and record it on the tapes."""
    op = put_op(emission, graph, tensors)[0].op
    op_inputs, op_outputs = list(op.inputs), list(op.outputs)
    outs, inputs, _ = emission.counts

    def backward(*upstreams: Any) -> list[Any]:
        return emission.pull(op_inputs, op_outputs, list(upstreams))

    pushforward = functools.partial(tf_forward.in_graph, emission, op_inputs, op_outputs)
    recorded = [graphs.outside_of(graph, t) if t.dtype == tf.resource else t for t in tensors[outs : outs + inputs]]
    private.record_operation(emission.pullback.rule.name, op_outputs[:outs], recorded, backward, pushforward)
    return op_outputs


def put_op(emission: Any, graph: Any, tensors: list[Any]) -> list[Any]:
    """Put an IdentityN into the graph whose gradient is the emission's."""
    register(emission, graph)
    with private.record.stop_recording(), graph.gradient_override_map({"IdentityN": emission.name}):
        made = tf.identity_n(tensors)
    emission.op = weakref.ref(made[0].op)
    return list(made[0].op.outputs)


# The emissions that are alive, by the name of their gradient.
_live: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def emissions() -> list[Any]:
    """What stands in the graphs that are alive."""
    return list(_live.values())


def live(op: Any) -> Emission | None:
    """The emission that an op belongs to, if it is the op of a rule of this process."""
    return _live.get(graphs.gradient_name(op))


def register(emission: Any, graph: Any, replace: bool = False) -> None:
    """Register the gradient under its name for as long as a graph lives that may hold the op or a copy."""
    if _live.get(emission.name) is emission:
        return keep_alive(emission, graph)
    if replace:
        graphs.forget_gradient(emission.name)
    known = weakref.ref(emission)

    def gradient(op: Any, *upstreams: Any) -> list[Any]:
        return known().differentiate(op, *upstreams)  # type: ignore[union-attr]

    graphs.register_gradient(emission.name, gradient)
    weakref.finalize(emission, graphs.forget_gradient, emission.name)
    _live[emission.name] = emission
    keep_alive(emission, graph)


def keep_alive(emission: Any, graph: Any) -> None:
    """Let a graph, and those around it, own an emission."""
    for holder in graphs.enclosing_graphs(graph):
        if not hasattr(holder, "_gradwright_emissions"):
            holder._gradwright_emissions = []
        holder._gradwright_emissions.append(emission)


# What stands on this module: vectorised loops, saved models.
from gradwright.frameworks import tf_saved, tf_vectorise  # noqa: E402, F401
