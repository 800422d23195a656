"""Checkpoints that several ranks write: read by any number of ranks, in any division; whole, named, or not there."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp

from tests.pace import PATIENCE
from tests.runs import sharded
from tests.training.parallel.two_ranks import on_ranks
from transformula.atomic_io import remove_partial
from transformula.errors import CheckpointError
from transformula.runs.checkpoint import MANIFEST, Checkpoint, folder_of, load_checkpoint, newest, save_checkpoint
from transformula.runs.sharded_checkpoint import Saver

DIVIDED = ("average", "optimizer", "weights")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    sharded.by_one(folder)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def found(place: Path) -> list[dict[str, Any]]:
    """What each of two ranks finds, in one launch."""
    return on_ranks(sharded.by_two, place, place)


def both(found: list[dict[str, Any]], key: str) -> Any:
    """What the two ranks found alike."""
    assert found[0][key] == found[1][key]
    return found[0][key]


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", ["plain", "own", "plain into divided", "divided into plain", "tensor and data", "ways", "newest differs"]
)
def test_two_ranks_read_in_any_division(found: list[dict[str, Any]], way: str) -> None:
    """Bit for bit: weights, what AdamW keeps, and the average, of sizes that two ranks do not divide evenly."""
    assert both(found, way) == []


@pytest.mark.slow
def test_each_rank_writes_its_part_once(found: list[dict[str, Any]], place: Path) -> None:
    """A file of each rank for each kind of tensors, no pickle, and no number twice but for headers."""
    folder = folder_of(place, 3)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    shards = [f"{group}/shard-0000{n}-model-00001-of-00001.safetensors" for group in DIVIDED for n in (1, 2)]
    assert names == sorted([*shards, MANIFEST, "state.json", "streams.safetensors"])
    assert sorted(json.loads((folder / MANIFEST).read_text())["files"]) == [n for n in names if n != MANIFEST]
    numbers = sum(t.nbytes for t in sharded.trained(sharded.toy())[1]["weights"].values())
    assert sum((folder / n).stat().st_size for n in names if n.startswith("weights")) < numbers + 2 * 2000


@pytest.mark.slow
def test_what_does_not_fit_is_named_on_all_ranks(found: list[dict[str, Any]]) -> None:
    assert "0.bias has the shape (10,), the model's text says (2,)" in both(found, "shape")
    assert "0.wait is missing (it holds 0.weight, which the model lacks)" in both(found, "name")


@pytest.mark.slow
def test_the_newest_is_read_divided_and_a_damaged_one_passed_over(found: list[dict[str, Any]]) -> None:
    assert both(found, "newest") == (3, {"units": 7}, [], [True, False])
    step, passed = both(found, "older")
    assert step == 2 and len(passed) == 1
    assert "step-00000003/optimizer/shard-00002" in passed[0] and "damaged" in passed[0]


@pytest.mark.slow
def test_a_rank_that_cannot_write_is_known_to_all_and_leaves_nothing(found: list[dict[str, Any]]) -> None:
    faults = both(found, "faults")
    assert (
        faults["told"]["full"].startswith("OSError")
        and "No space left on device (rank 1 of 2)" in faults["told"]["full"]
    )
    assert "Input/output error (rank 1 of 2)" in faults["told"]["hash"]
    assert "Input/output error (rank 0 of 2)" in faults["told"]["last"]
    assert faults["left"] == []


@pytest.mark.slow
def test_training_goes_on_while_a_checkpoint_is_written(found: list[dict[str, Any]]) -> None:
    for rank, of_rank in enumerate(found):
        background = of_rank["background"]
        assert background["under way"] and "not written after 0.01 seconds" in background["late"]
        assert background["differing"] == []  # the tensors were changed meanwhile
        assert background["after"] == ([True] if rank == 0 else [])
        assert "No space left on device (rank 1 of 2)" in background["fault"]
        assert background["third"] == "step-00000003" and background["idle"]


@pytest.mark.slow
def test_what_a_failed_save_leaves_standing(found: list[dict[str, Any]], place: Path) -> None:
    assert sorted(p.name for p in (place / "background").iterdir()) == ["step-00000001", "step-00000003"]


@pytest.fixture(scope="module")
def of_two(found: list[dict[str, Any]], place: Path) -> Path:
    return place


@pytest.fixture(params=["alone", pytest.param("of_two", marks=pytest.mark.slow)])
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A sharded checkpoint of this test's own, after a plain one."""
    source = request.getfixturevalue(request.param)
    for step in (2, 3):
        shutil.copytree(folder_of(source, step), folder_of(tmp_path, step))
    return folder_of(tmp_path, 3)


def test_one_process_reads_what_ranks_wrote(copied: Path) -> None:
    _, expected = sharded.trained(sharded.toy())
    checkpoint = load_checkpoint(copied, "this run")
    assert (checkpoint.step, checkpoint.state) == (3, {"units": 7})
    read = {name: dict(getattr(checkpoint, name)) for name in DIVIDED}
    assert sharded.differing(read, expected) == []
    assert torch.equal(checkpoint.streams["torch"], sharded.STREAMS["torch"])
    into = sharded.blank(expected)
    sharded.load_sharded(copied, into)
    assert sharded.differing(into, expected) == []


