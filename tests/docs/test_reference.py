"""Reference pages say what the program says: made again, they are equal."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from tests.docs.blocks import ROOT
from transformula.words import built_in


def loaded(name: str) -> ModuleType:
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return loaded("make_reference")


PAGES = {"cli.md", "api.md", "errors.md", "named-models.md", "published-runs.md", "recipes.md"}


@pytest.mark.parametrize("page", sorted(PAGES))
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="Python versions word --help and signatures differently")
def test_page_is_as_made(page: str, maker: ModuleType) -> None:
    written = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    assert written == maker.PAGES[page](), "make the pages again: make docs"


def test_the_pages_of_the_words_are_as_made(maker: ModuleType) -> None:
    folder = ROOT / "docs" / "reference" / "words"
    made = {page.removeprefix("words/"): make() for page, make in maker.PAGES.items() if page.startswith("words/")}
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert written == made, "make the pages again: make docs"
    assert set(made) == {"README.md", *(f"{name}.md" for name in built_in())}


def test_every_page_is_tested(maker: ModuleType) -> None:
    assert {page for page in maker.PAGES if not page.startswith("words/")} == PAGES


def test_the_picture_is_as_drawn() -> None:
    for name, svg in loaded("make_picture").pictures().items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == svg, "draw it again: make docs"
