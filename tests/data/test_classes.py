"""One class a file, and one class a folder."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from transformula.api.recipe import files_of, under_root
from transformula.data.corpus import read_corpus
from transformula.data.records import columns_of, read_records
from transformula.data.sources import absolute_names, missing_sources
from transformula.errors import ConfigError, DataError

POLARITY = Path(__file__).parents[2].parent / "shared" / "data" / "text_cls" / "sentence_polarity"


@pytest.fixture
def reviews(tmp_path):
    (tmp_path / "rt.pos").write_bytes("café ,\u2028fine .\nmoving\n\n".encode())
    (tmp_path / "rt.neg").write_bytes("trés long\n".encode("latin-1"))
    return tmp_path


def rows(*arguments, **options) -> list[dict]:
    return [dict(record) for record in read_records(*arguments, **options)]


def test_one_class_a_file(reviews):
    source = f"good={reviews}/rt.pos"
    good = [{"text": "café ,\u2028fine .", "label": "good"}, {"text": "moving", "label": "good"}]
    assert rows(source) == good and columns_of(source) == (["text", "label"], None)
    assert [record.place for record in read_records(source)] == [f"{reviews}/rt.pos:1", f"{reviews}/rt.pos:2"]
    assert rows(f"1={reviews}/rt.neg", encoding="latin-1") == [{"text": "trés long", "label": "1"}]
    with pytest.raises(DataError, match=r"rt.neg:1: is not UTF-8: byte 2 .*encoding=latin-1.*'tr.*xe9s long'"):
        rows(f"bad={reviews}/rt.neg")
    assert read_corpus(source).documents == ["café ,\u2028fine .", "moving"]


def test_rows_with_columns_of_a_class(reviews):
    (reviews / "a.jsonl").write_text('{"text": "x", "n": 1, "label": "other"}\n')
    assert rows(f"spam={reviews}/a.jsonl") == [{"text": "x", "n": "1", "label": "spam"}]
    (reviews / "a.dat").write_text("body\ttitle\nx\ty\n")
    assert rows(f"spam={reviews}/a.dat", ["body", "label"], file_format="tsv") == [{"body": "x", "label": "spam"}]


def test_names_with_an_equals_sign_that_are_files(reviews, monkeypatch):
    (reviews / "lr=3.tsv").write_text("text\tlabel\na\tb\n")
    assert rows(f"{reviews}/lr=3.tsv") == [{"text": "a", "label": "b"}]
    monkeypatch.chdir(reviews)
    assert rows("lr=3.tsv") == [{"text": "a", "label": "b"}]
    with pytest.raises(DataError, match="rt.po: there is no such file; did you mean rt.pos"):
        rows("good=rt.po")


def test_runs_and_recipes_find_the_files(reviews, monkeypatch):
    monkeypatch.chdir(reviews)
    assert absolute_names(["good=rt.pos"]) == [f"good={reviews}/rt.pos"]
    assert missing_sources(["good=rt.pos", "bad=no"]) == ["bad=no"]
    assert under_root("good=rt.pos", "/data") == "good=/data/rt.pos" and files_of("good=rt.pos") == [Path("rt.pos")]


def test_one_class_a_folder_of_texts(tmp_path):
    """As in the film reviews of IMDb: a document a file, and tables of other things beside the folders."""
    for name, text in {
        "pos/0_9.txt": "fine\n\nfilm",
        "pos/1_7": "good",
        "neg/0_2.txt": "bad",
        "urls_pos.txt": "x",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "pos" / ".DS_Store").write_bytes(b"\0")
    expected = [("bad", "neg"), ("fine\n\nfilm", "pos"), ("good", "pos")]
    assert [(row["text"], row["label"]) for row in rows(str(tmp_path))] == expected
    assert rows(f"yes={tmp_path}/pos", ["label", "text"])[1] == {"label": "yes", "text": "good"}
    assert [record.place for record in read_records(str(tmp_path))][0] == f"{tmp_path}/neg/0_2.txt"
    (tmp_path / "neg" / "0_2.txt").write_bytes(b"tr\xe9s\n")
    with pytest.raises(DataError, match=r"neg/0_2.txt:1: is not UTF-8.*encoding=latin-1"):
        rows(str(tmp_path))
    assert rows(str(tmp_path), encoding="latin-1")[0]["text"] == "trés\n"
    with pytest.raises(ConfigError, match="images: .* has none"):
        read_records(str(tmp_path), images=["text"])
    assert len(files_of(str(tmp_path))) == 3  # those of known formats, as of every folder
    (tmp_path / "pos" / "rows.tsv").write_text("text\n")
    (tmp_path / "neg" / "0_2.txt").write_text("bad")
    with pytest.raises(DataError, match="0_2.txt:1: its ending .txt is no format with columns"):
        rows(str(tmp_path))


def test_one_class_a_folder_of_pictures(tmp_path):
    for number, name in enumerate(["cat/a.png", "cat/deep/b.PNG", "dog/c.png"]):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        Image.new("L", (3, 2), number).save(tmp_path / name)
    (tmp_path / "cat" / "Thumbs.db").write_bytes(b"\0\0")
    records = read_records(str(tmp_path))
    found = list(records)
    assert [(int(record["image"][0, 0, 0]), record["label"]) for record in found] == [
        (0, "cat"),
        (1, "cat"),
        (2, "dog"),
    ]
    assert records.notes == [f"{tmp_path} leaves out 1 files that are no pictures"]
    (one,) = read_records(f"hound={tmp_path}/dog", {"image": "image", "label": "label"}, channels=3)
    assert isinstance(one["image"], torch.Tensor) and one["image"].shape == (3, 2, 3) and one["label"] == "hound"
    assert len(files_of(str(tmp_path))) == 4
    with pytest.raises(ConfigError, match="encoding: has no meaning for .*, a folder of classes"):
        read_records(str(tmp_path), encoding="latin-1")
    (tmp_path / "captions.tsv").write_text("file_name\ttext\ncat/a.png\ta cat\n")
    assert [record["text"] for record in read_records(str(tmp_path))] == ["a cat"]


def test_pictures_and_numbers_beside_each_other(tmp_path):
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(
        bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4])
    )
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 0]))
    source = f"{tmp_path}/t10k-{{images-idx3,labels-idx1}}-ubyte"
    first, second = read_records(source, {"image": 1, "label": "labels-idx1"}, kinds={"label": "number"})
    assert first["image"].tolist() == [[[1, 2]]] and first["label"] == 7 and second["label"] == 0
    assert [row["label"] for row in rows(source, {"label": 2})] == ["7", "0"]


@pytest.mark.skipif(not POLARITY.is_dir(), reason=f"the data beside the project is not here: {POLARITY}")
def test_film_reviews():
    records = read_records([f"positive={POLARITY}/rt-polarity.pos", f"negative={POLARITY}/rt-polarity.neg"])
    assert len(list(records)) == 10_662 and not records.tally.empty
