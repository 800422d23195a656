"""Data sets of the hub as shards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data.hub_server import HubServer, fineweb_edu, page, point_to
from transformula.data.stream.hub import HubShards
from transformula.data.where import Where
from transformula.errors import DataError

pytest.importorskip("datasets")

EDU = "hf:HuggingFaceFW/fineweb-edu:sample-10BT"
PAGES = [page(number) for number in range(120)]


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
    assert source.text == "text" and source.stamp(source.names[0]) == source.known.commit


@pytest.mark.filterwarnings("ignore:hf:UserWarning")
def test_documents_are_those_that_are_wanted_from_any_row_on(hub: HubServer) -> None:
    """And the same while the hub breaks."""
    source = HubShards(EDU, where=Where.parse("int_score >= 3 and language == en"))
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
