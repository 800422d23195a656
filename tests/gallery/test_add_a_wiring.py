"""What the page "Add a wiring" says is enough: its two blocks, put under a new name, pass every invariant."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.invariants import harness
from transformula import gallery

PAGE = ROOT / "docs" / "how-to" / "add-a-wiring.md"
INVARIANTS = {
    name: importlib.import_module(f"tests.invariants.test_{name}")
    for name in ("equation", "causality", "decoding", "module", "text", "gain", "padding", "training", "chance")
}
"""Read before the gallery of these tests takes the place of the real one."""


def written() -> dict[str, str]:
    """The files that the page shows."""
    found = blocks(PAGE.read_text(encoding="utf-8"))
    return {block.marks["file"]: block.text for block in found if "file" in block.marks}


def test_the_page_shows_the_files_as_they_are() -> None:
    files = written()
    assert files["completep.yaml"] == (gallery.FOLDER / "completep.yaml").read_text(encoding="utf-8")
    assert files["completep.py"] == (harness.REFERENCES / "completep.py").read_text(encoding="utf-8")


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The page's entry under another name, in a gallery of its own."""
    files = written()
    (tmp_path / "of-mine.yaml").write_text(files["completep.yaml"].replace("completep", "of-mine"), encoding="utf-8")
    (tmp_path / "of_mine.py").write_text(files["completep.py"], encoding="utf-8")
    monkeypatch.setattr(gallery, "FOLDER", tmp_path)
    monkeypatch.setattr(harness, "REFERENCES", tmp_path)
    for cached in (gallery.names, harness.small):
        cached.cache_clear()
    yield "of-mine"
    monkeypatch.undo()
    for cached in (gallery.names, harness.small):
        cached.cache_clear()


def names_of(values: Iterable[Any]) -> list[Any]:
    """The values of a test's parameter, those that are marked slow, too."""
    return [value.values[0] if hasattr(value, "marks") else value for value in values]


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_two_files_are_enough(added: str, invariant: str, tmp_path: Path) -> None:
    """Every test that is run on the page's entry is run on the new one."""
    ran = 0
    for name, test in vars(INVARIANTS[invariant]).items():
        marks = getattr(test, "pytestmark", [])
        there = any(mark.name == "parametrize" and "completep" in names_of(mark.args[1]) for mark in marks)
        if name.startswith("test_") and there and all(mark.name != "slow" for mark in marks):
            more = {"tmp_path": tmp_path, "scale": 2.0}
            wanted = test.__code__.co_varnames[: test.__code__.co_argcount]
            test(added, **{key: value for key, value in more.items() if key in wanted})
            ran += 1
    assert ran


def test_without_its_equation_it_fails(added: str, tmp_path: Path) -> None:
    (tmp_path / "of_mine.py").unlink()
    with pytest.raises(AssertionError, match="write the equation of of-mine by hand"):
        harness.reference(added)
