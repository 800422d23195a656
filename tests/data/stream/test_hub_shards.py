"""Data sets of the hub as shards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.data.hub_server import HubServer, fineweb_edu, page, point_to, silence
from transformula.data.format import Options
from transformula.data.settings import DataSettings
from transformula.data.sources import absolute_names, missing_sources, need_sources
from transformula.data.stream.batches import StreamedWindows
from transformula.data.stream.documents import short_digest
from transformula.data.stream.shards import HubShards
from transformula.data.stream.streamed import read_stream, weighted_source
from transformula.data.token_data import TokenData
from transformula.errors import ConfigError, DataError

pytest.importorskip("datasets")

EDU = "hf:HuggingFaceFW/fineweb-edu:sample-10BT"
PAGES = [page(number) for number in range(120)]
WHERE = "int_score >= 3 and language == en"
BAD_DAY = {
    "000_00000": ("drop", 500, "stall", *[503] * 7),
    "001_00000": (*[500] * 9, "drop"),
    "002_00000": ("stall", 429, *[502] * 5, "drop"),
}
"""What each file's next answers are."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    with HubServer({"HuggingFaceFW/fineweb-edu": fineweb_edu()}) as server:
        point_to(server, monkeypatch, tmp_path)
        yield server


def test_files_are_shards(hub: HubServer) -> None:
    source = HubShards(EDU)
    assert source.names == tuple(f"sample/10BT/00{n}_00000.parquet" for n in range(3))
    assert [row for shard in source.names for row in source.rows(shard)] == PAGES
    assert list(source.rows(source.names[1], 33)) == PAGES[73:80]
    assert source.text == "text" and source.stamp(source.names[0]) == [source.known.commit, "None"]


@pytest.mark.filterwarnings("ignore:hf:UserWarning")
def test_documents_are_those_that_are_wanted_from_any_row_on(hub: HubServer) -> None:
    """And the same while the hub breaks."""
    source = HubShards(EDU, how=Options(where="int_score >= 3 and language == en"))
    shard = source.names[2]
    wanted = [(n, r["text"]) for n, r in enumerate(PAGES[80:]) if r["int_score"] >= 3 and r["language"] == "en"]
    assert source.text == "text" and 0 < len(wanted) < 40
    hub.fail("002_00000", *[500] * 6, "drop", *[503] * 5)
    assert list(source.documents(shard)) == wanted
    assert len(hub.faulted) == 12
    for start in (1, 10, 17, 39, 40):
        assert list(source.documents(shard, start)) == [(n, text) for n, text in wanted if n >= start]


def test_a_number_of_rows_is_refused(hub: HubServer) -> None:
    with pytest.raises(DataError, match="a stream reads whole files; leave the number of rows out"):
        HubShards(f"{EDU}:train[:10]")


def stream_of(data: str = EDU, **more: object) -> TokenData:
    return read_stream(DataSettings.read({"data": data, "stream": True, "tokenizer": "bytes", "where": WHERE, **more}))


def steps(windows: StreamedWindows, first: int, end: int) -> list[np.ndarray]:
    return [windows.step(number) for number in range(first, end)]


@pytest.mark.filterwarnings("ignore:hf:UserWarning")
def test_an_epoch_of_a_bad_day_has_each_document_that_is_wanted_once(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    point_to(hub, monkeypatch, tmp_path, timeout=silence())
    data = stream_of()
    for place, faults in BAD_DAY.items():
        hub.fail(place, *faults)
    ((reader,),) = data.windows(16, 1, 1, seed=1).readers
    read = [np.zeros(0, np.int64)]
    while reader.place[0] == 0:  # the epoch
        read.append(reader.window(17)[:-1])
    ids = np.concatenate(read)
    ends = np.flatnonzero(ids == data.tokenizer.end_of_document)
    texts = [data.tokenizer.decode(part[part < 256]) for part in np.split(ids, ends)[:-1]]
    wanted = {row["text"] for row in PAGES if row["int_score"] >= 3 and row["language"] == "en"}
    held = {text for text in wanted if short_digest(text) in data.texts[0].held_out}
    assert held and len(hub.faulted) == sum(map(len, BAD_DAY.values()))
    assert sorted(filter(None, texts)) == sorted(wanted - held)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:hf:UserWarning")
def test_batches_of_a_bad_day_are_those_of_a_good_one_and_a_stop_is_exact(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """30 steps are more than an epoch."""
    point_to(hub, monkeypatch, tmp_path, timeout=silence())
    good = steps(stream_of().windows(64, 3, 2, seed=4), 0, 30)
    data = stream_of()
    first, second = data.windows(64, 3, 2, seed=4), data.windows(64, 3, 2, seed=4)
    for place, faults in BAD_DAY.items():
        hub.fail(place, *faults)
    begun = steps(first, 0, 11)
    hub.fail("00000", "drop", *[500] * 8)
    second.put(first.tensors())
    assert all((one == other).all() for one, other in zip(good, begun + steps(second, 11, 30), strict=True))
    assert len(hub.faulted) > sum(map(len, BAD_DAY.values()))


def test_a_source_of_the_hub_may_have_a_weight_beside_files(hub: HubServer, tmp_path: Path) -> None:
    """And is known where names of data are looked at."""
    (tmp_path / "own.jsonl").write_text('{"text": "mine", "int_score": 5, "language": "en"}\n' * 4)
    name = f"web=0.75:{EDU}"
    assert (missing_sources(name), absolute_names(name)) == ([], name)
    need_sources([name, str(tmp_path / "own.jsonl")], texts=True)
    data = stream_of([name, f"own=0.25:{tmp_path / 'own.jsonl'}"], validation=str(tmp_path / "own.jsonl"))
    assert list(data.weights) == [0.75, 0.25] and isinstance(data.texts[0].source, HubShards)
    assert data.identity != stream_of(EDU).identity != stream_of(EDU, where="int_score >= 2").identity


def test_what_says_how_files_are_read_is_refused(hub: HubServer) -> None:
    for key, value in (("encoding", "latin-1"), ("file_format", "csv"), ("quoted", True)):
        with pytest.raises(ConfigError, match=f"{key}: has no meaning for {EDU}; leave it out"):
            weighted_source(EDU, DataSettings.read({"data": EDU, key: value}))
    with pytest.raises(DataError, match=r"00000.parquet, row 0: where: has no column 'int_scor'; did you mean int_s"):
        stream_of(where="int_scor >= 3")
