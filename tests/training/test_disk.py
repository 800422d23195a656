"""A disk that is full, read-only or gone while a run saves: the run says so, keeps the last whole checkpoint, leaves
nothing partial, and goes on; at its end it must have saved."""

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.test_loop import run, same
from tests.training.toy import ToyTask
from transformula.errors import RunError
from transformula.runs import checkpoint as checkpoints
from transformula.runs.folder import RunFolder
from transformula.runs.log import read_log

GIVEN: dict[str, Any] = {"steps": 16, "checkpoint_every": 4, "evaluate_every": 6, "log_every": 1}


class Between(ToyTask):
    """Does something before some of its steps: {step: what}."""

    def __init__(self, **at: Callable[[], Any]) -> None:
        super().__init__()
        self.at = {int(name.removeprefix("step")): what for name, what in at.items()}

    def batch(self, step: int, micro: int = 0) -> Any:
        if step in self.at:
            self.at.pop(step)()
        return super().batch(step, micro)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("whole") / "run", **GIVEN).folder


def check_whole_again(whole: Path, folder: Path) -> None:
    """Nothing is lost, nothing partial is left."""
    assert same(whole / "last", folder / "last")
    assert not [path.name for path in folder.rglob(".*") if path.name not in (".lock", ".transformula.json")]
    ours, theirs = ([e["step"] for e in read_log(one / "log.jsonl") if e["event"] == "step"] for one in (whole, folder))
    assert ours == theirs
    found, damaged = RunFolder.open(folder).newest_checkpoint()
    assert found is not None and found.step == 16 and not damaged


class Failing:
    """Tensors' files of which a part is written before the disk fails, while it is `on`."""

    def __init__(self, number: int, patched: pytest.MonkeyPatch) -> None:
        self.on, self.number, self.write = False, number, checkpoints.save_tensors
        patched.setattr(checkpoints, "save_tensors", self)

    def __call__(self, path: Path, *given: Any, **named: Any) -> None:
        self.write(path, *given, **named)
        if self.on and path.name.startswith("optimizer"):
            os.truncate(path, 100)
            raise OSError(self.number, os.strerror(self.number), str(path))

    def fail(self) -> None:
        self.on = True

    def heal(self) -> None:
        self.on = False


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.ESTALE])
def test_the_run_goes_on_and_saves_later(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    disk, seen = Failing(number, monkeypatch), []
    look = lambda: seen.append(sorted(p.name for p in (tmp_path / "run/checkpoints").iterdir()))  # noqa: E731
    result = run(tmp_path / "run", task=Between(step6=disk.fail, step10=look, step11=disk.heal), **GIVEN)
    said = capsys.readouterr().err
    assert f"step 8: the checkpoint could not be written: {tmp_path / 'run'}: {os.strerror(number).lower()}" in said
    assert "the last checkpoint is step-00000004. Training goes on" in said
    assert "step 12: the checkpoint could be written again" in said
    assert seen == [["step-00000000", "step-00000004"]] and result.exit_status == 0
    check_whole_again(whole, tmp_path / "run")


def test_at_its_end_a_run_must_have_saved(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = Failing(errno.ENOSPC, monkeypatch)
    with pytest.raises(
        RunError, match="step 16: .*no space left on device.*\nsaved: .*step-00000008; to resume"
    ) as told:
        run(tmp_path / "run", task=Between(step9=disk.fail), **GIVEN)
    assert told.value.exit_status == 1
    disk.heal()
    run(tmp_path / "run", resume=True, **GIVEN)
    check_whole_again(whole, tmp_path / "run")


def test_the_other_policy_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Failing(errno.EROFS, monkeypatch)
    with pytest.raises(RunError, match="step 8: .*read-only file system.*\nsaved: .*step-00000004"):
        run(tmp_path / "run", task=Between(step6=disk.fail), **GIVEN, on_save_error="stop")
    disk.heal()
    assert run(tmp_path / "run", resume=True, on_save_error="continue", **GIVEN).steps == 16


def test_what_a_failure_could_not_remove_is_removed_later(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only disk keeps what is half written; once it can be written again, that goes."""
    disk, remove, seen = Failing(errno.EROFS, monkeypatch), shutil.rmtree, []

    def removing(*given: Any, **named: Any) -> None:
        if not disk.on:
            remove(*given, **named)

    def heal() -> None:
        seen.extend((tmp_path / "run/checkpoints").glob(".partial-*"))
        disk.heal()

    monkeypatch.setattr(shutil, "rmtree", removing)
    run(tmp_path / "run", task=Between(step6=disk.fail, step10=heal), **GIVEN)
    assert len(seen) == 1 and not seen[0].exists()
    check_whole_again(whole, tmp_path / "run")


@pytest.fixture
def limit() -> Iterator[Callable[[int | None], None]]:
    """Sets how large a file may become: the system then writes a part and fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def put(size: int | None) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, before if size is None else (size, before[1]))

    yield put
    put(None)


def test_files_that_the_system_cuts_off(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: Callable[[int | None], None]
) -> None:
    """The log, checkpoints and models alike: each is written by its own code."""
    task = Between(step5=lambda: limit(600), step13=lambda: limit(None))
    run(tmp_path / "run", task=task, **GIVEN)
    said = capsys.readouterr().err
    for what in ("the log", "the checkpoint", "the best model"):
        assert f"{what} could not be written: " in said
    assert said.count("the log could not be written") == 1 and "step 16: the checkpoint could be written again" in said
    check_whole_again(whole, tmp_path / "run")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)], capture_output=True)
    if made.returncode:
        pytest.skip("only root can make a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], capture_output=True)


def test_a_file_system_that_is_full_for_a_while(whole: Path, small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fill() -> None:
        with open(small / "filler", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 512)
            except OSError as error:
                assert error.errno == errno.ENOSPC

    run(small / "run", task=Between(step5=fill, step14=(small / "filler").unlink), **GIVEN)
    said = capsys.readouterr().err
    assert "step 8: the checkpoint could not be written" in said and "o space left" in said
    check_whole_again(whole, small / "run")


def test_a_file_system_that_goes_away_for_good(small: Path, tmp_path: Path) -> None:
    away = lambda: subprocess.run(["umount", "-l", str(small)], check=True)  # noqa: E731
    with pytest.raises(RunError, match="removed or moved, or its disk is gone,.*\nnothing was saved in"):
        run(small / "run", task=Between(step5=away), **GIVEN)
    assert list(small.iterdir()) == []
