"""Spreadsheets: which rows they give, and what is refused in bounded time."""

import datetime
import io
import zipfile
from pathlib import Path

import pytest

from transformula.data.corpus import read_corpus
from transformula.data.records import columns_of, read_records
from transformula.errors import ConfigError, DataError

openpyxl = pytest.importorskip("openpyxl")


def sheet(path: Path, *sheets: list[list[object]]) -> str:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets, 1):
        one = book.create_sheet(f"S{number}")
        for row in rows:
            one.append(row)
    book.save(path)
    return str(path)


ROWS: list[list[object]] = [
    ["text", "score", "when", None],
    ["A film; fine, \"so\"\nand long", 3, datetime.date(2024, 5, 31)],
    [],
    ["ein Ä 🙂", 2.5, None],
    [True, None, datetime.datetime(2024, 1, 1, 12, 30)],
]


def test_rows_of_a_sheet(tmp_path):
    path = sheet(tmp_path / "a.xlsx", [], ROWS)
    assert columns_of(path) == (["text", "score", "when"], True)
    records = read_records(path, empty="keep")
    assert [list(record.values()) for record in records] == [
        ['A film; fine, "so"\nand long', "3", "2024-05-31"],
        ["ein Ä 🙂", "2.5", ""],
        ["true", "", "2024-01-01 12:30:00"],
    ]
    assert [record.place for record in records] == [f"{path}:{row}" for row in (2, 4, 5)] and records.notes == []
    assert [row["n"] for row in read_records(path, {"n": "score"}, kinds={"n": "number"}, where='when == ""')] == [2.5]
    assert read_corpus(path, "text").documents[1] == "ein Ä 🙂"
    path = sheet(tmp_path / "b.xlsx", [["text"], ["a"]], [["other"]], [["b"]])
    records = read_records(path)
    assert [dict(record) for record in records] == [{"text": "a"}]
    told = "the sheet 'S1' is read, the first of 3; left out: 'S2', 'S3'; to read another, say sheet='S2'"
    assert records.notes == [f"{path}: {told}"]


def test_a_sheet_by_its_name(tmp_path):
    path = sheet(tmp_path / "a.xlsx", [["text"], ["a"]], [["text", "n"], ["b", 2]], [])
    assert [dict(record) for record in read_records(path, sheet="S2")] == [{"text": "b", "n": "2"}]
    assert read_corpus(path, "text", sheet="S2").documents == ["b"] and read_records(path, sheet="S2").notes == []
    with pytest.raises(DataError, match=r"a.xlsx: its sheet 'S3' holds no row"):
        list(read_records(path, sheet="S3"))
    with pytest.raises(DataError, match=r"a.xlsx: has no sheet 's2'; did you mean S2.* its sheets: 'S1', 'S2', 'S3'"):
        list(read_records(path, sheet="s2"))
    (tmp_path / "b.csv").write_text("text\nfine\n")
    with pytest.raises(ConfigError, match="sheet: has no meaning for .csv files; leave it out"):
        read_records(tmp_path / "b.csv", sheet="S1")


def test_rows_that_do_not_fit(tmp_path):
    path = sheet(tmp_path / "a.xlsx", [["text", "label"], ["a", "b", "c"], ["d"]])
    with pytest.raises(DataError, match=r"a.xlsx:2: has 3 fields here, and 2 in its first row; or say what"):
        list(read_records(path))
    assert [list(row.values()) for row in read_records(path, ragged="fit", empty="keep")] == [["a", "b"], ["d", ""]]
    with pytest.raises(ConfigError, match="delimiter: has no meaning for .xlsx files"):
        read_records(path, delimiter="tab")
    with pytest.raises(DataError, match="no sheet of it holds a row"):
        list(read_records(sheet(tmp_path / "b.xlsx", [], [[None]])))


def changed(path: Path, **parts: bytes) -> Path:
    """A workbook with other content in some of its parts."""
    content = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(content) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            part = next((value for key, value in parts.items() if name.endswith(f"{key}.xml")), None)
            new.writestr(name, old.read(name) if part is None else part)
    return path


HEAD = b'<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
TAIL = b"</sheetData></worksheet>"
CELL = b'<row r="%d"><c r="%s1" t="inlineStr"><is><t>text</t></is></c></row>'
HOSTILE = {
    "unpacks to more than it should": (HEAD + b" " * 120_000_000 + TAIL, "unpacks to 1.*more than 200 times its size"),
    "a row far below": (HEAD + CELL % (1, b"A") + CELL % (10**12, b"A") + TAIL, "has more than 4,096 columns or 1,0"),
    "a cell far to the right": (HEAD + CELL % (1, b"XFD") + TAIL, "has more than 4,096 columns"),
    "entities of entities": (
        HEAD.replace(b"<worksheet", b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;">]><worksheet')
        + b'<row r="1"><c r="A1" t="inlineStr"><is><t>&b;</t></is></c></row>' + TAIL,
        "is not a whole .xlsx file",
    ),
    "cut": (HEAD + CELL % (1, b"A"), "is not a whole .xlsx file"),
    "no string of that number": (
        HEAD + b'<row r="1"><c r="A1" t="s"><v>99999</v></c></row>' + TAIL, "is not a whole .xlsx file"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_sheet(tmp_path, name):
    content, said = HOSTILE[name]
    path = changed(Path(sheet(tmp_path / "a.xlsx", [["text"], ["a"]])), sheet1=content)
    with pytest.raises(DataError, match=f"a.xlsx.*: {said}"):
        list(read_records(path))


def test_what_is_no_sheet(tmp_path):
    with_password = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600
    for content in (b"", b"text,label\n", b"PK\x03\x04" + b"\0" * 50, with_password):
        (tmp_path / "a.xlsx").write_bytes(content)
        with pytest.raises(DataError, match=r"a.xlsx: is not a whole .xlsx file .* or has a password"):
            list(read_records(tmp_path / "a.xlsx"))
    with pytest.raises(DataError, match="there is no such file"):
        list(read_records(tmp_path / "b.xlsx"))
