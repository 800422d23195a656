"""Shards are read row by row from any row on, and what cannot be read names the shard and the row."""

import gzip
import itertools
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from transformula.data.format import Options
from transformula.data.stream.shards import FileShards, ShardSource
from transformula.errors import DataError, InputError

ROWS = [{"id": number, "text": f"document {number}"} for number in range(40)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


def write(folder: Path, kind: str, rows: list[dict] = ROWS) -> Path:
    path = folder / f"part.{kind}"
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=7)
    elif kind == "jsonl.gz":
        path.write_bytes(gzip.compress(lines.encode()))
    elif kind == "jsonl.zst":
        with pyarrow.CompressedOutputStream(str(path), "zstd") as file:
            file.write(lines.encode())
    elif kind == "csv":
        path.write_text("id,text\n" + "".join(f"{row['id']},{row['text']}\n" for row in rows))
    else:
        path.write_text(lines.replace("\n", "\n\n"))  # blank lines are no rows
    return path


KINDS = ["parquet", "jsonl", "jsonl.gz", "jsonl.zst", "csv"]


@pytest.mark.parametrize("kind", KINDS)
def test_reading_from_any_row_is_the_rest_of_reading_all(kind: str, tmp_path: Path) -> None:
    source = FileShards(str(write(tmp_path, kind)))
    (shard,) = source.names
    whole = list(source.documents(shard))
    assert whole == [(number, f"document {number}") for number in range(40)]
    for start in (1, 6, 7, 8, 13, 14, 39, 40, 55):
        assert list(source.documents(shard, start)) == whole[start:]


@pytest.mark.parametrize("kind", KINDS)
def test_a_shard_that_was_cut_is_named(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, kind)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + (b"\xff" if kind in ("csv", "jsonl") else b""))
    source = FileShards(str(path), "text")
    with pytest.raises(DataError, match=str(path)):
        list(source.documents(str(path)))


def test_a_parquet_file_without_a_footer_says_what_to_do(tmp_path: Path) -> None:
    path = write(tmp_path, "parquet")
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match="is not a whole parquet file.*copy it again"):
        list(FileShards(str(path), "text").documents(str(path)))


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "part.jsonl"
    path.write_text('{"text": "one"}\n{"text": "two"\n')
    with pytest.raises(DataError, match="part.jsonl:2: broken JSON"):
        list(FileShards(str(path)).documents(str(path)))


def test_the_column_of_the_text(tmp_path: Path) -> None:
    rows = [{"title": "Ode", "body": "to joy", "score": 3}]
    path = write(tmp_path, "parquet", rows)
    with pytest.raises(InputError, match="which column is the text"):
        _ = FileShards(str(path)).text
    assert list(FileShards(str(path), "title + body").documents(str(path))) == [(0, "Ode to joy")]
    assert list(FileShards(str(path), "body").documents(str(path))) == [(0, "to joy")]
    with pytest.raises(DataError, match="has no column 'boddy'; did you mean body"):
        list(FileShards(str(path), "boddy").documents(str(path)))


def test_a_folder_is_its_files_in_order_and_the_first_that_can_be_read_says_the_column(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, "parquet").rename(tmp_path / f"{2 - number}.parquet")
    (tmp_path / "0.parquet").write_bytes(b"")
    source = FileShards(str(tmp_path))
    assert [Path(name).name for name in source.names] == ["0.parquet", "1.parquet", "2.parquet"]
    assert source.text == "text"


def test_rows_that_a_source_does_not_want_keep_their_numbers() -> None:
    class Even(ShardSource):
        def rows(self, shard: str, start: int = 0):
            return ({"text": f"{shard} {number}" if number % 3 else " "} for number in itertools.count(start))

        def keeps(self, row, place: str) -> bool:
            return row["text"] == " " or int(row["text"].split()[1]) % 2 == 0

    numbers = [number for number, _ in itertools.islice(Even("even", ["a"]).documents("a", 1), 4)]
    assert numbers == [2, 4, 8, 10]
    with pytest.raises(DataError, match="holds no shards"):
        Even("even", [])


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_on_columns_leave_rows_out(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, kind)
    for column in (None, "text"):
        source = FileShards(str(path), column, Options(where="id >= 37"))
        assert [number for number, _ in source.documents(str(path), 3)] == [37, 38, 39]
