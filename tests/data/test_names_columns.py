"""Whether a first row names its columns; and that no row is lost where it does not."""

from pathlib import Path

import pytest

from transformula.data.corpus import documents_of
from transformula.data.records import columns_of, names_columns
from transformula.data.settings import Seq2SeqSettings
from transformula.data.source_target import read_source_target
from transformula.data.sources import origins
from transformula.errors import DataError
from transformula.tokenizers.texts import Texts

NAMES = ["source target", "src tgt", "de en", "en-US de_DE", "English German", "id text label", "SENTENCE1 Sentence2"]
ROWS = [
    ["Ein Mann schläft.", "A man is sleeping."],
    ["no", "nein"],  # a word that is a code of a language, too
    ["text", "text"],
    ["hello", "hallo"],
    ["3", "label"],
    ["", "text"],
    ["text", "This text is longer than any name of a column would be"],
]


def read_file(path, column=None):
    """The documents of a file, empty ones too."""
    (origin,) = origins(path, texts=True)
    return Texts.of(documents_of(origin, column))


@pytest.mark.parametrize("row", NAMES)
def test_names(row):
    assert names_columns(row.split())


@pytest.mark.parametrize("row", ROWS)
def test_rows(row):
    assert not names_columns(row)


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_pairs_without_a_header_lose_no_row(tmp_path, ending):
    rows = [f"ein Satz {n}{',' if ending == 'csv' else chr(9)}sentence {n}." for n in range(300)]
    path = tmp_path / f"pairs.{ending}"
    path.write_text("\n".join(rows) + "\n")
    found = read_source_target(Seq2SeqSettings(data=str(path)), "")
    every = [*found.training, *found.validation, *found.test]
    assert len(every) == 300 and {"source": "ein Satz 0", "target": "sentence 0."} in [dict(row) for row in every]
    assert any(note.startswith("data: no header: columns 1 and 2; if") for note in found.notes)
    path.write_text("\n".join(["de,en" if ending == "csv" else "de\ten", *rows]) + "\n")
    found = read_source_target(Seq2SeqSettings(data=str(path)), "")
    assert len([*found.training, *found.validation, *found.test]) == 300
    assert any("the first row names the columns: source 'de', target 'en'" in note for note in found.notes)
    found = read_source_target(Seq2SeqSettings(data=str(path), source="1", target="2"), "")
    assert len([*found.training, *found.validation, *found.test]) == 301


def test_columns_by_number_where_nothing_names_them(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("same\tsame\nb\tc\n")
    assert columns_of(path) == (["1", "2"], False)
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "x", "b": "y"}\n')
    assert columns_of(path) == (["a", "b"], None)


def test_texts_of_a_table_lose_no_row(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text("The first.\nThe second.\n")
    with pytest.raises(DataError, match="does the first row name the columns.* column: The first.; .* column: 1"):
        read_file(path)
    assert read_file(path, "1") == ["The first.", "The second."]
    assert read_file(path, "The first.") == ["The second."]
    path.write_text("n,said\n1,hello\n2,you\n")  # the numbers have a name
    assert read_file(path) == ["hello", "you"]
    path.write_text("review\nhello\n")
    assert read_file(path) == ["hello"]
