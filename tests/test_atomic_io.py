"""What is written is there whole or not at all, as the umask says, and never through a link that leads away."""

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import pytest
import torch

from transformula import atomic_io
from transformula.atomic_io import check_inside, flocked, remove_abandoned, remove_partial, whole_folder, write_whole
from transformula.data.cache import cached_entry
from transformula.errors import CheckpointError
from transformula.interop.folder import save_model
from transformula.runs.checkpoint import Checkpoint, save_checkpoint
from transformula.tokenizers.base import tokenizers


@pytest.fixture(params=[0o022, 0o027, 0o077, 0o002], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class Small(torch.nn.Linear):
    text = "layer: x = x + mlp(x)\n"


def test_all_that_is_written_follows_the_umask(tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))
    model, tokenizer = Small(2, 2), tokenizers.get("bytes").train([])
    for _ in range(2):  # the second time the weights alone are exchanged
        save_model(tmp_path / "model", model, tokenizer.save)
    some = {"a": torch.ones(2)}
    save_checkpoint(tmp_path / "checkpoints", Checkpoint(1, some, some, some, {}))
    write_whole(tmp_path / "a", b"")

    def entry(folder: Path) -> dict[str, str]:
        (folder / "b").write_text("")
        return {}

    cached_entry("tokens", "key", entry)
    found = list(tmp_path.rglob("*"))
    assert len(found) == 18
    for path in found:
        assert rights(path) == (0o777 if path.is_dir() else 0o666) & ~umask, path


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(tmp_path / "a", b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError):
        write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_process_left_of_a_file_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / ".a.part").write_bytes(b"half of what would have been")
    write_whole(tmp_path / "a", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"new"}


@pytest.mark.parametrize("kind", ["held", "link", "hard link", "folder"])
def test_what_is_not_left_over_is_not_written_to(tmp_path: Path, kind: str) -> None:
    """Another process writes the same file, or the name is another's: it stays as it is."""
    other, place = tmp_path / "other", tmp_path / ".a.part"
    other.write_bytes(b"owner's")
    with ExitStack() as stack:
        if kind == "held":
            held = stack.enter_context(place.open("wb"))
            assert flocked(held.fileno())
        elif kind == "folder":
            place.mkdir()
        else:
            place.symlink_to(other) if kind == "link" else place.hardlink_to(other)
        write_whole(tmp_path / "a", b"new")
        assert (tmp_path / "a").read_bytes() == b"new" and other.read_bytes() == b"owner's"
        assert {path.name for path in tmp_path.iterdir()} == {"a", "other", ".a.part"}


def test_many_write_the_same_file_at_once(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(50):
            write_whole(tmp_path / "a", bytes([number]) * 10_000)
            assert len(set((tmp_path / "a").read_bytes())) == 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    content = (tmp_path / "a").read_bytes()
    assert len(content) == 10_000 and len(set(content)) == 1 and len(list(tmp_path.iterdir())) == 1


def test_a_link_is_replaced_by_a_file_and_refused_for_a_folder(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "a").write_bytes(b"owner's")
    (inside / "a").symlink_to(outside / "a")
    write_whole(inside / "a", b"new")
    assert (outside / "a").read_bytes() == b"owner's" and (inside / "a").read_bytes() == b"new"
    for target in (outside, tmp_path / "nowhere"):
        (inside / "best").unlink(missing_ok=True)
        (inside / "best").symlink_to(target)
        with pytest.raises(CheckpointError, match="best: is a link to .*" + target.name), whole_folder(inside / "best"):
            pytest.fail("the block was entered")
    assert [p.name for p in outside.iterdir()] == ["a"]


def test_saving_a_model_writes_through_no_link(tmp_path: Path) -> None:
    save_model(tmp_path / "owner", Small(2, 2))
    before = (tmp_path / "owner/weights.safetensors").read_bytes()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/best").symlink_to(tmp_path / "owner")
    with pytest.raises(CheckpointError, match="run/best: is a link to .*owner"):
        save_model(tmp_path / "run/best", Small(2, 2))
    assert (tmp_path / "owner/weights.safetensors").read_bytes() == before


def test_what_a_killed_process_left_is_not_removed_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside/replaced").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.partial-best-1").symlink_to(tmp_path / "outside")
    remove_partial(tmp_path / "run")
    assert (tmp_path / "outside/replaced").is_dir()


def test_only_links_that_leave_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "real/kept/deep").mkdir(parents=True)
    (tmp_path / "other/x").mkdir(parents=True)
    run = tmp_path / "run"
    run.symlink_to(tmp_path / "real")  # named by the user: no matter
    (run / "inside").symlink_to("kept")
    (run / "out").symlink_to("../other")
    (run / "loop").symlink_to("loop")
    for place in (run, run / "kept/deep", run / "inside/deep", run / "not there"):
        check_inside(place, run)
    for place in (run / "out", run / "out/x"):
        with pytest.raises(CheckpointError, match="run/out: is a link to .*other"):
            check_inside(place, run)


def left_over(parent: Path, number: int, *names: str) -> Path:
    """What a killed process leaves of a folder `out`."""
    place = parent / f".partial-out-{number:08d}"
    (place / "new").mkdir(parents=True)
    for name in (".held", *names):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("theirs")
    return place


def test_what_a_killed_process_left_goes_with_the_next_that_writes(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    killed, within = left_over(tmp_path, 1, "new/half"), left_over(tmp_path / "out", 2)
    alive, foreign = left_over(tmp_path, 3), left_over(tmp_path, 4, "thesis.txt")
    other = left_over(tmp_path, 5).rename(tmp_path / ".partial-other-00000005")
    (tmp_path / ".partial-out-00000006").symlink_to(other)
    with open(alive / ".held") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with whole_folder(tmp_path / "out") as folder:
            (folder / "a").write_text("ours")
    there = {"out", ".partial-other-00000005", *(f".partial-out-0000000{number}" for number in (3, 4, 6))}
    assert {path.name for path in tmp_path.iterdir()} == there and not killed.exists() and not within.exists()
    assert (foreign / "thesis.txt").read_text() == "theirs" and [p.name for p in (tmp_path / "out").iterdir()] == ["a"]


def test_what_a_killed_process_had_set_aside_is_put_back(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    place = left_over(tmp_path, 1, "replaced/a")
    remove_abandoned(tmp_path / "out")
    assert (tmp_path / "out" / "a").read_text() == "theirs" and not place.exists()
    place = left_over(tmp_path / "out", 2, "replaced/a")
    remove_abandoned(tmp_path / "out")
    assert not place.exists() and (tmp_path / "out" / "a").read_text() == "theirs"


def test_a_temporary_file_that_cannot_be_looked_at_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def refused(file: BinaryIO, path: Path) -> bool:
        opened.append(file)
        raise OSError("the disk went away")

    monkeypatch.setattr(atomic_io, "_is_ours", refused)
    write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new" and opened[0].closed
