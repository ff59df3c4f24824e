"""Rules inside `vectorized_map`: the rule's op, converted to one that carries the whole batch and keeps the rule.

TensorFlow's own conversion of IdentityN drops the gradient that the op was given.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from gradwright.frameworks import tf_graph
from gradwright.frameworks import tf_private_doors as doors
from gradwright.frameworks.tf_lift import Lifted


class BatchedLifted:
    """A lifted function, mapped over the first axis of what is stacked.

    Args:
        single: the function of one row.
        stacked: for each given tensor (upstreams, then captured values), whether it has a row axis.
        shared: for each result, whether the rows share it, so that it is the sum over them.
    """

    def __init__(self, single: Lifted, stacked: list[bool], shared: list[bool]):
        self.single, self.stacked, self.shared = single, stacked, shared
        self.captured, self.error = single.captured, single.error
        self.function, self.template = single.function, single.template

    def __call__(self, upstreams: list[Any], values: list[Any]) -> list[Any]:
        """Results for the whole batch."""
        if self.error is not None:
            raise self.error
        given = [*upstreams, *values]
        there = [g is not None for g in self.template]

        @tf.autograph.experimental.do_not_convert
        def one(rows: list[Any]) -> list[Any]:
            row = iter(rows)
            whole = [next(row) if s else g for g, s in zip(given, self.stacked, strict=True)]
            made = self.single(whole[: len(upstreams)], whole[len(upstreams) :])
            return [tf.convert_to_tensor(g) for g in made if g is not None]

        mapped = [g for g, s in zip(given, self.stacked, strict=True) if s]
        found = iter(tf.vectorized_map(one, mapped))
        made = [next(found) if is_there else None for is_there in there]
        return [
            tf.reduce_sum(g, 0) if g is not None and shared else g for g, shared in zip(made, self.shared, strict=True)
        ]


class Batched(tf_graph.Emission):
    """The emission of a whole batch; an input that all rows share gets the sum of its gradients."""

    batched = True

    def __init__(self, single: tf_graph.Emission, stacked: list[bool]):
        outs, inputs, _ = single.counts
        of_inputs = stacked[outs : outs + inputs]
        values = [stacked[p] for p in single.places]
        lifted = BatchedLifted(single.lifted, [True] * outs + values, [not s for s in of_inputs])
        pushed = None
        if single.pushed is not None:
            values = [stacked[p] for p in single.push_places]
            pushed = BatchedLifted(single.pushed, of_inputs + values, [False] * outs)
        super().__init__(single.pullback, lifted, pushed)  # type: ignore[arg-type]
        self.counts, self.places, self.push_places = single.counts, single.places, single.push_places
        self.single = single

    @property
    def linear(self) -> Any:  # type: ignore[override]
        """As linear as the rule of one row."""
        return self.single.linear


def convert(pfor_input: Any, native: Any) -> Any:
    """Convert one IdentityN; only those that carry a rule are ours."""
    single = tf_graph.live(pfor_input.op)
    if single is None:
        return native(pfor_input)
    from tensorflow.python.ops.parallel_for.pfor import wrap

    outs = single.counts[0]
    stacked = [given.is_stacked for given in pfor_input.inputs]
    tensors = [given.t for given in pfor_input.inputs]
    if not any(stacked):
        made = again(single, tensors)
        return [wrap(t, False) for t in made]
    rows = pfor_input.pfor.loop_len_vector[0]
    for i in range(outs):
        if not stacked[i]:
            tensors[i] = tf.repeat(tensors[i][None], rows, 0)
            stacked[i] = True
    made = tf_graph.put_recorded(Batched(single, stacked), tf.compat.v1.get_default_graph(), tensors)
    return [wrap(t, s) for t, s in zip(made, stacked, strict=True)]


def again(single: tf_graph.Emission, tensors: list[Any]) -> list[Any]:
    """The same op once more, for a call that does not depend on the row."""
    graph = tf.compat.v1.get_default_graph()
    tf_graph.keep_alive(single, graph)
    with graph.gradient_override_map({"IdentityN": single.name}):
        return list(tf.identity_n(tensors))


doors.convert_in_pfor("IdentityN", convert)
