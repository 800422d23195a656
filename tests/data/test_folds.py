"""`fold`: which part of the data is held out. Folds of one size have nothing in common, and leave nothing out; of rows
with labels, of which each fold has its share, nearly so."""

from __future__ import annotations

from pathlib import Path

import pytest

from transformula.data.corpus import read_corpus
from transformula.data.prepare import read_sides
from transformula.data.records import Record
from transformula.data.settings import DataSettings
from transformula.data.splits import split_corpus, split_records
from transformula.data.stream.streamed import read_stream
from transformula.errors import ConfigError
from transformula.tokenizers.texts import Texts

FOLDS = 4


def texts_of(texts: Texts) -> list[str]:
    return [bytes(content).decode() for content in texts.contents]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    rows = [f'{{"text": "document {number}, of many words"}}' for number in range(200)]
    (tmp_path / "texts.jsonl").write_text("\n".join(rows))
    return tmp_path / "texts.jsonl"


def test_the_folds_of_documents_are_all_of_them_once(documents: Path) -> None:
    corpus = read_corpus(str(documents))
    splits = [split_corpus(corpus, 1 / FOLDS, fold) for fold in range(FOLDS)]
    held = [text for split in splits for text in texts_of(split.validation)]
    assert sorted(held) == sorted(texts_of(corpus.documents))
    for split in splits:
        assert sorted(texts_of(split.training) + texts_of(split.validation)) == sorted(held)


def test_the_folds_of_one_text_are_all_of_it_from_its_end(tmp_path: Path) -> None:
    text = "".join(f"line {number} with ä\n" for number in range(400))
    (tmp_path / "one.txt").write_text(text, encoding="utf-8")
    corpus = read_corpus(str(tmp_path / "one.txt"))
    splits = [split_corpus(corpus, 1 / FOLDS, fold) for fold in range(FOLDS)]
    parts = ["".join(texts_of(split.validation)) for split in splits]
    assert "".join(parts[::-1]) == text
    for part, split in zip(parts, splits, strict=True):
        assert "".join(texts_of(split.training)) == text.replace(part, "")


def rows(count: int) -> list[Record]:
    return [Record({"text": f"row {n}", "label": "ab"[n % 2]}, f"rows:{n}") for n in range(count)]


@pytest.mark.parametrize("labels", [None, lambda row: [row["label"]]], ids=["by hash", "by label"])
def test_the_folds_of_rows_differ(labels: object) -> None:
    held = [
        {row.place for row in split_records(rows(400), 1 / FOLDS, 1, None, labels, fold)[1]}  # type: ignore[arg-type]
        for fold in range(FOLDS)
    ]
    assert all(70 < len(fold) < 130 for fold in held)
    if labels is None:
        assert len(set.union(*held)) == 400 == sum(map(len, held))
    assert all(len(one & other) < 20 for n, one in enumerate(held) for other in held[:n])


def test_a_stream_holds_out_the_documents_of_the_fold(documents: Path) -> None:
    def held(fold: int) -> list[str]:
        data = {"data": str(documents), "stream": True, "tokenizer": "bytes", "split": 0.25, "fold": fold}
        return texts_of(read_stream(DataSettings.read(data)).split.validation)

    whole = [set(held(fold)) for fold in range(2)]
    assert whole[0] and whole[1] and not whole[0] & whole[1]


def test_a_run_holds_out_the_fold_that_it_says(documents: Path) -> None:
    corpus, split = read_sides(DataSettings.read({"data": str(documents), "split": 0.25, "fold": 3}))
    assert texts_of(split.validation) == texts_of(split_corpus(corpus, 0.25, 3).validation)
    assert "fold 3" in split.how


def test_a_fold_beyond_the_data_is_refused() -> None:
    with pytest.raises(ConfigError, match="fold: .*4 folds of that size"):
        DataSettings.read({"split": 0.25, "fold": 4})
