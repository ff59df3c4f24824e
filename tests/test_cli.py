"""The commands as a user types them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gradwright.cli import main

ROOT = Path(__file__).parent.parent

RIGHT = """
import tensorflow as tf
@tf.custom_gradient
def square(x):
    return x * x, lambda upstream: 2 * x * upstream
"""
WRONG = RIGHT.replace("2 * x", "-2 * x")
UNDECIDED = RIGHT.replace("return", "raise ValueError('no');")


def gradwright(*args):
    return CliRunner().invoke(main, [str(arg) for arg in args])


def shell(*args, **options):
    return subprocess.run([sys.executable, *map(str, args)], capture_output=True, text=True, timeout=300, **options)


@pytest.fixture
def file(tmp_path):
    def write(text, name):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(("text", "status"), [(RIGHT, 0), (WRONG, 1), (UNDECIDED, 3), ("import json", 2), ("1 / 0", 2)])
def test_exit_status_of_check(file, text, status, request):
    result = gradwright("check", file(text, f"status_{status}_{len(text)}.py"))
    assert result.exit_code == status, result.output


def test_the_table_names_rule_place_verdict_mistake_and_repair(file):
    path = file(WRONG, "table_rules.py")
    output = gradwright("check", path).output
    for word in ("square", "table_rules.py:4", "wrong", "sign", "return -g", "1 rule: 1 wrong"):
        assert word in output


def test_json_is_one_line_with_everything(file):
    output = gradwright("check", file(WRONG, "json_rules.py"), "--json").stdout
    data = json.loads(output)
    assert output.count("\n") == 1
    assert (data["exit_status"], data["wrong"], data["right"], data["undecided"]) == (1, 1, 0, 0)
    (finding,) = data["findings"]
    assert (finding["rule"], finding["verdict"], finding["source"]) == ("square", "wrong", "guessed")
    (fault,) = finding["faults"]
    assert (fault["label"], fault["argument"]) == ("sign", "x")
    assert {"message", "repair", "where", "error", "bound", "index"} <= set(fault)


def test_a_saved_report_is_printed_again(file, tmp_path):
    saved = tmp_path / "report.json"
    first = gradwright("check", file(WRONG, "saved_rules.py"), "--output", saved)
    again = gradwright("report", saved)
    assert (again.exit_code, again.output) == (1, first.output)
    assert "judged by" in gradwright("report", saved, "--verbose").output


@pytest.mark.parametrize("text", ["no json", "[]", "{}", '{"findings": 3}', '{"findings": [{"rule": 1}]}'])
def test_what_is_no_report_is_refused(file, text):
    result = gradwright("report", file(text, "strange.json"))
    assert result.exit_code == 2
    assert "is no report of gradwright" in result.output


def test_the_examples_are_right_and_each_wrong_version_is_named():
    right = gradwright("check", ROOT / "examples")
    assert right.exit_code == 0, right.output
    wrong = json.loads(gradwright("check", ROOT / "examples" / "wrong", "--json").stdout)
    labels = {
        Path(f["where"].partition(":")[0]).stem: [fault["label"] for fault in f["faults"]] for f in wrong["findings"]
    }
    assert wrong["exit_status"] == 1
    assert labels == {
        "shapes": ["transposed"],
        "broadcasting": ["averaged"],
        "tangent_layer": ["sign"],
        "upstream": ["upstream-ignored"],
        "rounding": ["factor"],
        "log1p_exp": ["wrong-point"],
    }


@pytest.mark.parametrize(
    "args", [(), ("check",), ("run",), ("run", "no_such.py"), ("run", "-m", "no.such.module"), ("report", "none.json")]
)
def test_usage(args):
    result = gradwright(*args)
    assert result.exit_code == 2
    assert result.output.strip()


def test_what_a_program_does_to_its_process_does_not_reach_the_report(file, tmp_path, monkeypatch):
    text = RIGHT + "square(tf.constant([1.0]))\nimport io, os, sys\nos.chdir('/')\nsys.stdout = io.StringIO()\n"
    file(text, "moving.py")
    monkeypatch.chdir(tmp_path)
    result = gradwright("run", "moving.py", "--output", "of_the_program.json")
    assert "│ moving.py:4 " in result.stdout
    assert not list(tmp_path.glob("*.json"))
    assert result.exit_code == 0


def test_a_report_that_cannot_be_saved_is_told(file, tmp_path):
    result = gradwright("check", file(RIGHT, "unsaved.py"), "--output", tmp_path / "no" / "such" / "folder.json")
    assert result.exit_code == 2
    assert "cannot be saved" in result.output


def test_the_program_ends_with_its_last_thread(file):
    text = (
        RIGHT
        + "import threading, time\ndef late():\n  time.sleep(0.5)\n  square(tf.constant([1.0]))\n  print('late')\n"
    )
    result = gradwright("run", file(text + "threading.Thread(target=late).start()\n", "threads.py"))
    assert result.stdout.startswith("late\n")
    assert "1 rule: 1 right" in result.stdout


def test_a_script_is_explained(file):
    text = "import tensorflow as tf\nx = tf.Variable(1.5)\nwith tf.GradientTape() as tape:\n  y = tf.floor(x)\n"
    result = shell("-m", "gradwright", "explain", file(text + "tape.gradient(y, x)\n", "lost.py"))
    assert "Floor" in result.stdout
    assert "lost.py:4" in result.stdout
    assert result.returncode == 1


def test_a_rule_that_differs_on_purpose_can_be_named(file):
    text = "import tensorflow as tf\n@tf.custom_gradient\ndef through(x): return tf.round(x), lambda upstream: upstream"
    path = file(text, "purpose.py")
    undeclared = gradwright("check", path)
    assert undeclared.exit_code == 1
    assert "--surrogate through" in undeclared.output
    assert gradwright("check", path, "--surrogate", "through").exit_code == 0
    in_the_code = file(text + "\nthrough.surrogate = lambda x: x", "declared.py")
    assert gradwright("check", in_the_code).exit_code == 0


def test_eagerly_the_rules_in_functions_meet_real_values(file):
    text = RIGHT + "print(float(tf.function(lambda x: square(x) + 0.0)(tf.constant(3.0))))"
    result = gradwright("run", "--eager", "--json", file(text, "compiled.py"))
    first, data = result.stdout.splitlines()
    assert first == "9.0"
    assert [finding["source"] for finding in json.loads(data)["findings"]] == ["met"]


@pytest.mark.parametrize("command", ["check", "run", "explain", "report"])
def test_help_is_short_and_has_an_example(command):
    output = gradwright(command, "--help").output
    assert f"gradwright {command} " in output
    assert len(output.splitlines()) < 30


PROGRAM = """
import random, sys, threading
from pathlib import Path
print("arguments", sys.argv[1:], "name", __name__, "file", Path(__file__).name, "path", Path(sys.path[0]).name)
def annotated(x: 1 + 1): pass
print("loaded", "tensorflow" in sys.modules, "annotations", annotated.__annotations__)
import keras
import numpy as np
import tensorflow as tf
import beside
random.seed(1); np.random.seed(1); keras.utils.set_random_seed(1)

