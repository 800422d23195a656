"""A scheduler that ends a run (SIGTERM, SIGUSR1) gets a saved run and a status of its own; Ctrl-C stays what it was."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.forked import start_verb
from tests.pace import PATIENCE, wait_until
from tests.training.test_loop import run, same
from tests.training.toy import ToyTask
from transformula.errors import Interrupted, Preempted
from transformula.runs.folder import RunFolder
from transformula.training import saving

TERM, USR1, INT = signal.SIGTERM, signal.SIGUSR1, signal.SIGINT
GIVEN = {"steps": 12, "evaluate_every": 5, "checkpoint_every": 100}


class Signaled(ToyTask):
    """Its run gets these signals in a step."""

    def __init__(self, *numbers: int, step: int = 6) -> None:
        super().__init__()
        self.numbers, self.at = numbers, step

    def batch(self, step: int, micro: int = 0) -> Any:
        if step == self.at:
            for number in self.numbers:
                os.kill(os.getpid(), number)
        return super().batch(step, micro)


@pytest.mark.parametrize(
    "numbers,status,preempted",
    [((TERM,), 75, True), ((USR1,), 75, True), ((USR1, TERM, TERM), 75, True), ((INT,), 130, False),
     ((INT, TERM), 130, False)],
)  # fmt: skip
def test_the_step_is_finished_and_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], numbers: tuple[int, ...], status: int, preempted: bool
) -> None:
    run(tmp_path / "whole", **GIVEN)
    cut = run(tmp_path / "cut", task=Signaled(*numbers), **GIVEN)
    assert (cut.steps, cut.interrupted, cut.preempted, cut.exit_status) == (7, True, preempted, status)
    said = capsys.readouterr().err
    assert f"{signal.Signals(numbers[0]).name}: finishing this step and saving" in said
    assert "saved at step 7; go on with: transformula train --resume" in said
    found, damaged = RunFolder.open(tmp_path / "cut").newest_checkpoint()
    assert found is not None and found.step == 7 and not damaged
    assert run(tmp_path / "cut", resume=True, **GIVEN).exit_status == 0
    assert same(tmp_path / "whole/last", tmp_path / "cut/last") and same(tmp_path / "whole/best", tmp_path / "cut/best")


@pytest.mark.parametrize("first", [INT, TERM])
def test_ctrl_c_after_that_stops_at_once(tmp_path: Path, first: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", task=Signaled(first, INT), **GIVEN)
    assert RunFolder.open(tmp_path / "cut").newest_checkpoint()[0].step < 6  # type: ignore[union-attr]


def test_a_signal_while_it_saves_does_not_stop_the_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGUSR1 comes a while before SIGTERM: the second one finds the run saving, or writing its page."""
    save = saving.save_checkpoint

    def signaled(*given: Any) -> Path:
        os.kill(os.getpid(), TERM)
        return save(*given)

    monkeypatch.setattr(saving, "save_checkpoint", signaled)
    cut = run(tmp_path / "cut", task=Signaled(USR1), steps=12, evaluate_every=50)
    assert cut.exit_status == 75 and (tmp_path / "cut/summary.md").is_file()


def test_handlers_are_put_back(tmp_path: Path) -> None:
    numbers = (INT, TERM, USR1)
    before = [signal.getsignal(number) for number in numbers]
    run(tmp_path / "a", steps=2)
    assert [signal.getsignal(number) for number in numbers] == before


def test_whoever_trains_several_runs_learns_of_it(tmp_path: Path) -> None:
    run(tmp_path / "a", steps=2).check_ended("no")
    with pytest.raises(Preempted) as told:
        run(tmp_path / "b", task=Signaled(TERM), **GIVEN).check_ended("on its way")
    assert told.value.exit_status == 75 and isinstance(told.value, Interrupted)


@pytest.mark.parametrize("number", [TERM, pytest.param(USR1, marks=pytest.mark.slow)])
def test_the_command_ends_with_75(tmp_path: Path, number: int) -> None:
    (tmp_path / "text.txt").write_text("to be or not to be\n" * 400)
    typed = ["train", "x = x + mlp(norm(x))", "--data", "text.txt", "--depth", "1", "--width", "16", "--context", "16"]
    typed += ["--steps", "1000000", "--threads", "1", "--precision", "float32", "--out", "run"]
    process = start_verb(typed, tmp_path, {**os.environ, "TRANSFORMULA_CACHE": str(tmp_path / "cache")}, tmp_path / "o")
    log = tmp_path / "run/log.jsonl"
    wait_until(lambda: log.is_file() and log.stat().st_size)
    os.kill(process.pid, number)
    process.join(PATIENCE)
    said = (tmp_path / "o").read_text()
    assert process.exitcode == 75, said
    assert "saved at step" in said and "transformula train --resume run" in said
    assert RunFolder.open(tmp_path / "run").newest_checkpoint()[0] is not None
