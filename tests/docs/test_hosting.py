"""What a hosting reads of a repository: the workflow, the templates, the citation, the hook before a commit."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml

from tests.docs.blocks import ROOT, blocks

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_workflow_types_the_two_commands_of_the_readme_on_every_python() -> None:
    (job,) = read(".github/workflows/ci.yml")["jobs"].values()
    first = next(blocks((ROOT / "README.md").read_text(encoding="utf-8")))
    shown = re.findall(r"^(make \w+) ", first.text, re.MULTILINE)
    assert sorted(step["run"] for step in job["steps"] if "run" in step) == sorted(shown) and len(shown) == 2
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert job["strategy"]["matrix"]["python"] == pythons


@pytest.mark.parametrize("name", ["bug.md", "idea.md"])
def test_a_template_says_what_it_is_for(name: str) -> None:
    _, head, body = (ROOT / ".github" / "ISSUE_TEMPLATE" / name).read_text(encoding="utf-8").split("---\n", 2)
    assert {"name", "about", "labels"} == yaml.safe_load(head).keys() and "**" in body


def test_the_citation_agrees_with_the_package() -> None:
    """That it is valid was checked with cffconvert. The version stands elsewhere, and here in no second place."""
    cited = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= cited.keys() and "version" not in cited
    assert cited["license"] == PROJECT["license"]
    assert cited["title"] == f"{PROJECT['name']}: {PROJECT['description']}"


def test_a_commit_is_checked_by_the_ruff_that_is_pinned() -> None:
    """The version of ruff stands in constraints.txt alone."""
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local" and "rev" not in repository
    assert [hook["entry"].split()[:2] for hook in repository["hooks"]] == [[".venv/bin/ruff", "check"]]
    assert not any("additional_dependencies" in hook for hook in repository["hooks"])