@tf.custom_gradient
def square(x):
    print("square runs")
    return x * x, lambda upstream: 2 * x * upstream

@tf.custom_gradient
def product(x, y):
    return x * y, lambda upstream: (upstream * y, -upstream * x)

class Scaled(keras.layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight(shape=shape[-1:], initializer="ones")

    @tf.custom_gradient
    def scaled(self, x):
        scale = tf.convert_to_tensor(self.scale)
        def grad(upstream, variables=None):
            return upstream * scale, [tf.reduce_sum(upstream * x, 0)]
        return x * scale, grad

    def call(self, x):
        return self.scaled(x)

@keras.ops.custom_gradient
def through(x):
    def grad(*args, upstream=None):
        return args[0] if upstream is None else upstream
    return x + 0.0, grad

def shifted(by):
    return tf.custom_gradient(lambda x: (x + by, lambda upstream: upstream))

model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3), Scaled()])
model.compile("sgd", "mse")
history = model.fit(np.random.rand(8, 4), np.random.rand(8, 3), verbose=0, batch_size=4, epochs=2)
print("loss", history.history["loss"])
print("square", float(tf.function(lambda x: tf.reduce_sum(square(x)))(tf.random.uniform([3]))))
thread = threading.Thread(target=lambda: print("product", product(tf.constant([2.0]), tf.constant([3.0])).numpy()))
thread.start(); thread.join()
for by in (1.0, 2.0):
    for _ in range(3):
        shifted(by)(tf.constant([1.0]))
