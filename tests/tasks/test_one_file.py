"""A task is one file of its own: no other file of the program names it, and the help lists what the files say."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import transformula
from transformula.tasks.base import tasks
from transformula.tasks.verb import built_in_tasks

SOURCE = Path(transformula.__file__).parent
DEFAULT = "language-modeling"  # the task of a run that names none: api/reading.py says so
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts_in(path: Path) -> Iterator[str]:
    """The texts of a file that are no docstring and no example of a verb."""
    tree = ast.parse(path.read_text("utf-8"))
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            left_out |= set(map(id, ast.walk(node.body[0])))
        if isinstance(node, ast.keyword) and node.arg == "examples":
            left_out |= set(map(id, ast.walk(node)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.value


@pytest.fixture(scope="module")
def texts() -> dict[Path, list[str]]:
    """Of the files that hold a name at all."""
    names = re.compile("|".join(map(re.escape, built_in_tasks())))
    return {path: list(texts_in(path)) for path in SOURCE.rglob("*.py") if names.search(path.read_text("utf-8"))}


@pytest.mark.parametrize("name", sorted(built_in_tasks()))
def test_no_other_file_names_a_task(name: str, texts: dict[Path, list[str]]) -> None:
    """A name of two words stands nowhere else; one that is a word like any other, not as the value of an option."""
    own = Path(inspect.getfile(tasks.get(name)))
    word = re.escape(name)
    named = re.compile(rf"(?<![\w-]){word}" if "-" in name else rf"--task {word}\b|task: {word}\b|task=.?{word}\b")
    others = {str(path.relative_to(SOURCE)) for path, found in texts.items() if any(map(named.search, found))}
    default = {"api/reading.py"} if name == DEFAULT else set()
    assert others - {str(own.relative_to(SOURCE))} == default


def test_the_help_lists_every_task() -> None:
    assert sorted(built_in_tasks()) == [
        name for name in tasks.names() if tasks.get(name).__module__.startswith("transformula.")
    ]
    assert all(built_in_tasks().values())
