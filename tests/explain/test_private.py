"""The private corners of TensorFlow: the fall-backs give the same, and the small helpers are right."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

import gradwright as gw
from gradwright.explain import lines, sourcing
from gradwright.explain.causes import CAUSES
from gradwright.frameworks import tf_explain_pull as pull
from gradwright.frameworks import tf_explain_unfold as unfold


@pytest.mark.parametrize("name", ["Sign", "MatMul", "Floor"])
def test_gradient_functions_without_the_private_registry(monkeypatch, name):
    expected = pull.registered(name)
    monkeypatch.delattr(ops, "_gradient_registry")
    assert pull.registered(name) is expected


def test_explain_without_the_private_registry(monkeypatch):
    monkeypatch.delattr(ops, "_gradient_registry")
    (reason,) = gw.explain(lambda x: tf.floor(x), tf.constant([1.0]))
    assert (reason.status, reason.cause) == ("none", "no-gradient")


def test_branches_and_loops_from_their_definitions():
    """When the traced graphs of a conditional or loop are gone, TensorFlow rebuilds them from their definitions."""

    @tf.function
    def f(x):
        h = tf.cond(x[0] > 0.0, lambda: x * 2.0, lambda: x)
        return tf.while_loop(lambda i, h: i < 2, lambda i, h: (i + 1, tf.floor(h)), [0, h])[1]

    x = tf.constant([1.5, 2.5])
    graph = f.get_concrete_function(x).graph
    for operation in graph.get_operations():
        for name in ("_true_graph", "_false_graph", "_body_graph", "_cond_graph"):
            if hasattr(operation, name):
                delattr(operation, name)
    (reason,) = gw.explain(f, x)
    assert (reason.status, reason.cause, reason.op) == ("none", "no-gradient", "Floor")


def test_running_a_graph_again_gives_its_outputs():
    @tf.function
    def f(x):
        h, i = tf.zeros_like(x), 0
        while i < 3:
            h, i = h + tf.sin(x) * tf.cast(i, tf.float32), i + 1
        best, place = tf.math.top_k(h, 2)
        return tf.linalg.matvec(tf.reshape(tf.range(4.0), (2, 2)), best) + tf.cast(place, tf.float32)

    x = tf.constant([0.3, 0.9, 0.5])
    concrete = f.get_concrete_function(x)
    from gradwright.explain.record import Log

    scope = unfold.Scope(concrete.graph, Log(), {})
    np.testing.assert_allclose(unfold._run(scope, [x])[0], f(x), rtol=1e-6)


def test_ranks_of_files():
    assert lines.rank(__file__) == lines.USER
    assert lines.rank(tf.__file__) == lines.rank(gw.__file__) == lines.rank(np.__file__) == lines.INSIDE
    assert lines.rank(pytest.__file__) == lines.LIBRARY


def test_what_was_read_and_thrown_away(tmp_path):
    path = tmp_path / "made.py"
    path.write_text("print(float(x))\ny = float(x)\nif bool(x):\n    z = float(x)\nassert x\n")
    assert [sourcing.discarded((str(path), n)) for n in range(1, 6)] == [True, False, True, False, True]


def test_every_cause_of_the_contract_has_its_words():
    of_tapes = {"not-watched", "outside-tape", "recording-stopped", "not-trainable"}
    of_programs = {"unused", "integer", "numpy", "stop-gradient", "no-gradient", "rule-none", "py-function", "assigned"}
    assert set(CAUSES) == of_tapes | of_programs | {"flat", "masked-branch", "singular-point"}
    for sentence, repair in CAUSES.values():
        assert len(sentence) > 20 and repair


def test_other_frameworks_are_refused_by_name():
    torch = pytest.importorskip("torch")
    with pytest.raises(gw.ModeError, match="torch"):
        gw.explain(lambda x: x, torch.ones(2))


def test_a_saved_model_is_looked_into(tmp_path):
    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([2])])
        def __call__(self, x):
            return tf.reduce_sum(tf.nn.relu(x - 10.0) * tf.floor(x))

    tf.saved_model.save(Model(), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    (reason,) = gw.explain(lambda x: loaded(x) * 2.0, tf.constant([1.0, 2.0]))
    assert (reason.status, reason.cause, reason.op) == ("zero", "flat", "Relu")
    assert reason.where.startswith("test_private.py:")
