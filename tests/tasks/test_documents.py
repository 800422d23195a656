"""Documents packed into one row that do not see each other: what language modeling tells a model that asks for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from transformula import Model, train
from transformula.data.settings import DataSettings, PrepareSettings
from transformula.data.stream.preparing import prepare_shards
from transformula.errors import InputError
from transformula.tasks.base import check_task
from transformula.tasks.language_modeling import LanguageModeling
from transformula.tasks.multi_token_prediction import MultiTokenPrediction
from transformula.tasks.scored_text import documents_of

END = 256  # of the tokenizer of bytes
SIZES = {"depth": 2, "width": 16, "heads": 2}


def write(folder: Path) -> Path:
    folder.mkdir()
    for number in range(3):
        rows = [{"text": f"page {number}.{row} " * (1 + row % 3)} for row in range(30)]
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_document_begins_with_the_mark_before_it() -> None:
    tokens = torch.tensor([[5, 6, END, 7, END, END, 8], [END, 5, 5, 5, 5, 5, END]])
    assert documents_of(tokens, (END,)).tolist() == [[0, 0, 1, 1, 2, 3, 3], [1, 1, 1, 1, 1, 1, 2]]
    assert not documents_of(tokens, ()).any()  # a single text


@pytest.mark.parametrize("kind", ["memory", "stream", "prepared"])
def test_documents_of_a_row_are_scored_as_each_alone(kind: str, tmp_path: Path) -> None:
    """However the data is read."""
    data = DataSettings.read({"data": str(write(tmp_path / "data")), "tokenizer": "bytes", "stream": kind == "stream"})
    if kind == "prepared":
        prepare_shards(data, PrepareSettings.read({"out": str(tmp_path / "tokens"), "workers": 1}))
        data = DataSettings.read({"data": str(tmp_path / "tokens")})
    model = Model("documents", **SIZES, vocab=257).module.eval()
    assert model.inputs == ["tokens", "document"]
    task = LanguageModeling.make(data, {"context": 100}, inputs=model.inputs, batch=2)
    batch = task.batch(0)
    logits, seen = model(**batch.given), 0
    for row, (tokens, documents) in enumerate(zip(batch.inputs["tokens"], batch.inputs["document"], strict=True)):
        for document in documents.unique():
            here = documents == document
            alone = model(tokens[here][None], document=torch.zeros(1, int(here.sum()), dtype=torch.long))
            assert torch.allclose(logits[row, here], alone[0], atol=1e-5)
            seen += 1
    assert seen >= 4, "a row has several documents"
    plain = LanguageModeling.make(data, {"context": 100}, inputs=["tokens"], batch=2).batch(0)
    assert list(plain.inputs) == ["tokens"] and plain.inputs["tokens"].equal(batch.inputs["tokens"])
    assert task.evaluate(model).loss > 0


def test_a_model_of_packed_documents_trains_on_a_stream_and_writes(tmp_path: Path) -> None:
    run = train(
        "documents", **SIZES, data=str(write(tmp_path / "data")), stream=True, tokenizer="bytes", context=32, steps=3,
        batch=2, out=str(tmp_path / "run"), quiet=True, threads=1,
    )  # fmt: skip
    model = run.model
    assert model.generate("page", max_tokens=8, seed=3) == model.generate("page", max_tokens=8, seed=3)


def test_what_cannot_be_told_its_documents_is_refused() -> None:
    several = Model("documents", **SIZES, output="logits = unembed.words(x)\nlogits_2 = unembed.words(x)")
    with pytest.raises(InputError, match="gives a model `tokens` alone; this one reads tokens, document"):
        check_task(MultiTokenPrediction, several.architecture)
    with pytest.raises(InputError, match="carry: segments go on from one another, and `document`"):
        check_task(LanguageModeling, Model("documents", **SIZES, carry=4).architecture)
