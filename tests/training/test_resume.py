"""What a resume keeps, what it may change, and what it refuses."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from tests.training.test_loop import Stopping, run, same
from tests.training.toy import Scored, ToyModel, ToyTask
from transformula.errors import CheckpointError, ConfigError
from transformula.runs.folder import RunFolder
from transformula.runs.log import read_log
from transformula.training import saving, start
from transformula.training.evaluation import Evaluations


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("short") / "run", steps=2, keep=1).folder


@pytest.fixture
def begun(short: Path, tmp_path: Path) -> Path:
    """A run of two steps."""
    return Path(shutil.copytree(short, tmp_path / "run"))


@pytest.mark.parametrize(
    "changed", [{"seed": 2}, {"lr": 0.5}, {"batch": 8}, {"clip": 0.5}, {"precision": "bf16"}, {"average": 0.9}]
)
def test_only_the_length_of_a_run_may_change(begun: Path, changed: dict[str, Any]) -> None:
    (key,) = changed
    with pytest.raises(ConfigError, match=f"{key}: .*, and the run began with .*--init-from"):
        run(begun, steps=4, resume=True, **changed)
    assert RunFolder.open(begun).config()["steps"] == 2


def test_what_may_change_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path / "run", steps=2, clip=0.5)
    run(tmp_path / "run", steps=4, resume=True, evaluate_every=1, keep=5, log_every=1, threads=2)
    config = RunFolder.open(tmp_path / "run").config()
    assert (config["steps"], config["keep"], config["threads"], config["clip"]) == (4, 5, 2, 0.5)
    assert "threads: 2, and the run began with 1: from here on it is no longer bit for bit" in capsys.readouterr().err


def test_a_resume_stays_in_its_folder(tmp_path: Path) -> None:
    run(tmp_path / "a", steps=2)
    run(tmp_path / "b", steps=2)
    with pytest.raises(CheckpointError, match="a resume stays in its folder"):
        run(tmp_path / "a", steps=4, resume=True, out=str(tmp_path / "b"))
    run(tmp_path / "a", steps=4, resume=True, out=str(tmp_path / "b" / ".." / "a"))


def test_without_its_checkpoints_a_run_does_not_begin_again(tmp_path: Path) -> None:
    run(tmp_path / "run", steps=4)
    before = load_file(tmp_path / "run/best/weights.safetensors")
    shutil.rmtree(tmp_path / "run/checkpoints")
    with pytest.raises(CheckpointError, match="none is there any more, .*--init-from"):
        run(tmp_path / "run", steps=8, resume=True)
    shutil.rmtree(tmp_path / "run/last")
    with pytest.raises(CheckpointError, match="none is there any more, .*--init-from"):
        run(tmp_path / "run", steps=8, resume=True)
    assert load_file(tmp_path / "run/best/weights.safetensors").keys() == before.keys()


class Killed(BaseException):
    """Stands in for SIGKILL: nothing hears it."""


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


GIVEN: dict[str, Any] = {"steps": 9, "evaluate_every": 3, "keep": 1}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of nine steps that was not interrupted: its last model is its best."""
    return run(tmp_path_factory.mktemp("whole") / "run", **GIVEN).folder


def test_an_evaluation_after_the_last_checkpoint_is_saved(whole: Path, tmp_path: Path) -> None:
    cut = run(tmp_path / "cut", task=Stopping(evaluation=2), **GIVEN)
    assert cut.interrupted and cut.steps == 9
    run(tmp_path / "cut", resume=True, **GIVEN)
    assert checkpoints(whole) == checkpoints(tmp_path / "cut") == ["step-00000009"]
    (kept, _), (expected, _) = (RunFolder.open(folder).newest_checkpoint() for folder in (tmp_path / "cut", whole))
    assert kept is not None and expected is not None
    assert (kept.state["evaluated"], kept.state["best_step"]) == (9, 9)
    assert kept.state["best_sha256"] == expected.state["best_sha256"]