def test_each_file_counts(copied: Path) -> None:
    """Lost, cut, or with another bit anywhere: named, and the checkpoint before is used."""
    for file in [path for path in copied.rglob("*") if path.is_file()]:
        content = file.read_bytes()
        places = range(0, len(content), 1 + len(content) // 20)
        flipped = [content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :] for at in places]
        for spoiled in (None, b"", content[:-1], content + b"\0", *flipped):
            file.unlink(missing_ok=True)
            if spoiled is not None:
                file.write_bytes(spoiled)
            used, damaged = newest(copied.parent)
            assert used is not None and used.step == 2 and len(damaged) == 1
            assert str(file.relative_to(copied)) in damaged[0] or file.name == MANIFEST
        file.write_bytes(content)
    used, damaged = newest(copied.parent)
    assert used is not None and used.step == 3 and not damaged


def test_a_file_too_many_or_elsewhere_counts(copied: Path) -> None:
    more = copied / "weights" / "shard-00009-model-00001-of-00001.safetensors"
    more.write_bytes((copied / "weights" / "shard-00001-model-00001-of-00001.safetensors").read_bytes())
    with pytest.raises(CheckpointError, match="does not list weights/shard-00009"):
        load_checkpoint(copied)
    more.unlink()
    stated = json.loads((copied / MANIFEST).read_text())
    stated["files"]["weights/../../step-00000002/state.json"] = stated["files"]["state.json"]
    (copied / MANIFEST).write_text(json.dumps(stated))
    with pytest.raises(CheckpointError, match="missing"):
        load_checkpoint(copied)


@pytest.mark.slow
@pytest.mark.parametrize("copied", ["of_two"], indirect=True)
def test_a_part_that_no_manifest_names_is_missed(copied: Path) -> None:
    """A checkpoint whose file is gone and whose manifest was written again without it."""
    stated = json.loads((copied / MANIFEST).read_text())
    for name in [name for name in stated["files"] if name.startswith("weights/shard-00001")]:
        del stated["files"][name]
        (copied / name).unlink()
    (copied / MANIFEST).write_text(json.dumps(stated))
    with pytest.raises(CheckpointError, match=r"weights.*: holds .* of the .* numbers of"):
        load_checkpoint(copied)


def test_one_process_writes_the_plain_form(tmp_path: Path) -> None:
    """What nobody divides is written as one process writes it, file for file."""
    _, groups = sharded.trained(sharded.toy())
    save_checkpoint(tmp_path / "a", Checkpoint(1, streams=sharded.STREAMS, state={"units": 1}, run="r", **groups))
    sharded.save_sharded(tmp_path / "b", 1, {**groups, "adapters": {}}, sharded.STREAMS, {"units": 1}, "r")
    one, other = ({p.name: p.read_bytes() for p in folder_of(tmp_path / n, 1).iterdir()} for n in "ab")
    assert one == other


def test_one_process_saves_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, groups = sharded.trained(sharded.toy())
    expected, go, saver = sharded.whole(groups), threading.Event(), Saver(tmp_path)
    write = sharded.sharded_checkpoint.write_sharded
    monkeypatch.setattr(sharded.sharded_checkpoint, "write_sharded", lambda *given: go.wait(PATIENCE) and write(*given))
    saver.begin_save(1, groups, sharded.STREAMS, {})
    assert not saver.finished() and newest(tmp_path) == (None, [])
    for tensor in groups["weights"].values():
        tensor.zero_()
    go.set()
    assert saver.wait() == folder_of(tmp_path, 1) and saver.finished()
    assert (
        sharded.differing(
            {"weights": dict(load_checkpoint(folder_of(tmp_path, 1)).weights)}, {"weights": expected["weights"]}
        )
        == []
    )


@pytest.mark.slow
def test_four_ranks_read_what_two_wrote(found: list[dict[str, Any]], place: Path, tmp_path: Path) -> None:
    """FSDP2 over four, and FSDP2 with tensor parallelism on two by two; each reads what the other wrote."""
    results = on_ranks(sharded.by_four, tmp_path, tmp_path, folder_of(place, 3), size=4)
    assert results == [{"differing": [[], []], "crossed": [[], []], "ways": []}] * 4
    _, expected = sharded.trained(sharded.toy())
    for step in (1, 2):
        read = load_checkpoint(folder_of(tmp_path, step))
        assert sharded.differing({name: dict(getattr(read, name)) for name in DIVIDED}, expected) == []


@pytest.mark.slow
def test_a_rank_that_is_killed_while_saving_leaves_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(mp.ProcessExitedException):
        on_ranks(sharded.killed, tmp_path, tmp_path)
    used, damaged = newest(tmp_path)
    assert used is not None and used.step == 1 and not damaged
    remove_partial(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*step*")) == ["step-00000001"]
    if (tmp_path / "told").exists():  # the launcher ends rank 0, which may come before
        assert "another rank has ended" in (tmp_path / "told").read_text()
