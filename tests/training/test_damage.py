"""A checkpoint that lost a file or a byte: a resume names it, removes it and goes on from the one before; it ends as a
run that was never stopped."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.training.test_loop import run, same
from tests.training.test_preempted import Signaled
from transformula.runs import checkpoint as checkpoints
from transformula.runs.folder import RunFolder
from transformula.runs.log import read_log

GIVEN: dict[str, Any] = {"steps": 12, "checkpoint_every": 4, "evaluate_every": 4, "average": 0.9}
FILES = [f"{name}.safetensors" for name in (*checkpoints.TENSORS, "average")]
FILES += [checkpoints.STATE, checkpoints.MANIFEST]


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("whole") / "run", **GIVEN).folder


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has checkpoints of the steps 4 (the best), 8 and 10."""
    return run(tmp_path_factory.mktemp("cut") / "run", task=Signaled(15, step=9), **GIVEN).folder


@pytest.mark.parametrize("way", [truncate, flip, Path.unlink])
@pytest.mark.parametrize("name", FILES)
def test_the_one_before_is_used(
    whole: Path, stopped: Path, tmp_path: Path, name: str, way: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(stopped, tmp_path / "run"))
    broken = folder / "checkpoints/step-00000010"
    assert (folder / "checkpoints/step-00000008").is_dir() and set(FILES) == {p.name for p in broken.iterdir()}
    way(broken / name)
    result = run(folder, resume=True, **GIVEN)
    said = capsys.readouterr().err
    damaged = name if (name, way) != (checkpoints.MANIFEST, flip) else ""  # a wrong hash there: names what it is of
    assert f"passed over: {broken}" in said and damaged in said
    assert "going on from step 8; removed what is broken: step-00000010" in said
    assert not broken.exists() and result.exit_status == 0
    assert same(whole / "last", folder / "last") and same(whole / "best", folder / "best")
    (resumed,) = [event for event in read_log(folder / "log.jsonl") if event["event"] == "resumed"]
    assert resumed["step"] == 8 and damaged in resumed["passed_over"][0]


def test_a_damaged_best_model_is_given_up(stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(shutil.copytree(stopped, tmp_path / "run"))
    flip(folder / "best/weights.safetensors")
    result = run(folder, resume=True, **GIVEN)
    assert "best/weights.safetensors: damaged" in capsys.readouterr().err
    assert result.best_step == 12 and same(folder / "best", folder / "last")


def test_the_mean_of_checkpoints_passes_a_damaged_one_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Damaged while the run goes on, so that no resume looks at it."""
    given = {"steps": 12, "checkpoint_every": 2, "average_checkpoints": 3}

    class Damaging(Signaled):
        def batch(self, step: int, micro: int = 0) -> Any:
            if step == 11:
                flip(tmp_path / "run/checkpoints/step-00000008/weights.safetensors")
            return super().batch(step, micro)

    run(tmp_path / "run", task=Damaging(step=-1), **given)
    assert "passed over in the mean of the last checkpoints" in capsys.readouterr().err
    (mean,) = [e for e in read_log(tmp_path / "run/log.jsonl") if e["event"] == "mean of checkpoints"]
    assert mean["checkpoints"] == 2
    assert RunFolder.open(tmp_path / "run").newest_checkpoint()[0] is not None