@pytest.mark.parametrize("name", ["prune", "last"])
def test_what_a_killed_process_left_old_is_made_new(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It came to write its last checkpoint, and not to do what comes after."""
    keep_model = saving.Saving.keep_model

    def prune(checkpoints: Path, *_: Any, **__: Any) -> None:
        if (checkpoints / "step-00000009").exists():
            raise Killed

    def keep(self: Any, folder: Path, model: Any = None) -> None:
        if folder.name == "last" and self.state.position.step == 9:
            raise Killed
        keep_model(self, folder, model)

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(*{"prune": (saving, "prune", prune), "last": (saving.Saving, "keep_model", keep)}[name])
        run(tmp_path / "cut", **GIVEN)
    run(tmp_path / "cut", resume=True, **GIVEN)
    assert checkpoints(whole) == checkpoints(tmp_path / "cut")
    assert all(same(whole / place, tmp_path / "cut" / place) for place in ("best", "last"))


@pytest.mark.parametrize("steps", [5, 8])
def test_a_best_model_later_than_the_checkpoint_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """The run was killed when `best/` was that of step 6 and its checkpoint that of step 4."""
    given: dict[str, Any] = {"evaluate_every": 3, "checkpoint_every": 4}
    tell = Evaluations._tell

    def kill(self: Any, *told: Any, **more: Any) -> None:
        if self.state.position.step == 6:
            raise Killed
        tell(self, *told, **more)

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(Evaluations, "_tell", kill)
        run(tmp_path / "run", task=Scored([(0, 1.0), (0, 0.5)]), steps=8, **given)
    rest = {5: [(0, 2.0)], 8: [(0, 0.5), (0, 2.0)]}[steps]
    result = run(tmp_path / "run", task=Scored(rest), steps=steps, resume=True, **given)
    assert result.best_step == {5: 5, 8: 6}[steps]
    assert same(tmp_path / "run/best", tmp_path / "run/last") == (steps == 5)


@pytest.mark.parametrize("where", ["begin", "save"])
def test_a_run_without_a_checkpoint_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """One that was killed before it, or whose disk took `best/` and no checkpoint."""
    given: dict[str, Any] = {"steps": 9, "evaluate_every": 2, "optimizer": "adamw"}
    run(tmp_path / "whole", **given)

    class Killing(ToyTask):
        def evaluate(self, model: Any, progress: Any = None) -> Any:
            if self.evaluations == 2:
                raise Killed
            return super().evaluate(model, progress)

    def kill(*_: Any, **__: Any) -> None:
        raise Killed if where == "begin" else OSError(28, "no space left on device")

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(*{"begin": (start, "begin"), "save": (saving, "save_checkpoint")}[where], kill)
        run(tmp_path / "cut", task=Killing(), **given)
    assert (tmp_path / "cut/best").exists() == (where == "save")
    run(tmp_path / "cut", resume=True)
    assert all(same(tmp_path / "whole" / place, tmp_path / "cut" / place) for place in ("best", "last"))
    first, second = (list(read_log(tmp_path / f"{name}/log.jsonl")) for name in ("whole", "cut"))
    assert [event.get("loss") for event in first] == [event.get("loss") for event in second]


def test_the_checkpoint_of_a_twin_is_none_of_this_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"evaluate_every": 3, "checkpoint_every": 3, "keep": 9}
    for name in ("one", "two"):
        run(tmp_path / name, steps=6, **given)
    kept = tmp_path / "one/checkpoints/step-00000006"
    shutil.rmtree(kept)
    shutil.copytree(tmp_path / "two/checkpoints/step-00000006", kept)
    run(tmp_path / "one", steps=9, resume=True, **given)
    said = capsys.readouterr().err
    assert "step-00000006: is a checkpoint of another run" in said
    assert [e["step"] for e in read_log(tmp_path / "one/log.jsonl") if e["event"] == "resumed"] == [3]


def test_a_checkpoint_under_another_name_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"evaluate_every": 3, "checkpoint_every": 3, "keep": 9}
    run(tmp_path / "run", steps=6, **given)
    folder = tmp_path / "run/checkpoints"
    shutil.rmtree(folder / "step-00000006")
    os.rename(folder / "step-00000003", folder / "step-00000006")
    run(tmp_path / "run", steps=6, resume=True, **given)
    assert "step-00000006: holds step 3" in capsys.readouterr().err


def test_a_checkpoint_of_an_older_version_still_resumes(tmp_path: Path) -> None:
    given = {"evaluate_every": 3, "checkpoint_every": 3}
    run(tmp_path / "whole", steps=6, **given)
    run(tmp_path / "old", steps=3, **given)
    newer = ("run", "log_lines", "sample", "whole", "best_on", "evaluating", "evaluating_last", "evaluated_units")
    for path in (tmp_path / "old/checkpoints").glob("step-*"):
        rewrite_state(path, lambda state: {key: value for key, value in state.items() if key not in newer})
    run(tmp_path / "old", steps=6, resume=True, **given)
    assert not same(tmp_path / "old/best", tmp_path / "whole/best")  # its schedule was that of three steps
    assert [e["step"] for e in read_log(tmp_path / "old/log.jsonl") if e["event"] == "evaluation"] == [3, 6]


def rewrite_state(folder: Path, change: Any) -> None:
    """Change a checkpoint's state, under a manifest that is right."""
    import hashlib

    file, manifest = folder / "state.json", folder / "manifest.json"
    state = change(json.loads(file.read_text()))
    file.write_text(state if isinstance(state, str) else json.dumps(state))
    stated = json.loads(manifest.read_text())
    content = file.read_bytes()
    stated["files"]["state.json"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest.write_text(json.dumps(stated))


@pytest.mark.parametrize(
    "hostile",
    [
        lambda state: "[" * 100_000,
        lambda state: '{"step": ' + "9" * 5000 + "}",
        lambda state: [1],
        lambda state: {**state, "step": -4},
        lambda state: {**state, "step": "4"},
        lambda state: {**state, "units": -1},
        lambda state: {**state, "seconds": float("nan")},
        lambda state: {**state, "units": 10**30},
        lambda state: {**state, "best_scores": [1]},
        lambda state: {**state, "scores": {"loss": {"a": 1}}},
        lambda state: {**state, "unheard": 1},
    ],
)
def test_a_hostile_state_is_refused(begun: Path, hostile: Any) -> None:
    for path in (begun / "checkpoints").glob("step-*"):
        rewrite_state(path, hostile)
    with pytest.raises(CheckpointError, match=r"state\.json: damaged"):
        run(begun, steps=8, resume=True)


def test_weights_that_are_not_numbers_are_named(tmp_path: Path) -> None:
    import hashlib

    result = run(tmp_path / "run", steps=2, keep=1)
    (folder,) = (tmp_path / "run/checkpoints").glob("step-00000002")
    tensors = load_file(folder / "weights.safetensors")
    tensors["layers.0.up.weight"][1, 2] = float("nan")
    save_file(tensors, folder / "weights.safetensors")
    stated, content = json.loads((folder / "manifest.json").read_text()), (folder / "weights.safetensors").read_bytes()
    stamp = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    stated["files"]["weights.safetensors"] = stamp
    (folder / "manifest.json").write_text(json.dumps(stated))
    with pytest.raises(CheckpointError, match="layers.0.up.weight"):
        run(tmp_path / "run", model=ToyModel(), steps=4, resume=True)
    assert result.steps == 2


def test_a_hostile_log_costs_nothing(tmp_path: Path) -> None:
    run(tmp_path / "run", steps=4)
    with open(tmp_path / "run/log.jsonl", "a") as file:
        file.write("[" * 50_000 + "\n" + '{"event": "step", "step": "x", "loss": [1]}\n{"event": 3, "step": -1}\n')
        file.write('{"event": "step", "step": 1e400, "loss": NaN}\n' + '{"a":' * 2000 + "\n")
    assert run(tmp_path / "run", steps=8, resume=True).steps == 8


LINKED = {".lock": "file", "log.jsonl": "nothing", "config.yaml": "copy", "best": "folder", "checkpoints": "folder"}


@pytest.mark.parametrize("name", [*LINKED, "last", "loss.svg", "summary.md", "checkpoints/step-00000002"])
def test_nothing_is_written_through_a_link_that_leads_out(begun: Path, tmp_path: Path, name: str) -> None:
    place, outside = begun / name, tmp_path / "outside"
    if place.is_dir():
        shutil.move(place, outside)
    elif LINKED.get(name) != "nothing":
        outside.write_bytes(place.read_bytes() if name == "config.yaml" else b"dear")
    place.unlink(missing_ok=True)
    place.symlink_to(outside)
    before = content(outside)
    with pytest.raises(CheckpointError, match="is a link to .*outside"):
        run(tmp_path / "run", steps=4, resume=True)
    assert content(outside) == before and place.is_symlink()


def content(path: Path) -> dict[str, bytes]:
    files = path.rglob("*") if path.is_dir() else [path]
    return {str(file): file.read_bytes() for file in files if file.is_file()}


def test_a_link_inside_the_folder_and_to_the_folder_are_no_matter(tmp_path: Path) -> None:
    run(tmp_path / "run", steps=2)
    (tmp_path / "run/newest").symlink_to("last")
    (tmp_path / "alias").symlink_to(tmp_path / "run")
    assert run(tmp_path / "alias", steps=4, resume=True).steps == 4
