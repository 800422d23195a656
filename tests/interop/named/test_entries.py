"""The data files of named models: their size, what they may say, and that no code knows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import transformula.interop
from transformula.analysis.canonical import formula_hash
from transformula.errors import CheckpointError
from transformula.gallery import load
from transformula.gallery import names as gallery_names
from transformula.interop.named import entries
from transformula.interop.named.config import Key
from transformula.interop.named.matching import match
from transformula.language.check import check
from transformula.words import vocabulary

INTEROP = Path(transformula.interop.__file__).parent
LONGEST = {"speech_to_text": 90, "wav2vec2": 90}
"""Lines of a data file, where 80 are too few: what hears a sound, and what writes, or several forms of layers."""


@pytest.mark.parametrize("name", entries.names())
def test_a_file_is_short(name: str) -> None:
    lines = (entries.FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LONGEST.get(name, 80)
    assert max(map(len, lines)) <= 200


def test_no_code_knows_a_family() -> None:
    """Adding a family edits one data file."""
    known = {name for family in entries.names() for name in (family, *entries.named_model(family).architectures)}
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, sorted(known)))})\b", re.IGNORECASE)
    program = "llama.cpp"  # is no family
    code = {path: path.read_text(encoding="utf-8").replace(program, "") for path in INTEROP.rglob("*.py")}
    assert len(code) > 10
    assert {path.name: pattern.findall(text) for path, text in code.items() if pattern.search(text)} == {}


@pytest.mark.parametrize("name", entries.names())
def test_every_key_is_one_that_is_read(name: str) -> None:
    """A block with a misspelt key would be ignored: it cannot be made into a NamedModel."""
    model = entries.named_model(name)
    assert model.architectures
    assert model.weights


def both() -> list[object]:
    """The families that the gallery has, too; those that are searched longest are slow."""
    shared = sorted(set(entries.names()) & set(gallery_names()))
    return [
        name if name in ("bart", "gpt2", "mixtral") else pytest.param(name, marks=pytest.mark.slow) for name in shared
    ]


@pytest.mark.parametrize("name", both())
def test_a_gallery_entry_is_a_model_of_its_family(name: str) -> None:
    """Of few layers where it has many: each is read for each constant that is tried."""
    text = load(name)
    depth = check(text, vocabulary()).numbers["depth"]
    architecture = check(text, vocabulary(), {"depth": min(depth, 7)})
    match_of_entry = match(architecture)
    assert name in (match_of_entry.model.name, *entries.named_model(match_of_entry.model.name).model_type)
    assert formula_hash(architecture)


def test_an_unknown_family_names_the_nearest() -> None:
    with pytest.raises(CheckpointError, match="no named model is called 'lama'; did you mean llama"):
        entries.named_model("lama")


def test_mappings_that_mean_the_same_may_stand_inside_another() -> None:
    key = Key.read("text.theta | text.a/b.theta | c/d.e", "theta = 1")
    assert key.paths == ("text.theta", "text.a.theta", "text.b.theta", "c.e", "d.e")
    assert key.either == ("text.a", "text.b", "c", "d")


def test_the_page_shows_a_file_as_it_is() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "add-a-family.md").read_text(encoding="utf-8")
    assert (entries.FOLDER / "mistral.yaml").read_text(encoding="utf-8") in page
