"""Every code block of README.md is run, and what it prints is what README.md says.

Where outputs have changed for good, `python -m tests.test_readme` writes the new ones into the file.
"""

import contextlib
import io
import itertools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int  # of its first line of code


def blocks(text):
    lines, found, start = text.split("\n"), [], None
    for number, line in enumerate(lines):
        if line.startswith("```") and start is None:
            start = number
        elif line.startswith("```"):
            found.append(Block(lines[start][3:], "\n".join(lines[start + 1 : number]) + "\n", start + 2))
            start = None
    return found


def alike(text):
    """The text without what may differ between machines: small numbers, counts of evaluations, spaces, line ends."""
    text = re.sub(r"\d+(\.\d+)?e[-+]\d+", "#", text)
    text = re.sub(r"\d+(?= (evaluations|forward|rule,|reference))", "#", text)
    return [re.sub(r"\s+", " ", line).strip() for line in text.strip().split("\n")]


def run_python(block, namespace):
    code = compile("\n" * (block.line - 1) + block.text, str(README), "exec", dont_inherit=True)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    return printed.getvalue()


def commands(block):
    lines = [line.partition("  #")[0].strip() for line in block.text.strip().split("\n")]
    return [part.strip() for line in lines for part in line.split("&&")]


def run_command(command, folder):
    """Run a command of the README with this Python's programs; returns its output."""
    words = command.replace(".venv/bin/", "").split()
    program = Path(sys.executable).parent / words[0]
    env = os.environ | {"COLUMNS": "100"}
    done = subprocess.run([program, *words[1:]], cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


ALL = blocks(README.read_text(encoding="utf-8"))
PYTHON = [b for b in ALL if b.language == "python"]
SHELL = [b for b in ALL if b.language == "sh"]


def expected_after(block):
    following = ALL[ALL.index(block) + 1 :]
    return following[0].text if following and following[0].language == "text" else None


def test_each_block_is_of_a_kind_that_is_run():
    assert {b.language for b in ALL} == {"python", "sh", "text"}
    for block, following in itertools.pairwise(ALL):
        assert following.language != "text" or block.language in ("python", "sh")


def test_python_blocks_print_what_follows_them():
    namespace = {"__name__": "readme"}
    for block in PYTHON:
        printed = run_python(block, namespace)
        assert alike(printed) == alike(expected_after(block) or "")


def test_this_test_can_fail():
    block = Block("python", "print('another output')\n", 1)
    assert alike(run_python(block, {})) != alike(expected_after(PYTHON[0]))


INSTALL = re.compile(r"^python3 -m venv \.venv$|^\.venv/bin/pip install -c constraints\.txt -e '\.\[(\w+)\]'$")


@pytest.mark.parametrize("name", ["all", "dev"])
def test_the_two_commands_install_what_the_project_declares(name):
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [INSTALL.match(c).group(1) for b in SHELL for c in commands(b) if INSTALL.match(c)]
    assert name in found
    assert name in project["optional-dependencies"]
    assert (ROOT / "constraints.txt").exists()


def test_the_command_that_runs_the_main_job():
    (command,) = [c for b in SHELL for c in commands(b) if c.startswith(".venv/bin/gradwright")]
    assert " right" in run_command(command, ROOT)


def test_the_command_that_runs_the_tests():
    (command,) = [c for b in SHELL for c in commands(b) if c.startswith(".venv/bin/pytest")]
    listed = run_command(f"{command} --collect-only -q tests/test_readme.py -p no:xdist".replace("-n 2", ""), ROOT)
    assert "test_the_command_that_runs_the_tests" in listed


PROGRAM = """
import tensorflow as tf

@tf.custom_gradient
def double(x):
    return 2 * x, lambda upstream: 2 * upstream

if __name__ == "__main__":
    with tf.GradientTape() as tape:
        x = tf.Variable(3.0)
        y = double(x)
    print("gradient", float(tape.gradient(y, x)))
"""


def test_the_commands_for_the_users_own_files(tmp_path):
    package = tmp_path / "mypackage"
    package.mkdir()
    (package / "__init__.py").touch()
    for place in (tmp_path / "layers.py", package / "ops.py", tmp_path / "train.py"):
        place.write_text(PROGRAM)
    (block,) = [b for b in SHELL if "train.py" in b.text]
    run_command("gradwright check layers.py --output report.json", tmp_path)
    outputs = [run_command(command, tmp_path) for command in commands(block)]
    assert "2 rules: 2 right" in outputs[0]
    assert outputs[1].startswith("gradient 2.0\n")
    assert "1 rule: 1 right" in outputs[1]
    assert outputs[2].startswith("gradient 2.0\n")
    assert "1 rule: 1 right" in outputs[3]


def test_shell_blocks_with_an_output_print_it():
    shown = [b for b in SHELL if expected_after(b)]
    assert shown
    for block in shown:
        printed = "".join(run_command(command, ROOT) for command in commands(block))
        assert alike(printed) == alike(expected_after(block))


def refreshed():
    """README.md with the outputs of today."""
    text, namespace = README.read_text(encoding="utf-8"), {"__name__": "readme"}
    for block in ALL:
        if block.language == "python":
            printed = run_python(block, namespace)
        elif block.language == "sh" and expected_after(block):
            printed = "".join(run_command(command, ROOT) for command in commands(block))
        else:
            continue
        if expected_after(block):
            text = text.replace(expected_after(block), printed.rstrip("\n") + "\n")
    return text


if __name__ == "__main__":
    README.write_text(refreshed(), encoding="utf-8")
