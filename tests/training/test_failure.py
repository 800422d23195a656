"""A run that fails loses nothing: what it had is saved, and the error says what failed and how to resume."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.test_loop import run, same
from tests.training.toy import ToyTask
from transformula.errors import CheckpointError, RunError
from transformula.runs import folder as folders
from transformula.runs.folder import RunFolder
from transformula.runs.log import read_log
from transformula.training import machine, report, saving


class Failing(ToyTask):
    """A task of which one part fails once it is called for the last time that is said."""

    def __init__(self, part: str, at: int = 0, error: Exception | None = None) -> None:
        super().__init__()
        self.part, self.left, self.error = part, at, error or TypeError("no such column")

    def _maybe(self, part: str) -> None:
        if part == self.part:
            self.left -= 1
            if self.left < 0:
                raise self.error

    def evaluate(self, model: nn.Module, progress: Any = None) -> dict[str, float]:
        self._maybe("evaluate")
        return super().evaluate(model, progress)

    def loss(self, model: nn.Module, batch: Any) -> Any:
        if model.training:
            self._maybe("loss")
        return super().loss(model, batch)

    def baselines(self) -> dict[str, float]:
        self._maybe("baselines")
        return super().baselines()

    def sample(self, model: nn.Module, seed: int) -> str:
        self._maybe("sample")
        return super().sample(model, seed)

    def verdict(self, scores: dict[str, float]) -> str:
        self._maybe("verdict")
        return super().verdict(scores)


GIVEN = {"steps": 12, "evaluate_every": 5, "checkpoint_every": 100}


@pytest.mark.parametrize("part,at", [("evaluate", 1), ("loss", 6)])
def test_an_error_saves_first_and_a_resume_is_exact(tmp_path: Path, part: str, at: int) -> None:
    run(tmp_path / "whole", **GIVEN)
    with pytest.raises(RunError, match="failed with TypeError: no such column\nsaved: .*transformula train --resume"):
        run(tmp_path / "run", task=Failing(part, at), **GIVEN)
    found, _ = RunFolder.open(tmp_path / "run").newest_checkpoint()
    assert found is not None and found.step == (10 if part == "evaluate" else 6)
    run(tmp_path / "run", resume=True, **GIVEN)
    assert same(tmp_path / "whole/last", tmp_path / "run/last") and same(tmp_path / "whole/best", tmp_path / "run/best")


@pytest.mark.parametrize(
    "part",
    ["sample", "picture", *(pytest.param(n, marks=pytest.mark.slow) for n in ("baselines", "verdict", "summary"))],
)
def test_an_error_at_the_close_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    task: ToyTask = Failing(part)
    with monkeypatch.context() as patched:
        if part == "picture":
            patched.setattr(report, "draw_curve", lambda *a: 1 / 0)
        elif part == "summary":
            patched.setattr(report, "write_page", lambda *a: 1 / 0)
        with pytest.raises(RunError, match=f"model is saved.*{part}: .*Error.*\nsaved: .*--resume"):
            run(tmp_path / "run", task=task, **GIVEN)
    assert (tmp_path / "run/best/weights.safetensors").is_file()
    result = run(tmp_path / "run", resume=True, **GIVEN)
    assert result.steps == 12 and result.sample and result.baselines and result.verdict
    events = [e["event"] for e in read_log(tmp_path / "run/log.jsonl")]
    assert events.count("end") == 1


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes. Error code 12"
        ),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has"),
        MemoryError("Unable to allocate 4.00 GiB for an array"),
    ],
)
def test_a_lack_of_memory_says_how_much_and_what_to_lower(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "slowdown_of_bf16", lambda device: 0.0)  # so that a first step is tried
    with pytest.raises(RunError, match=r"no memory for 4(\.0+)? GiB more.*--batch.*--accumulate.*--context.*\nsaved"):
        run(tmp_path / "run", task=Failing("loss", 6, error), **GIVEN)
    with pytest.raises(RunError, match="the first step: .*no memory for"):
        run(tmp_path / "other", task=Failing("loss", 0, error), steps=3, precision="auto")
    assert not (tmp_path / "other").exists()


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"steps": 12, "checkpoint_every": 4, "evaluate_every": 50}
    run(tmp_path / "whole", **given)
    write, calls = saving.save_checkpoint, []

    def full(*args: Any) -> Path:
        calls.append(args)
        if len(calls) > 2:
            raise OSError(28, "No space left on device", str(tmp_path / "run/checkpoints/x"))
        return write(*args)

    with monkeypatch.context() as patched:
        patched.setattr(saving, "save_checkpoint", full)
        with pytest.raises(RunError, match="step 12: .*no space left on device.*\nsaved: .*step-00000004"):
            run(tmp_path / "run", **given)
    run(tmp_path / "run", resume=True, **given)
    assert same(tmp_path / "whole/last", tmp_path / "run/last")


def test_a_folder_that_was_deleted_is_not_half_made_again(tmp_path: Path) -> None:
    class Deleting(ToyTask):
        def batch(self, step: int, micro: int) -> torch.Tensor:
            if step == 3:
                shutil.rmtree(tmp_path / "run")
            return super().batch(step, micro)

    with pytest.raises(RunError, match="removed or moved, or its disk is gone, while"):
        run(tmp_path / "run", task=Deleting(), steps=6)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path / "run", steps=2)

    def read_only(path: Any, mode: str = "r", **more: Any) -> Any:
        raise OSError(30, "Read-only file system", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(folders, "open", read_only, raising=False)
        with pytest.raises(CheckpointError, match="cannot be written .Read-only file system."):
            run(tmp_path / "run", steps=4, resume=True)


def test_two_runs_that_want_one_folder(tmp_path: Path) -> None:
    """The second is told what stands in its way, at whatever moment it comes."""
    place = tmp_path / "run"
    first = RunFolder(place)
    place.mkdir()
    first.lock()
    with pytest.raises(CheckpointError, match="another run is being written there"):
        run(place, steps=2)
    first.unlock()
    assert os.listdir(place) == [".lock"]
    run(place, steps=2)  # what a killed process left of its beginning is no run
    with pytest.raises(CheckpointError, match="holds a run already"):
        run(place, steps=2)


def test_equal_runs_keep_equal_streams(tmp_path: Path) -> None:
    import random

    import numpy as np
    from safetensors.torch import load_file

    for name, seed in (("a", 1), ("b", 2)):
        random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
        run(tmp_path / name, steps=2)
    one, two = (load_file(tmp_path / n / "checkpoints/step-00000002/streams.safetensors") for n in ("a", "b"))
    assert one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)
