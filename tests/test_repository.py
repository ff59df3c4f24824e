"""The repository keeps its promises: declared versions, documented pages, examples in two versions."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names(requirements):
    return {re.match(r"[\w.-]+", requirement).group().lower() for requirement in requirements}


def constrained():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_every_direct_dependency_has_its_tested_version():
    extras = PROJECT["optional-dependencies"]
    wanted = names(PROJECT["dependencies"]).union(*(names(extra) for extra in extras.values())) - {"gradwright"}
    assert wanted - set(constrained()) == set()


def test_the_build_of_pytorch_needs_no_gpu():
    assert constrained()["torch"].endswith("+cpu")


def test_no_file_names_a_registry_host():
    for name in ("constraints.txt", "pyproject.toml", "README.md", ".ci/run"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "--index-url" not in text
        assert "--extra-index" not in text
        assert not re.search(r"https?://", text)


def test_the_commands_have_their_entry_points():
    assert PROJECT["scripts"]["gradwright"] == "gradwright.cli:main"
    assert PROJECT["entry-points"]["pytest11"]["gradwright"] == "gradwright.pytest_plugin"


def test_each_example_has_a_wrong_version():
    right = {path.name for path in (ROOT / "examples").glob("*.py")}
    wrong = {path.name for path in (ROOT / "examples" / "wrong").glob("*.py")}
    assert len(right) >= 6
    assert wrong <= right
    assert len(wrong) >= 6


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_links_between_the_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
        assert target.startswith(("http:", "https:")) or (page.parent / target).exists(), target


def test_ci_runs_the_commands_of_the_readme():
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "-c constraints.txt -e '.[dev" in ci
    assert ".venv/bin/pytest -n 2" in readme
    assert '"$bin/pytest" -n 2' in ci
