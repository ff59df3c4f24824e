"""Deliveries inside vectorised loops (`vectorized_map`, `jacobian`): the rows arrive one by one, in one step.

TensorFlow has no vectorised form of the ops that deliver. A resource found by name is the same for all rows; what
a row would put into a queue is put there for all rows at once.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from gradwright.frameworks import tf_private_doors as doors


def install() -> None:
    """Teach vectorised loops the ops that TensorFlow does not know there."""
    for op_type, convert in {
        "VarHandleOp": found_by_name,
        "FIFOQueueV2": found_by_name,
        "VarIsInitializedOp": same_for_all,
        "QueueEnqueueV2": put_all,
    }.items():
        doors.teach_vectorised_loops(op_type, convert)


def again(op: Any, inputs: list[Any]) -> Any:
    """The same op once more, in the graph that is being built."""
    graph = tf.compat.v1.get_default_graph()
    with tf.device(op.device):
        made = graph.create_op(op.type, inputs, [t.dtype for t in op.outputs], attrs=dict(op.node_def.attr))
    return made.outputs[0]


def found_by_name(pfor_input: Any) -> Any:
    """A handle."""
    return doors.for_all_rows(again(pfor_input.op, []))


def same_for_all(pfor_input: Any) -> Any:
    """An op on a handle."""
    return doors.for_all_rows(again(pfor_input.op, [pfor_input.unstacked_input(0)]))


def put_all(pfor_input: Any) -> Any:
    """Enqueue the element of every row."""
    rows = pfor_input.pfor.loop_len_vector[0]
    given = [pfor_input.input(i) for i in range(1, pfor_input.num_inputs)]
    stacked = [g.t if g.is_stacked else tf.repeat(g.t[None], rows, 0) for g in given]
    with tf.device(pfor_input.op.device):
        return tf.raw_ops.QueueEnqueueManyV2(handle=pfor_input.unstacked_input(0), components=stacked)
