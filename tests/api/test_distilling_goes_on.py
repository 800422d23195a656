"""`distill` that is stopped at any moment and begun again comes to the same file."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.api.test_distilling import work as work  # noqa: F401 - a fixture
from tests.forked import context
from transformula.api import distilling
from transformula.api.distilling import distill
from transformula.api.kept_answers import KeptAnswers
from transformula.atomic_io import write_whole
from transformula.cli import main
from transformula.errors import InputError

GIVEN: dict[str, dict[str, Any]] = {
    "pairs": {"rows": 10, "beam": 1, "min_length": 2},
    "lm": {"rows": 10, "prompt_tokens": 6, "max_tokens": 5, "seed": 3},
}
FEW = 3  # sources at a time


class Moments:
    """The moments of a call: before, within and behind each write. At one of them the process kills itself."""

    def __init__(self, last: int) -> None:
        self.left = last

    def pass_one(self) -> None:
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

    def keep(self, kept: KeptAnswers, row: Any) -> None:
        written = json.dumps(row).encode() + b"\n"
        assert kept._file is not None
        for part in (written[: len(written) // 2], written[len(written) // 2 :]):
            self.pass_one()
            kept._file.write(part)
            kept._file.flush()

    def write_whole(self, path: Path, content: bytes) -> None:
        self.pass_one()
        write_whole(path, content)
        self.pass_one()


def write(run: Path, out: Path, given: dict[str, Any], last: int) -> None:
    """In a process of its own: a call that ends at a moment, or comes to its end."""
    moments = Moments(last)
    distilling.OPENED = distilling.AT_ONCE = FEW
    distilling.write_whole = moments.write_whole  # type: ignore[assignment]
    KeptAnswers._write = lambda kept, row: moments.keep(kept, row)  # type: ignore[method-assign]
    distill(run, out=out, threads=1, **given)


def ended(run: Path, out: Path, given: dict[str, Any], last: int) -> bool:
    """Whether a call came to its end."""
    process = context().Process(target=write, args=(run, out, given, last))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return bool(process.exitcode == 0)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENED", "AT_ONCE"):
        monkeypatch.setattr(distilling, name, FEW)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("kind", ["lm", pytest.param("pairs", marks=pytest.mark.slow)])
def test_killed_again_and_again_it_comes_to_the_same_file(kind: str, work: Path, tmp_path: Path, few: None) -> None:
    distill(work / kind, out=tmp_path / "whole" / "new.jsonl", threads=1, **GIVEN[kind])
    whole, folder, kills = contents(tmp_path / "whole"), tmp_path / "killed", 0
    while not ended(work / kind, folder / "new.jsonl", GIVEN[kind], kills):
        kills += 1
        now = contents(folder)
        assert {name: now[name] for name in now if not name.startswith(".")}.items() <= whole.items()
    assert contents(folder) == whole and kills > 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", GIVEN)
def test_killed_once_at_any_moment(kind: str, work: Path, tmp_path: Path, few: None) -> None:
    distill(work / kind, out=tmp_path / "whole" / "new.jsonl", threads=1, **GIVEN[kind])
    whole, folder, kills = contents(tmp_path / "whole"), tmp_path / "killed", 0
    while not ended(work / kind, folder / "new.jsonl", GIVEN[kind], kills):
        assert ended(work / kind, folder / "new.jsonl", GIVEN[kind], 1000)
        assert contents(folder) == whole
        shutil.rmtree(folder)
        kills += 1
    assert kills > 12


def stop(work: Path, folder: Path, rows: int, **given: Any) -> None:
    """A call that is interrupted once so many rows are kept."""

    def told(done: int, _: int) -> None:
        if done >= rows:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(work / "pairs", out=folder / "new.jsonl", progress=told, **{**GIVEN["pairs"], **given})


def test_what_is_written_is_not_written_again(work: Path, tmp_path: Path, few: None) -> None:
    stop(work, tmp_path, 6)
    assert [path.name for path in tmp_path.iterdir()] == [".new.jsonl.answers"]
    told: list[tuple[int, int]] = []
    with pytest.warns(UserWarning, match="6 of 10 rows were written before: going on from there"):
        distill(work / "pairs", out=tmp_path / "new.jsonl", progress=lambda *now: told.append(now), **GIVEN["pairs"])
    assert told == [(9, 10), (10, 10)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.jsonl", "new.jsonl.provenance.json"]


@pytest.mark.parametrize(
    ("run", "change", "said"),
    [("pairs", {"beam": 2}, "beam"), ("pairs", {"rows": 9}, "sources"), ("lm", GIVEN["lm"], "teacher, sources, ")],
)
def test_another_command_does_not_go_on(
    run: str, change: dict[str, Any], said: str, work: Path, tmp_path: Path, few: None
) -> None:
    stop(work, tmp_path, 3)
    before = contents(tmp_path)
    with pytest.raises(InputError, match=f"another command was stopped while .* this file, which differs in {said}"):
        distill(work / run, out=tmp_path / "new.jsonl", **({**GIVEN["pairs"], **change} if run == "pairs" else change))
    assert contents(tmp_path) == before


def test_what_another_verb_keeps_is_no_beginning(work: Path, tmp_path: Path) -> None:
    answers = KeptAnswers(tmp_path / "new.jsonl", "question")
    answers.add(1, ["line"])
    answers.leave()
    with pytest.raises(InputError, match="another command was stopped while it wrote this file: name another"):
        distill(work / "pairs", out=tmp_path / "new.jsonl", **GIVEN["pairs"])


def test_a_file_that_came_meanwhile_is_not_replaced(work: Path, tmp_path: Path, few: None) -> None:
    stop(work, tmp_path, 9)
    (tmp_path / "new.jsonl").write_text("mine")
    with pytest.raises(InputError, match="the file is there"):
        distill(work / "pairs", out=tmp_path / "new.jsonl", **GIVEN["pairs"])
    (tmp_path / "new.jsonl").unlink()

    def told(done: int, count: int) -> None:
        if done == count:
            (tmp_path / "new.jsonl").write_text("mine")

    for _ in range(2):
        with pytest.warns(UserWarning), pytest.raises(InputError, match="the file is there"):
            distill(work / "pairs", out=tmp_path / "new.jsonl", progress=told, **GIVEN["pairs"])
        assert (tmp_path / "new.jsonl").read_text() == "mine"


def test_two_calls_do_not_write_the_same_file(work: Path, tmp_path: Path, few: None) -> None:
    said = []

    def told(done: int, _: int) -> None:
        if done == 6:
            with pytest.raises(InputError, match="another process writes it") as error:
                distill(work / "pairs", out=tmp_path / "new.jsonl", **GIVEN["pairs"])
            said.append(error)

    distill(work / "pairs", out=tmp_path / "new.jsonl", progress=told, **GIVEN["pairs"])
    assert said and sorted(contents(tmp_path)) == ["new.jsonl", "new.jsonl.provenance.json"]


def test_the_verb_says_where_it_goes_on(
    work: Path, tmp_path: Path, few: None, capsys: pytest.CaptureFixture[str]
) -> None:
    stop(work, tmp_path, 6, beam=5)
    typed = ["distill", str(work / "pairs"), "--out", str(tmp_path / "new.jsonl"), "--rows", "10", "--min-length", "2"]
    assert main([*typed, "--beam", "5"]) == 0
    assert "note: 6 of 10 rows were written before: going on from there" in capsys.readouterr().err
