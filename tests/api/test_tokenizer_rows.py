"""A tokenizer with more ids than its model has rows is refused at each door, before work; both numbers are named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tokenizers.published_folders import write_plain
from transformula import Model, evaluate, train
from transformula.data.tokenizing import choose_tokenizers
from transformula.errors import CheckpointError, ConfigError
from transformula.interop.folder import convert
from transformula.tokenizers.base import load

SIZES = {"depth": 1, "width": 16, "heads": 2, "context": 64, "kv_heads": 2, "hidden": 24}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer, models of transformers with as many rows and with one less, and data."""
    work = tmp_path_factory.mktemp("rows")
    (work / "tokenizer").mkdir()
    vocab = load(write_plain("llama3", work / "tokenizer")).vocab
    for name, rows in (("whole", vocab), ("less", vocab - 1)):
        Model("llama", **SIZES, vocab=rows).save(work / f"ours-{name}")
        convert(work / f"ours-{name}", work / name, write="transformers")
        for path in (work / "tokenizer").iterdir():
            shutil.copy(path, work / name)
    (work / "rows.jsonl").write_text(json.dumps({"text": "the cat", "label": "a"}))
    return work


DOORS: dict[str, Callable[[Path, str], object]] = {
    "sample": lambda folder, data: Model.from_folder(folder).generate("the cat", max_tokens=1),
    "import": lambda folder, data: convert(folder, folder / "new", read="transformers"),
    "evaluate": lambda folder, data: evaluate(folder, data=data),
    "init-from": lambda folder, data: train(init_from=folder, data=data, quiet=True),
    "init-from, another task": lambda folder, data: train(
        init_from=folder, task="classification", data=data, quiet=True
    ),
    "init-from, another model": lambda folder, data: train("llama", init_from=folder, data=data, quiet=True),
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_more_ids_than_rows(folders: Path, door: Callable[[Path, str], object]) -> None:
    vocab = load(folders / "tokenizer").vocab
    with pytest.raises(CheckpointError) as refused:
        door(folders / "less", str(folders / "rows.jsonl"))
    said = str(refused.value)
    assert f"go up to {vocab - 1}, added tokens included" in said and f"has {vocab - 1} rows" in said
    assert f"resize_token_embeddings({vocab})" in said


def test_as_many_ids_as_rows(folders: Path) -> None:
    assert isinstance(Model.from_folder(folders / "whole").generate("the cat", max_tokens=1), str)
    assert convert(folders / "whole", folders / "imported", read="transformers").is_dir()


@pytest.mark.parametrize("joint", [True, False])
def test_a_model_that_states_fewer(folders: Path, joint: bool) -> None:
    vocab = load(folders / "tokenizer").vocab
    sides: dict[str, list[str]] = {"source": [], "target": []}
    name = str(folders / "tokenizer")
    assert choose_tokenizers(name, joint, sides, sides, {"vocab": vocab})[0]["target"].vocab == vocab
    with pytest.raises(ConfigError, match=f"vocab: the model says {vocab - 1}.* has {vocab}; leave `vocab` out"):
        choose_tokenizers(name, joint, sides, sides, {"vocab": vocab - 1})


def test_a_source_of_more_ids(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "tokenizer", tmp_path / "source")
    write_plain("bert", tmp_path)
    vocab = load(folders / "tokenizer").vocab
    sides: dict[str, list[str]] = {"source": [], "target": []}
    with pytest.raises(ConfigError, match=f"source_vocab: the model says 9, .* write source_vocab: {vocab}"):
        choose_tokenizers(str(tmp_path), False, sides, sides, {"source_vocab": 9})