print("through", through(tf.constant([5.0])).numpy(), beside.__name__)
print("random", random.random(), np.random.rand(), float(tf.random.normal([])))
sys.stderr.write("to the error stream\\n")
sys.exit(7)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One program run plainly and under the command."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "train.py").write_text(PROGRAM)
    (folder / "beside.py").write_text("")
    plain = shell(folder / "train.py", "--epochs", "1", cwd=folder.parent)
    watched = shell("-m", "gradwright", "run", "--json", folder / "train.py", "--epochs", "1", cwd=folder.parent)
    return plain, watched


def test_a_program_prints_and_computes_what_it_always_does(runs):
    plain, watched = runs
    assert plain.returncode == 7
    assert watched.stdout.startswith(plain.stdout)
    assert watched.stdout[len(plain.stdout) :].count("\n") == 1
    assert "to the error stream" in watched.stderr
    assert "Traceback" not in watched.stderr


def test_every_rule_that_a_program_calls_is_proven_once_for_each_signature(runs):
    data = json.loads(runs[1].stdout.splitlines()[-1])
    verdicts = {}
    for finding in data["findings"]:
        verdicts.setdefault(finding["rule"], []).append(finding["verdict"])
    assert set(verdicts) == {"square", "product", "Scaled.scaled", "through", "<lambda>"}
    assert verdicts["product"] == ["wrong"]
    assert verdicts["<lambda>"] == ["right", "right"]
    assert {v for rule, found in verdicts.items() if rule != "product" for v in found} == {"right"}
    inputs = [(finding["rule"], finding["inputs"]) for finding in data["findings"]]
    assert len(inputs) == len(set(inputs))


def test_the_status_of_the_program_is_told_and_that_of_the_command_follows_the_contract(runs):
    data = json.loads(runs[1].stdout.splitlines()[-1])
    assert (data["program_status"], data["exit_status"], runs[1].returncode) == (7, 1, 1)


def test_a_program_that_raises_still_gets_its_report_and_its_own_traceback(file, tmp_path):
    path = file(RIGHT + "square(tf.constant([1.0]))\nprint('so far')\nraise KeyError('mine')\n", "raising.py")
    plain, watched = shell(path), shell("-m", "gradwright", "run", path)
    assert watched.stdout.startswith("so far\n")
    assert "1 rule: 1 right" in watched.stdout
    assert "raising.py itself ended with exit status 1" in watched.stdout
    assert watched.stderr[watched.stderr.index("Traceback") :] == plain.stderr[plain.stderr.index("Traceback") :]
    assert watched.returncode == 1


def test_a_module_is_run_as_python_does(file, tmp_path, monkeypatch):
    package = tmp_path / "program_package"
    package.mkdir()
    (package / "__init__.py").touch()
    text = "import sys\nprint(__name__, __package__, sys.argv[1:])\n" + RIGHT + "square(tf.constant([1.0]))\n"
    (package / "train.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    result = gradwright("run", "-m", "program_package.train", "--fast", "x")
    assert result.stdout.startswith("__main__ program_package ['--fast', 'x']\n")
    assert "1 rule: 1 right" in result.stdout
    assert result.exit_code == 0


def test_a_program_without_rules_is_told(file):
    result = gradwright("run", file("print('nothing to see')", "empty.py"))
    assert result.stdout.startswith("nothing to see\n")
    assert "called no rule" in result.stdout
    assert result.exit_code == 2


def test_a_syntax_error_is_told_before_anything_runs(file):
    result = gradwright("run", file("print('no')\ndef (:\n", "typo.py"))
    assert result.exit_code == 2
    assert "SyntaxError" in result.output
