"""Token shards that are made ahead: the tokens of the stream, the same bytes after a kill, and nothing lost unnamed."""

import json
from pathlib import Path

import numpy as np
import pytest

from transformula.data.prepare import data_of
from transformula.data.settings import DataSettings, PrepareSettings, TextSettings
from transformula.data.stream.prepared import prepared_folder, read_prepared
from transformula.data.stream.preparing import Maker, begin_folder, merge_shards, prepare_shards
from transformula.data.stream.streamed import read_stream
from transformula.data.tokens import Tokens
from transformula.data.windows import Windows
from transformula.errors import ConfigError, DataError


def shards(folder: Path, count: int = 6) -> Path:
    folder.mkdir()
    for number in range(count):
        rows = [{"text": f"shard {number}, row {row} " + "y" * (row * 7 % 30)} for row in range(15)]
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def settings(data: Path, **more: object) -> DataSettings:
    return DataSettings.read({"data": str(data), "stream": True, "tokenizer": "bytes", **more})


def how(folder: Path, **more: object) -> PrepareSettings:
    return PrepareSettings.read({"out": str(folder), "workers": 1, **more})


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_prepared_tokens_are_those_of_the_stream(tmp_path: Path) -> None:
    asked = settings(shards(tmp_path / "data"))
    index = prepare_shards(asked, how(tmp_path / "out"))
    data = read_prepared(DataSettings.read({"data": str(tmp_path / "out")}), tmp_path / "out")
    stream = read_stream(asked)
    (text,) = stream.texts
    whole = [ids for name in text.source.names for _, ids in text.tokens(stream.tokenizer, name)]
    assert len(data.training) == index["tokens"] == sum(map(len, whole))
    assert (data.training.ids[np.arange(len(data.training))] == np.concatenate(whole)).all()
    assert (np.asarray(data.validation.ids) == np.asarray(stream.validation.ids)).all()
    assert index["documents"] + data.validation.documents == 6 * 15
    assert data.validation.text_bytes == stream.validation.text_bytes


def test_a_prepare_that_was_killed_leaves_the_same_bytes(tmp_path: Path) -> None:
    asked = settings(shards(tmp_path / "data"))
    prepare_shards(asked, how(tmp_path / "whole"))
    data = read_stream(asked)
    (tmp_path / "cut").mkdir()
    begin_folder(tmp_path / "cut", data, asked)
    maker = Maker(asked, tmp_path / "cut")
    maker.make(4)
    made = (tmp_path / "cut" / "shards" / "000004.bin").stat().st_mtime_ns
    (tmp_path / "cut" / "shards" / "000002.bin").write_bytes(b"half")  # killed before its .json
    (tmp_path / "cut" / "shards" / ".000001.bin.77.part").write_bytes(b"ha")
    prepare_shards(asked, how(tmp_path / "cut"))
    assert (tmp_path / "cut" / "shards" / "000004.bin").stat().st_mtime_ns == made
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_parts_are_merged_and_what_is_lost_short_or_damaged_is_named(tmp_path: Path) -> None:
    asked, out = settings(shards(tmp_path / "data")), tmp_path / "out"
    prepare_shards(asked, how(out, part="1/2"))
    with pytest.raises(DataError, match="is not prepared to its end"):
        prepared_folder(str(out))
    with pytest.raises(DataError, match="000001.bin: is not made.*1.jsonl, shard 2 of 6"):
        prepare_shards(asked, how(out, merge=True))
    prepare_shards(asked, how(out, part="2/2"))
    prepare_shards(asked, how(out, merge=True))
    assert prepared_folder(str(out)) == out
    path, text = out / "shards" / "000003.bin", read_stream(asked).texts[0]
    right = path.read_bytes()
    path.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    with pytest.raises(DataError, match="000003.bin: damaged"):
        merge_shards(out, text)
    path.write_bytes(right[:-2])
    with pytest.raises(DataError, match="000003.bin: is short"):
        merge_shards(out, text)
    for state, what in ((right[:-2], "has .* bytes in place of"), (None, "is lost")):
        path.unlink() if state is None else path.write_bytes(state)
        with pytest.raises(DataError, match=f"000003.bin: {what}.*3.jsonl"):
            read_prepared(DataSettings.read({"data": str(out)}), out)


