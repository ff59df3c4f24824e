"""Every example in the docstrings and the pages of shapes, forms and ops is run, and gives what it says."""

import doctest
import importlib
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw

ROOT = pathlib.Path(gw.__file__).parent
MODULES = sorted(
    f"gradwright.{area}.{path.stem}" for area in ("shapes", "forms", "ops") for path in (ROOT / area).glob("[a-z]*.py")
)
DOCS = ROOT.parents[1] / "docs"


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    globs = {**vars(module), "tf": tf, "np": np, "gw": gw}
    found = {id(d.docstring): d for d in finder.find(module, globs=dict(globs), module=False)}
    found |= {id(d.docstring): d for d in rules_of(module, finder, globs)}
    for test in found.values():
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def rules_of(module, finder, globs):
    """Rules are objects: their docstrings are the functions'."""
    for name, value in vars(module).items():
        if hasattr(value, "pair") and value.__doc__:
            yield from finder.find(value.pair, name, globs=dict(globs), module=False)


def blocks(page):
    return "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S))


@pytest.mark.parametrize("page", ["shapes.md", "forms.md", "ops.md"])
def test_pages(page, capsys):
    code = blocks(page)
    exec(compile(code, page, "exec"), {"np": np})
    said = [line.partition("#")[2].strip() for line in code.splitlines() if line.startswith("print(")]
    assert capsys.readouterr().out.splitlines() == said


def test_an_example_that_is_wrong_is_seen():
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", "", 0)
    assert doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None).failed == 1
