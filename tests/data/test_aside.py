"""Large texts outside of memory."""

import json
import random
import tempfile

import pytest

from transformula.data import aside
from transformula.data.cache import cache_entries
from transformula.data.corpus import read_corpus
from transformula.data.lines import utf8_of
from transformula.data.prepare import prepare
from transformula.data.settings import TextSettings
from transformula.errors import DataError
from transformula.tasks.ngram import byte_ngrams
from transformula.tokenizers import texts
from transformula.tokenizers.texts import MappedText, Texts, pieces_of


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Texts lie in files from 1,000 bytes on, in pieces of 64, of which 256 stay in memory."""
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(aside, "ASIDE", 1000)
    monkeypatch.setattr(texts, "PIECE", 64)
    monkeypatch.setattr("transformula.data.lines.PIECE", 64)
    monkeypatch.setattr(texts, "AROUND", 1)
    monkeypatch.setattr(texts, "RELEASED", 256)


def words(count: int) -> str:
    return " ".join(random.Random(1).choices(["the", "größe", "語", "of", "😀", "and\n"], k=count))


def test_a_large_text_lies_in_a_file_and_is_the_same(small_limits, tmp_path):
    path = tmp_path / "text.txt"
    for count, in_file in ((100, False), (5000, True)):
        path.write_text(words(count), encoding="utf-8")
        content = utf8_of(path)
        assert isinstance(content.obj, MappedText) == in_file and bytes(content) == path.read_bytes()
        assert "".join(pieces_of(content)) == words(count)
    path.write_text("changed")  # of which the text knows nothing
    assert Texts([content, content[:10]]).digests[0] == Texts([words(5000).encode()]).digests[0]
    assert not cache_entries() and not list((tmp_path / "cache").iterdir())


def test_pages_that_were_read_are_given_back(small_limits, tmp_path, monkeypatch):
    given_back = []
    monkeypatch.setattr(MappedText, "madvise", lambda self, advice: given_back.append(advice), raising=False)
    path = tmp_path / "text.txt"
    path.write_text(words(5000), encoding="utf-8")
    content = utf8_of(path)
    for read in (lambda: list(pieces_of(content)), lambda: Texts([content]).digests):
        given_back.clear()
        read()
        assert len(given_back) >= len(content) // 512


def test_data_do_not_depend_on_where_the_text_lies(tmp_path, monkeypatch, small_limits):
    path = tmp_path / "text.txt"
    path.write_text(words(5000), encoding="utf-8")
    found = []
    for limit in (1000, 10**6):
        monkeypatch.setattr(aside, "ASIDE", limit)
        data = prepare(TextSettings.read({"data": str(path), "tokenizer": "bpe"}))
        assert isinstance(memoryview(data.split.training.contents[0]).obj, MappedText) == (limit == 1000)
        ngrams = byte_ngrams(data.split.training, data.split.validation, False)
        found.append((data.identity, data.describe(), data.training.ids.tolist(), ngrams))
    assert found[0] == found[1]


@pytest.mark.parametrize("limit", [1000, 10**6])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a\n" * 800 + b"\xff" + b"a" * 100, "byte 1600 is 0xff"),
        (b"\xef\xbb\xbf" + b"a\n" * 800 + b"\xff" + b"a" * 100, "byte 1603 is 0xff"),
        (b"a\n" * 800 + b"\0" + b"\xff" * 100, "byte 1600 is zero"),
        (b"\xff" + b"a\n" * 800 + b"\0", "byte 1601 is zero"),
        (b" \n" * 800, "is empty"),
        (b"a" * 1600 + b"\xe8\xaa", "byte 1600 is 0xe8"),
    ],
)
def test_mistakes_are_the_same(content, said, limit, small_limits, tmp_path, monkeypatch):
    monkeypatch.setattr(aside, "ASIDE", limit)
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=said) as caught:
        utf8_of(path)
    line = 801 if b"\n" in content else 1
    assert (f"text.txt:{line}:" in str(caught.value)) == ("empty" not in said)


def test_without_a_place_for_the_file_memory_has_to_do(small_limits, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("no folder")
    path = tmp_path / "text.txt"
    path.write_text(words(5000), encoding="utf-8")
    content = utf8_of(path)
    assert not isinstance(content.obj, MappedText) and bytes(content) == path.read_bytes()


def test_a_full_disk_is_said_in_words(small_limits, tmp_path, monkeypatch):
    class Full:
        """A file on a full disk."""

        def __init__(self, dir):
            self.dir = dir

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

        def writelines(self, lines):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    path = tmp_path / "text.txt"
    path.write_text(words(5000), encoding="utf-8")
    with pytest.raises(DataError, match="No space left on device.*TRANSFORMULA_CACHE"):
        utf8_of(path)


def test_long_documents_lie_in_one_file_together(small_limits, tmp_path, monkeypatch):
    monkeypatch.setattr(aside, "LONG", 50)
    documents = [words(count % 40 + 1) for count in range(200)]
    documents[7] = " "  # left out
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": each}) + "\n" for each in documents))
    contents = read_corpus(path).documents.contents
    assert [str(content, "utf-8") for content in contents] == documents[:7] + documents[8:]
    assert all(isinstance(content, memoryview) == (len(content) >= 50) for content in contents)
    assert len({id(content.obj) for content in contents if isinstance(content, memoryview)}) == 1
    for number, text in enumerate(documents[8:48]):  # files, each smaller than what is laid aside alone
        (tmp_path / f"{number:02}.txt").write_text(text)
    apart = read_corpus(str(tmp_path / "*.txt")).documents
    assert apart == documents[8:48]
    assert len({id(content.obj) for content in apart.contents if len(content) >= 50}) == 1
    given = {"data": str(path), "tokenizer": "bpe"}
    data = prepare(TextSettings.read(given))
    monkeypatch.setattr(aside, "ASIDE", 10**6)
    again = prepare(TextSettings.read(given))
    assert not any(isinstance(content, memoryview) for content in again.split.training.contents)
    assert data.describe() == again.describe() and data.split.training == again.split.training
