"""Text in other encodings, files whose names do not say their format, and the settings of both."""

from pathlib import Path

import pytest

from transformula.data.corpus import read_corpus
from transformula.data.records import columns_of, read_records
from transformula.data.settings import SourceSettings, TextSettings
from transformula.errors import TYPED, ConfigError, DataError

LATIN = "name,text\r\n1,Äpfel\r\n2,café\n".encode("latin-1")


def test_text_in_another_encoding(tmp_path):
    for name, content in {"a.csv": LATIN, "a.txt": b"caf\xe9\n", "a.jsonl": b'{"text": "caf\xe9"}\n'}.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.\w+:\d: is not UTF-8: byte \d+ .*name that, as in encoding=latin-1"):
            read_corpus(path, column=None if name != "a.csv" else "text")
        said = TYPED.set(frozenset(["--encoding"]))
        with pytest.raises(DataError, match="name that, as in --encoding latin-1, or convert it: iconv"):
            read_corpus(path, column=None if name != "a.csv" else "text")
        TYPED.reset(said)
        said = TYPED.set(frozenset(["--input"]))  # a command without the option
        with pytest.raises(DataError, match="if it is text in another encoding, convert it: iconv"):
            read_corpus(path, column=None if name != "a.csv" else "text")
        TYPED.reset(said)
        assert "café" in read_corpus(path, column="text", encoding="latin-1").documents[-1]
    rows = [dict(row) for row in read_records(tmp_path / "a.csv", ["text"], encoding="cp1252")]
    assert rows == [{"text": "Äpfel"}, {"text": "café"}]
    with pytest.raises(DataError, match=r"a.csv:2: is not ascii: byte 13 .* name the encoding that it is in"):
        list(read_records(tmp_path / "a.csv", encoding="ascii"))
    beside = read_records({"a": tmp_path / "a.txt", "b": tmp_path / "a.txt"}, encoding="latin-1")
    assert [dict(row) for row in beside] == [{"a": "café", "b": "café"}]
    for name, content in {"b.tsv": "text\nx\ncafé\n", "b.txt": "\n\ncafé"}.items():
        (tmp_path / name).write_bytes(content.encode())
        with pytest.raises(DataError, match="is UTF-8, not iso8859-1: leave out encoding") as error:
            read_corpus(tmp_path / name, encoding="latin-1")
        assert error.value.line == (3 if name == "b.tsv" else None)
    for utf8 in ("utf-8", "UTF8", "utf-8-sig"):
        (tmp_path / "b.tsv").write_bytes(b"\xef\xbb\xbftext\nx\n")
        assert columns_of(tmp_path / "b.tsv", encoding=utf8) == (["text"], True)


@pytest.mark.parametrize(
    ("name", "said"), [("latin-0", "is not known"), ("cp037", "iconv -f cp037"), ("zlib", "known")]
)
def test_encodings_that_cannot_be_read(name, said):
    with pytest.raises(ConfigError, match=said):
        read_records("python-summaries", encoding=name)
    with pytest.raises(ConfigError, match=f"encoding: .*{said}"):
        SourceSettings.read({"encoding": name})
    typed = TYPED.set(frozenset(["--encoding"]))
    with pytest.raises(ConfigError, match=f"^--encoding: (?!-).*{said}"):
        SourceSettings.read({"encoding": name})
    TYPED.reset(typed)


def test_an_option_without_effect_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    for source, option in (("python-summaries", {"encoding": "latin-1"}), ("python-summaries", {"file_format": "tsv"})):
        with pytest.raises(ConfigError, match="has no meaning for python-summaries, which is built in"):
            read_records(source, **option)
        with pytest.raises(ConfigError, match="has no meaning for python-summaries"):
            read_corpus(source, **option)
    assert read_corpus(tmp_path / "a.txt", file_format="tsv", column="1").documents == ["text"]


def test_the_error_for_an_unknown_ending_names_the_option(tmp_path):
    for name, said in (("sst.train", "its ending .train is"), ("sst", "its name has no ending that is")):
        (tmp_path / name).write_text("1\ta film\n")
        with pytest.raises(DataError, match=f"{name}: {said} no format with columns; say .* with file_format=tsv, or"):
            read_records(tmp_path / name)
        assert [row["1"] for row in read_records(tmp_path / name, {"1": 1}, file_format="tsv")] == ["1"]


def test_settings_name_both(tmp_path):
    settings = TextSettings.read({"encoding": "latin-1", "file_format": "csv", "column": "text"})
    (tmp_path / "rows.dat").write_bytes(LATIN)
    assert read_corpus(tmp_path / "rows.dat", settings.column, **settings.reading).documents == ["Äpfel", "café"]
    assert [r["name"] for r in read_records(Path(tmp_path / "rows.dat"), **settings.reading)] == ["1", "2"]
    with pytest.raises(ConfigError, match="file_format: no such format; expected one of: bio, conll, "):
        SourceSettings.read({"file_format": "ods"})
