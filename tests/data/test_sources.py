"""Files of every format, right and wrong."""

import gzip
import json
import os
from pathlib import Path

import pytest

from transformula.data.corpus import documents_of, read_corpus
from transformula.data.format import formats
from transformula.data.lines import lines_of
from transformula.data.records import read_records
from transformula.data.sources import origins
from transformula.errors import DataError, MissingExtra
from transformula.tokenizers.texts import Texts


def read_file(path, column=None):
    """The documents of a file, empty ones too."""
    (origin,) = origins(path, texts=True)
    return Texts.of(documents_of(origin, column))


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def lines(*rows) -> str:
    return "\n".join(map(json.dumps, rows)) + "\n"


FINEWEB_EDU = {  # the columns of FineWeb-Edu on the hub
    "text": "A page.", "id": "<urn:uuid:1>", "dump": "CC-MAIN-2013-20", "url": "http://a.org/b", "file_path": "s3://c/d.gz",
    "language": "en", "language_score": 0.97, "token_count": 3, "score": 2.9, "int_score": 3,
}  # fmt: skip
PAGES = Path(__file__).parents[2].parent / "shared" / "data" / "fineweb_edu_150"


class TestFineWebEdu:
    """The same rows from files of each format: of nine further columns none is taken for the text."""

    def test_local_files(self, tmp_path):
        rows = [FINEWEB_EDU, FINEWEB_EDU | {"text": "Another.\nIts second line."}]
        texts = ["A page.", "Another.\nIts second line."]
        assert read_file(write(tmp_path / "a.jsonl", lines(*rows))) == texts
        assert read_file(write(tmp_path / "a.jsonl.gz", gzip.compress(lines(*rows).encode()))) == texts
        parquet = pytest.importorskip("pyarrow.parquet")
        table = pytest.importorskip("pyarrow").Table.from_pylist(rows)
        parquet.write_table(table, tmp_path / "a.parquet")
        assert read_file(tmp_path / "a.parquet") == texts

    @pytest.mark.skipif(not PAGES.is_dir(), reason=f"there is no {PAGES}")
    def test_150_pages(self):
        corpus = read_corpus(PAGES / "fineweb_edu_150.jsonl")
        assert len(corpus.documents) == 150 and sum(map(len, corpus.documents)) == 411_422


