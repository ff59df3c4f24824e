"""`import gradwright` loads no framework, nor anything that only one of its parts needs."""

import subprocess
import sys

import pytest

HEAVY = ("tensorflow", "keras", "jax", "torch", "rich", "click", "einops", "matplotlib", "pandas", "scipy", "pytest")


def heavy_after(statement):
    """Which of the heavy packages a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys\nprint(*[name for name in {HEAVY} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_the_package_loads_nothing_heavy():
    assert heavy_after("import gradwright") == []


@pytest.mark.parametrize("statement", ["import gradwright.check.watch", "import gradwright.check.program"])
def test_what_runs_before_the_users_program_loads_no_framework(statement):
    assert heavy_after(statement) == []


def test_the_plugin_loads_pytest_alone():
    assert heavy_after("import gradwright.pytest_plugin") == ["pytest"]


def test_every_public_name_is_there():
    code = "import gradwright as gw\nprint(all(hasattr(gw, name) for name in gw.__all__))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"


@pytest.mark.parametrize("name", ["rich", "click"])
def test_these_tests_can_fail(name):
    assert name in heavy_after(f"import gradwright, {name}")