@pytest.mark.slow
def test_processes_do_not_change_a_byte(tmp_path: Path) -> None:
    asked = settings(shards(tmp_path / "data", 3))
    prepare_shards(asked, how(tmp_path / "one"))
    prepare_shards(asked, how(tmp_path / "two", workers=2))
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_bad_shards_are_named_or_left_out_and_counted(tmp_path: Path) -> None:
    data = shards(tmp_path / "data")
    (data / "3.jsonl").write_text('{"text": "whole"}\n{"text": "cu')
    with pytest.raises(DataError, match="3.jsonl:2: broken JSON"):
        prepare_shards(settings(data), how(tmp_path / "stops"))
    index = prepare_shards(settings(data, bad_shards="skip"), how(tmp_path / "out"))
    assert [Path(name).name for name in index["bad"]] == ["3.jsonl"]


def test_a_folder_of_other_data_is_refused(tmp_path: Path) -> None:
    asked = settings(shards(tmp_path / "data"))
    prepare_shards(asked, how(tmp_path / "out"))
    with pytest.raises(DataError, match="holds tokens of other data"):
        prepare_shards(settings(shards(tmp_path / "other", 2)), how(tmp_path / "out"))
    with pytest.raises(ConfigError, match="column: says how text is read"):
        read_prepared(DataSettings.read({"data": str(tmp_path / "out"), "column": "x"}), tmp_path / "out")
    with pytest.raises(ConfigError, match="shuffle: of tokens made ahead"):
        prepare_shards(settings(tmp_path / "data", shuffle=5), how(tmp_path / "new"))
    with pytest.raises(ConfigError, match="which only language modeling reads"):
        data_of(TextSettings.read({"data": str(tmp_path / "out")}), None, None, False)
    with pytest.raises(ConfigError, match="part: expected"):
        how(tmp_path / "out", part="3/2")


def test_a_folder_that_was_only_begun_is_gone_on_with_and_another_reading_is_refused(tmp_path: Path) -> None:
    asked = settings(shards(tmp_path / "data"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".plan.json.part").write_bytes(b"{")  # killed before the plan was whole
    prepare_shards(asked, how(tmp_path / "out", part="1/2"))
    (tmp_path / "out" / "validation.json").unlink()  # killed after the plan
    assert prepare_shards(asked, how(tmp_path / "out"))["tokens"]
    for more in ({"where": "text > a"}, {"encoding": "latin-1"}, {"split": 0.5}):
        with pytest.raises(DataError, match="holds tokens of other data"):
            prepare_shards(settings(tmp_path / "data", **more), how(tmp_path / "out"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="is not empty"):
        prepare_shards(asked, how(tmp_path / "mine"))


def test_windows_of_many_parts_are_those_of_one(tmp_path: Path) -> None:
    ids = np.arange(1000, dtype=np.uint16)
    many = Tokens(np.split(ids, [1, 17, 400, 401, 990]), 0, 0, 0)
    one, other = Windows(ids, 16, 4, 2, 7), Windows(many, 16, 4, 2, 7)
    for step in range(40):
        assert all((a == b).all() for a, b in zip(one.at(step, step % 2), other.at(step, step % 2), strict=True))


def test_a_row_of_many_parts_is_indexed_and_counted_as_one() -> None:
    ids = np.random.default_rng(0).integers(0, 5, 1000).astype(np.uint16)
    one, many = Tokens([ids], 0, 0, 0), Tokens(np.split(ids, [1, 17, 400, 400, 990]), 0, 0, 0)
    places = np.array([[0, 999, 17], [400, 399, -1]])
    for row in (one, many):
        assert len(row) == 1000 and row.ids.dtype == row[5:9].dtype == ids.dtype
        for asked in (slice(None), slice(10, 995, 3), slice(-20, None), 400, -1, places):
            assert (row[asked] == ids[asked]).all()
        assert [row.count(token) for token in (0, 4, 7, None)] == [(ids == 0).sum(), (ids == 4).sum(), 0, 0]
        with pytest.raises(IndexError):
            row[1000]