class TestFormats:
    def test_text_is_read_as_it_is(self, tmp_path):
        assert read_file(write(tmp_path / "a.txt", "é\r\nb\n\n ")) == ["é\r\nb\n\n "]
        assert read_file(write(tmp_path / "a.anything", b"\xef\xbb\xbfmarked")) == ["marked"]
        assert read_file(write(tmp_path / "b.txt.gz", gzip.compress(b"packed"))) == ["packed"]

    def test_jsonl(self, tmp_path):
        path = write(tmp_path / "a.jsonl", lines({"id": 1, "text": "a\u2028b"}, {"id": 2, "text": None}) + '\n"bare"\n')
        assert read_file(path) == ["a\u2028b", "", "bare"]
        path = write(tmp_path / "a.jsonl.gz", gzip.compress(lines({"title": "t", "n": 3}).encode()))
        assert read_file(path) == ["t"]
        path = write(tmp_path / "b.jsonl", lines({"q": "?", "a": "!"}))
        assert read_file(path, "a") == ["!"]

    def test_tables(self, tmp_path):
        path = write(tmp_path / "a.csv", 'id,text\n1,"a ""b"",\nc"\n2,d\n')
        assert read_file(path) == ['a "b",\nc', "d"]
        assert read_file(write(tmp_path / "a.tsv", "n\tsaid\n1\thello\n2\tyou, too\n")) == ["hello", "you, too"]
        assert read_file(write(tmp_path / "b.csv", "1,x\n2,y\n"), "2") == ["x", "y"]
        assert read_file(write(tmp_path / "c.csv", "text\n" + "w" * 200_000)) == ["w" * 200_000]

    def test_parquet(self, tmp_path):
        pyarrow = pytest.importorskip("pyarrow")
        table = pyarrow.table({"n": [1, 2], "text": ["a", None], "other": ["x", "y"]})
        pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "a.parquet")
        assert read_file(tmp_path / "a.parquet") == ["a", ""]
        assert read_file(tmp_path / "a.parquet", "other") == ["x", "y"]
        with pytest.raises(DataError, match="a.parquet:1: 'n' is the number 1; expected a string"):
            read_file(tmp_path / "a.parquet", "n")
        with pytest.raises(DataError, match="it has: n, text, other"):
            read_file(tmp_path / "a.parquet", "no")

    def test_lists_of_sentences(self, tmp_path):
        rows = [{"said": ["One.", "Two."], "n": 1}, {"said": [], "n": 2}, {"said": None, "n": 3}]
        assert read_file(write(tmp_path / "a.jsonl", lines(*rows)), "said") == ["One. Two.", "", ""]
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
        assert read_file(tmp_path / "a.parquet", "said") == ["One. Two.", "", ""]
        with pytest.raises(DataError, match="a.jsonl:1: 'said' is a list; expected a string"):
            read_file(write(tmp_path / "a.jsonl", lines({"said": ["One.", 2]})), "said")

    def test_parquet_without_the_extra(self, tmp_path, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
        with pytest.raises(MissingExtra, match="pip install 'transformula\\[parquet\\]'"):
            read_file(write(tmp_path / "a.parquet", b"PAR1"))

    def test_a_format_is_one_function(self, tmp_path):
        @formats.register("dashes")
        def read(path, content, column):
            return content.decode().split("---")

        assert read_file(write(tmp_path / "a.dashes", "a---b")) == ["a", "b"]
        assert read_corpus(str(tmp_path)).documents == ["a", "b"]


BAD = {
    "empty": ("a.txt", b"", "a.txt: is empty"),
    "blank": ("a.txt", b" \n\n", "a.txt: is empty"),
    "binary": ("a.txt", b"ab\ncd\0e", "a.txt:2: is binary: byte 5 is zero"),
    "picture": ("a.txt", b"\x89PNG\r\n\x1a\n\0\0", "looks like a picture"),
    "encoding": ("a.txt", "eins\nzwei Äpfel".encode("latin-1"), "a.txt:2: is not UTF-8: byte 10 is 0xc4"),
    "encoding, marked": ("a.txt", b"\xef\xbb\xbfa\xff", "byte 4 is 0xff"),
    "utf-16 cut": ("a.txt", "text".encode("utf-16")[:-1], "is not whole UTF-16 ("),
    "gzip": ("a.txt.gz", b"\x1f\x8b nonsense", "not a whole gzip file"),
    "gzip cut": ("a.txt.gz", gzip.compress(b"text" * 1000)[:-9], "not a whole gzip file"),
    "gzip by another name": ("a.txt", gzip.compress(b"text"), "looks like gzip; name it .gz"),
    "json": ("a.jsonl", b'{"text": "a"}\n{"text": "b"\n', "a.jsonl:2: broken JSON at column 13"),
    "json nested": ("a.jsonl", b"[" * 100_000, "a.jsonl:1: "),
    "json value": ("a.jsonl", b'{"text": "a"}\n{"text": 3}\n', "a.jsonl:2: 'text' is the number 3; expected a string"),
    "json list": ("a.jsonl", b'["a"]\n', "a.jsonl:1: the row is a list"),
    "json column gone": (
        "a.jsonl",
        b'{"text": "a"}\n{"txt": "b"}\n',
        "a.jsonl:2: has no column 'text'; did you mean txt?",
    ),
    "json which column": ("a.jsonl", b'{"a": "x", "b": "y"}\n', "(columns: a, b); name it with: column=NAME"),
    "json half": ("a.jsonl", b'{"text": "\\ud800"}\n', "a.jsonl:1: 'text' holds half a character"),
    "csv length": ("a.csv", b"text,n\na,1\nb\n", "a.csv:3: has 1 fields here, and 2 in its first row"),
    "csv quotes": ("a.csv", b'text\n"a" b\n', "a.csv:2: broken table"),
    "csv which column": ("a.csv", b"a,b\nx,y\n", "2 hold strings (columns: a, b)"),
    "parquet": ("a.parquet", b"PAR1 nonsense", "is not a whole parquet file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path, name):
    file, content, said = BAD[name]
    with pytest.raises(DataError) as error:
        read_corpus(str(write(tmp_path / file, content)))
    assert said in str(error.value)
    assert str(error.value).startswith(str(tmp_path / file))
    assert len(str(error.value)) < 400


def test_column_not_there(tmp_path):
    path = write(tmp_path / "a.jsonl", lines({"title": "x", "body": "y"}))
    with pytest.raises(DataError, match="no column 'titel'; did you mean title\\? it has: title, body"):
        read_file(path, "titel")
    with pytest.raises(DataError, match="no column number 3; it has 2"):
        read_file(write(tmp_path / "a.csv", "1,2\n"), "3")


def test_missing_and_unreadable(tmp_path, monkeypatch):
    write(tmp_path / "shakespeare.txt", "to be")
    with pytest.raises(DataError) as error:
        read_corpus(str(tmp_path / "shakespear.txt"))
    assert "there is no such file; did you mean" in str(error.value) and "shakespeare.txt?" in str(error.value)
    with pytest.raises(DataError, match="did you mean python-docs"):
        read_corpus("python-doc")
    with pytest.raises(DataError, match="no folder"):
        read_corpus(str(tmp_path / "no" / "file.txt"))

    def refuse(self, *how):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match="may not be read; .*chmod"):
        read_corpus(str(tmp_path / "shakespeare.txt"))


def test_folders_patterns_and_lists(tmp_path):
    write(tmp_path / "b.txt", "b")
    write(tmp_path / "deep" / "a.md", "a")
    write(tmp_path / "deep" / "c.png", b"\x89PNG")
    write(tmp_path / ".git" / "x.txt", "hidden")
    write(tmp_path / "deep" / "d.jsonl", lines({"text": "d"}, {"text": " "}))
    corpus = read_corpus(str(tmp_path))
    assert corpus.documents == ["b", "a", "d"] and corpus.files == 3 and corpus.left_out == 1
    assert read_corpus(str(tmp_path / "**" / "*.md")).documents == ["a"]
    assert read_corpus([str(tmp_path / "b.txt"), tmp_path / "deep" / "a.md"]).documents == ["b", "a"]
    with pytest.raises(DataError, match="fits no file"):
        read_corpus(str(tmp_path / "*.rst"))
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="no file of a known format \\(it is empty; known: bio, .*csv, "):
        read_corpus(str(tmp_path / "none"))
    write(tmp_path / "none" / "a.py", "code")
    with pytest.raises(DataError, match="it holds .py; .*by a pattern"):
        read_corpus(str(tmp_path / "none"))


def test_identity_is_of_the_content(tmp_path):
    a, b = write(tmp_path / "a.txt", "same"), write(tmp_path / "b.txt", "same")
    assert read_corpus(str(a)).documents.digests == read_corpus(str(b)).documents.digests
    assert read_corpus([str(a), str(b)]).documents.digests != read_corpus(str(a)).documents.digests


def test_names_that_are_no_files():
    with pytest.raises(DataError, match="expected the name of a file, not its text"):
        read_corpus("To be, or not to be, that is the question. " * 200)
    with pytest.raises(DataError):
        read_corpus("a\0b")
    with pytest.raises(DataError, match="is a device"):
        read_corpus("/dev/zero")


def test_json(tmp_path):
    path = write(tmp_path / "a.json", json.dumps([{"text": "a", "n": 1}, {"text": None}, "b"]))
    assert read_file(path) == ["a", "", "b"]
    for content, said in [
        ('{"text": "a"}', "is an object; expected a list"),
        ('[{"text": "a"},\n{"text" 3}]', "a.json:2: broken JSON at column 9"),
        ('[{"text": "a"}, {"text": 3}]', "entry 2: 'text' is the number 3"),
        ('[{"text": "a"}, {}]', "entry 2: has no column 'text'; it has: nothing"),
        ("[[]]", "entry 1: the row is a list"),
    ]:
        with pytest.raises(DataError) as error:
            read_file(write(tmp_path / "a.json", content))
        assert said in str(error.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_wide_characters_by_their_mark(tmp_path, encoding):
    text = "name\tÄ €\r\n\u2028🙂\tx" + "y" * 70_000
    mark = b"" if encoding in ("utf-16", "utf-32") else "\ufeff".encode(encoding)
    for name in ("a.txt", "a.txt.gz"):
        content = mark + text.encode(encoding)
        path = write(tmp_path / name, gzip.compress(content) if name.endswith(".gz") else content)
        assert read_file(path) == [text]
        assert [line for _, line in lines_of(path)] == text.split("\r\n")
        assert list(lines_of(path, encoding)) == list(lines_of(path))
        with pytest.raises(DataError, match="is in UTF-(16|32): leave out encoding"):
            list(lines_of(path, "latin-1"))
    path = write(tmp_path / "b.txt", text.encode(encoding))
    assert list(lines_of(path, encoding))[0] == (1, "name\tÄ €")  # without a mark it is named


class TestWhatIsNoFile:
    def test_a_pipe_is_refused_and_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.txt")
        os.mkfifo(tmp_path / "pipe.tsv")
        for read in (
            lambda: read_corpus(str(tmp_path / "pipe.txt")),
            lambda: list(read_records(tmp_path / "pipe.tsv")),
            lambda: list(read_records({"source": tmp_path / "pipe.txt", "target": tmp_path / "pipe.txt"})),
        ):
            with pytest.raises(DataError, match="is a pipe; expected a file, .*write it into one first"):
                read()
        write(tmp_path / "b.txt", "text")
        assert read_corpus(str(tmp_path)).documents == ["text"]

    def test_devices_folders_and_links(self, tmp_path):
        (tmp_path / "x.tsv").mkdir()
        (tmp_path / "gone.txt").symlink_to("nowhere.txt")
        (tmp_path / "loop.txt").symlink_to("loop.txt")
        for path, said in [
            (Path("/dev/zero"), "is a device"),
            (tmp_path / "gone.txt", "is a link to nowhere.txt, which is not there"),
            (tmp_path / "loop.txt", "cannot be read \\(Too many levels of symbolic links\\)"),
            (Path("a\0b"), "cannot be read \\(embedded null byte\\)"),
            (tmp_path / ("n" * 5_000), "cannot be read \\(File name too long\\)"),
        ]:
            for read in (read_corpus, lambda path: list(read_records({"source": path, "target": path}))):
                with pytest.raises(DataError, match=said if read is not read_corpus else "."):
                    read(str(path))

    def test_a_folder_that_may_not_be_read_is_not_passed_over(self, tmp_path, monkeypatch):
        write(tmp_path / "a.txt", "a")
        write(tmp_path / "locked" / "b.txt", "b")
        scan = os.scandir

        def refuse(path):
            if Path(path).name == "locked":
                raise PermissionError(13, "Permission denied", str(path))
            return scan(path)

        monkeypatch.setattr(os, "scandir", refuse)
        with pytest.raises(DataError, match="locked: may not be read"):
            read_corpus(str(tmp_path))

    def test_a_gzip_file_that_unpacks_to_far_more(self, tmp_path, monkeypatch):
        monkeypatch.setattr("transformula.data.lines.UNPACKED", 100_000)
        path = write(tmp_path / "a.txt.gz", gzip.compress(b"a" * 2_000_000))
        for read in (lambda: read_file(path), lambda: list(lines_of(path))):
            with pytest.raises(DataError, match="unpacks to more than 200 times its size, .* gunzip -k a.txt.gz"):
                read()
        write(path, gzip.compress(b"a" * 90_000))
        assert read_file(path) == ["a" * 90_000]


def test_several_columns_are_one_document(tmp_path):
    table = tmp_path / "news.csv"
    table.write_text("label,title,body\n1,Rain,It rains.\n2,Sun,It shines.\n")
    assert read_corpus(table, "title + body").documents == ["Rain It rains.", "Sun It shines."]
    assert read_corpus(table, "2 + 3").documents[1:] == ["Rain It rains.", "Sun It shines."]
    rows = tmp_path / "news.jsonl"
    rows.write_text('{"title": "Rain", "body": "It rains."}\n')
    assert read_corpus(rows, "title + body").documents == ["Rain It rains."]
    with pytest.raises(DataError, match="has no column 'titel'; did you mean title"):
        read_corpus(table, "titel + body")
