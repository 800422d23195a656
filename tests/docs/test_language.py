"""The page of the language: its models are models, and it leaves nothing out."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import ROOT, blocks
from transformula.language.check import check
from transformula.language.messages import MESSAGES
from transformula.language.model_file import read_text
from transformula.language.model_text import FREE_NUMBERS, HOOKS, INPUTS, MODEL_KEYS, STACK_KEYS
from transformula.language.numbers import FUNCTIONS
from transformula.words import vocabulary

PAGE = ROOT / "docs" / "reference" / "language.md"
TEXT = PAGE.read_text(encoding="utf-8")
MODELS = [block for block in blocks(TEXT) if block.kind == "yaml"]


@pytest.mark.parametrize("block", MODELS, ids=lambda block: f"line {block.line}")
def test_its_models_are_models(block) -> None:
    check(read_text(block.text, f"language.md:{block.line}"), vocabulary())


@pytest.mark.parametrize("name", sorted({*MODEL_KEYS, *STACK_KEYS, *HOOKS, *FREE_NUMBERS, *INPUTS, *FUNCTIONS}))
def test_it_names_every_key_input_and_function(name: str) -> None:
    assert f"`{name}`" in TEXT


def test_a_default_that_it_states_is_the_default() -> None:
    numbers = check(read_text("layer: x = x + attention(norm(x)); x = x + mlp(norm(x))"), vocabulary()).numbers
    for key in ("depth", "width", "heads", "vocab", "context"):
        row = re.search(rf"^\| `{key}` \|.*\| (.*) \|$", TEXT, flags=re.MULTILINE)
        assert row and re.search(rf"\b{numbers[key]}\b", row[1]), key


def test_errors_that_send_to_a_page_send_to_one_that_is_there() -> None:
    source = (ROOT / "src" / "transformula").rglob("*.py")
    named = {found for path in source for found in re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8"))}
    assert "docs/reference/language.md" in named
    assert [page for page in named if not (ROOT / page).is_file()] == []
    assert not [m for m in MESSAGES.values() if "language's page" in m.remedy]
