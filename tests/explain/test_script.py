"""`gradwright explain SCRIPT`: unchanged programs are run, and every None is explained."""

import json
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

from gradwright.explain.script import run
from tests.explain.test_tape import the_hooks


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "train.py"
        path.write_text(textwrap.dedent(text))
        lines = path.read_text().splitlines()
        marks = [f"train.py:{i}" for i, line in enumerate(lines, 1) if line.rstrip().endswith("# <-- here")]
        return str(path), marks

    return write


def found(capsys):
    return json.loads(capsys.readouterr().out)["missing"]


def test_a_plain_tape_in_a_loop(script, capsys):
    path, (line,) = script("""
        import tensorflow as tf

        def loss(w, x):
            h = w * x
            return tf.reduce_sum(tf.round(h))  # <-- here

        w, x = tf.Variable([1.0, 2.0]), tf.constant([3.0, 4.0])
        for _ in range(3):
            with tf.GradientTape() as tape:
                value = loss(w, x)
            assert tape.gradient(value, [w]) == [None]
    """)
    assert run(path, [], json=True) == 1
    (missing,) = found(capsys)
    assert (missing["source"], missing["cause"], missing["where"], missing["count"]) == ("w", "no-gradient", line, 3)
    assert missing["asked"] == "train.py:12"


def test_before_and_after_the_tape(script, capsys):
    path, lines = script("""
        import tensorflow as tf

        x = tf.constant([1.0, 2.0])
        h = tf.sin(x)  # <-- here
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = tf.reduce_sum(h * 2.0)
            k = x * 3.0
        z = tf.reduce_sum(k)  # <-- here
        print(tape.gradient(y, x), tape.gradient(z, x))
    """)
    assert run(path, [], json=True) == 1
    assert [(m["cause"], m["where"]) for m in found(capsys)] == [("outside-tape", line) for line in lines]


def test_keras_without_gradients(script, capsys):
    path, (line,) = script("""
        import keras, numpy as np, tensorflow as tf

        def loss(truth, guess):
            best = tf.argmax(guess, -1)  # <-- here
            return tf.cast(best, tf.float32)

        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
        model.compile("sgd", loss=loss)
        model.fit(np.ones((4, 2)), np.ones((4, 2)), verbose=0)
    """)
    assert run(path, [], json=True) == 1
    missing = found(capsys)
    assert {(m["cause"], m["where"], m["asked"]) for m in missing} == {("integer", line, "train.py:10")}
    assert len(missing) == 2


def test_a_tape_inside_a_traced_step(script, capsys):
    path, (line,) = script("""
        import tensorflow as tf

        w = tf.Variable([1.0, 2.0])

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(tf.stop_gradient(w) * x)  # <-- here
            gradient = tape.gradient(y, w)
            return y

        step(tf.constant([1.0, 2.0]))
    """)
    assert run(path, [], json=True) == 1
    (missing,) = found(capsys)
    assert (missing["source"], missing["cause"], missing["where"]) == ("w", "stop-gradient", line)


def test_a_healthy_program_with_arguments(script, capsys):
    path, _ = script("""
        import sys
        import tensorflow as tf

        assert __name__ == "__main__" and sys.argv[1:] == ["--fast"]
        w = tf.Variable([1.0, 2.0])
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(w * w)
        print("gradient", tape.gradient(y, w).numpy().tolist())
    """)
    arguments = sys.argv[:]
    assert run(path, ["--fast"]) == 0
    assert sys.argv == arguments
    out = capsys.readouterr().out
    assert "gradient [2.0, 4.0]" in out and "no tape gave None" in out


def test_a_program_that_fails_and_what_stays(script, capsys):
    before = the_hooks()
    path, _ = script("""
        import tensorflow as tf

        x = tf.constant([1.0])
        with tf.GradientTape() as tape:
            y = x * 2.0
            raise RuntimeError("broken")
    """)
    assert run(path, [], json=True) == 1
    assert json.loads(capsys.readouterr().out)["error"] == "RuntimeError: broken"
    assert the_hooks() == before
    x = tf.Variable([1.0])
    with tf.GradientTape() as tape:
        y = x * 2.0
    np.testing.assert_allclose(tape.gradient(y, x), [2.0])


def test_no_such_file(capsys):
    assert run("nowhere.py") == 2
    assert "no such file" in capsys.readouterr().err


def test_memory_of_a_long_program_stays_bounded(script):
    from gradwright.frameworks import tf_explain

    path, _ = script("""
        import tensorflow as tf
        from gradwright.frameworks import tf_explain

        log = tf_explain.current()
        log.limit = 200
        w = tf.Variable(1.0)
        for _ in range(100):
            with tf.GradientTape() as tape:
                y = w * 2.0 + 1.0
            tape.gradient(y, w)
            for _ in range(20):
                tf.constant(1.0) + 1.0
        assert len(log.nodes) < 500 and len(log.values) < 100, (len(log.nodes), len(log.values))
    """)
    assert run(path) == 0
    assert tf_explain.current() is None
