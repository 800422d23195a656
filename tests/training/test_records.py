"""Records in other programs: what they hold is what the log holds, whatever happened to the run or to them."""

from __future__ import annotations

import importlib
import json
import random
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.pace import PATIENCE
from tests.training.test_loop import run
from tests.training.toy import ToyTask
from transformula.errors import MissingExtra, UnknownName
from transformula.runs import records
from transformula.runs.log import read_log
from transformula.runs.recorder import MAX_LAYERS, Recorded, Recorder, flat, recorders, scalars_of
from transformula.training.settings import TrainingSettings

Point = tuple[str, int, float]
GIVEN: dict[str, Any] = {"steps": 12, "log_every": 1, "checkpoint_every": 4, "evaluate_every": 4}


class Killed(BaseException):
    """As SIGKILL would: nothing is saved after it."""


class Dying(ToyTask):
    """A task that kills its run at a step, and draws numbers as a careless one would."""

    def __init__(self, at: int = -1) -> None:
        super().__init__()
        self.at = at

    def batch(self, step: int, micro: int) -> torch.Tensor:
        if step == self.at:
            raise Killed
        return super().batch(step, micro)


def killed(folder: Path, at: int, **given: Any) -> None:
    with pytest.raises(Killed):
        run(folder, Dying(at), **{**GIVEN, **given})


def logged(folder: Path) -> list[Point]:
    """All numbers of the log."""
    events = [(event["step"], scalars_of(event)) for event in read_log(folder / "log.jsonl")]
    return sorted((name, step, value) for step, values in events for name, value in values.items())


def untimed(points: list[Point]) -> list[Point]:
    """Without what the clock says, and without the score at the end of each sitting."""
    timed = ("seconds", "per_second", "share_of_peak", "waiting")
    return [point for point in points if not point[0].endswith(timed) and not point[0].startswith("final/")]


@recorders.register("memory")
class Memory(Recorder):
    """Keeps everything in lists, by folder."""

    points: dict[str, list[Point]] = {}
    texts: dict[str, list[tuple[int, str, str]]] = {}
    opened: dict[str, list[Recorded]] = {}
    closed: dict[str, list[str]] = {}

    def __init__(self, run: Recorded) -> None:
        super().__init__(run)
        self.key = str(run.folder)
        self.opened.setdefault(self.key, []).append(run)

    @property
    def keep(self) -> Mapping[str, Any]:
        return {"sittings": 1 + (self.run.kept or {}).get("sittings", 0)}

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self.points.setdefault(self.key, []).extend((name, step, value) for name, value in values.items())

    def text(self, step: int, name: str, text: str) -> None:
        self.texts.setdefault(self.key, []).append((step, name, text))

    def close(self, status: str) -> None:
        self.closed.setdefault(self.key, []).append(status)


@recorders.register("broken")
class Broken(Memory):
    """Raises where it is told to."""

    where_to_raise = "scalars"
    mended = False

    def __init__(self, run: Recorded) -> None:
        super().__init__(run)
        self.key += " broken"
        self.fail("open")

    def fail(self, place: str) -> None:
        if place == self.where_to_raise and not self.mended:
            raise ConnectionError("the server\nis gone")

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        if step >= 6:
            self.fail("scalars")
        super().scalars(step, values)

    def close(self, status: str) -> None:
        self.fail("close")
        super().close(status)


@recorders.register("stuck")
class Stuck(Memory):
    """Waits for what never comes, before its first point."""

    free = threading.Event()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self.free.wait(PATIENCE)


def test_a_record_holds_what_the_log_holds(tmp_path: Path) -> None:
    run(tmp_path / "run", log_to="memory", **GIVEN)
    key = str(tmp_path / "run")
    assert sorted(Memory.points[key]) == logged(tmp_path / "run")
    names = {name for name, _, _ in Memory.points[key]}
    assert {"train/loss", "train/lr", "train/gradient_norm", "train/tokens_per_second", "validation/loss"} <= names
    assert "final/loss" in names and Memory.closed[key] == ["finished"]
    assert [(step, name) for step, name, _ in Memory.texts[key]] == [(12, "sample")]
    (opened,) = Memory.opened[key]
    assert opened.kept is None and opened.config["steps"] == 12 and opened.about["task"]["name"] == "counting"
    assert opened.name == "run" and opened.identity


@pytest.mark.parametrize("at", [2, 6, 8, 11])
def test_a_killed_and_resumed_run_has_each_point_once(tmp_path: Path, at: int) -> None:
    killed(tmp_path / "run", at, log_to=["memory"])
    assert Memory.closed[str(tmp_path / "run")] == ["failed"]
    run(tmp_path / "run", resume=True, **GIVEN)
    points = Memory.points[str(tmp_path / "run")]
    assert not [point for point, times in Counter((name, step) for name, step, _ in points).items() if times > 1]
    assert sorted(untimed(points)) == untimed(logged(tmp_path / "run"))
    assert [run.kept for run in Memory.opened[str(tmp_path / "run")]] == [None, {"sittings": 1}]


def test_a_record_that_a_resume_adds_has_the_run_from_its_start(tmp_path: Path) -> None:
    run(tmp_path / "run", **GIVEN)
    run(tmp_path / "run", resume=True, **{**GIVEN, "steps": 16, "log_to": "memory"})
    assert sorted(untimed(Memory.points[str(tmp_path / "run")])) == untimed(logged(tmp_path / "run"))


def test_what_a_sitting_did_not_record_the_next_one_does(tmp_path: Path) -> None:
    run(tmp_path / "run", log_to="memory", **GIVEN)
    run(tmp_path / "run", resume=True, **{**GIVEN, "steps": 16, "log_to": []})
    run(tmp_path / "run", resume=True, **{**GIVEN, "steps": 20, "log_to": "memory"})
    points = Memory.points[str(tmp_path / "run")]
    assert sorted(untimed(points)) == untimed(logged(tmp_path / "run"))
    assert {step for name, step, _ in points if name == "train/loss"} == set(range(1, 21))


@pytest.mark.parametrize("place", ["open", "scalars", "close"])
def test_a_recorder_that_fails_is_one_warning_and_is_mended_by_a_resume(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Broken, "where_to_raise", place)
    result = run(tmp_path / "run", log_to="broken,memory", **GIVEN)
    assert result.steps == 12 and result.exit_status == 0
    said = capsys.readouterr().err
    assert said.count("broken: is not recorded any further: ConnectionError: the server is gone; the run goes on") == 1
    assert sorted(untimed(Memory.points[str(tmp_path / "run")])) == untimed(logged(tmp_path / "run"))
    monkeypatch.setattr(Broken, "mended", True)
    run(tmp_path / "run", resume=True, **{**GIVEN, "steps": 16, "log_to": "broken"})
    assert sorted(untimed(Memory.points[f"{tmp_path / 'run'} broken"])) == untimed(logged(tmp_path / "run"))


def test_a_recorder_that_hangs_holds_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(records, "PATIENCE", 0.1)
    monkeypatch.setattr(records, "MAX_WAITING_EVENTS", 5)
    assert run(tmp_path / "run", log_to="stuck", **GIVEN).steps == 12
    Stuck.free.set()
    said = capsys.readouterr().err
    assert said.count("stuck: is not recorded any further: it does not keep up: 5 events wait") == 1
    kept = json.loads((tmp_path / "run/records.json").read_text())
    assert kept["stuck"]["whole_until"] == {}


class Speechless(Exception):
    """Cannot be told."""

    def __str__(self) -> str:
        raise RuntimeError("not even this")


@recorders.register("raising")
class Raising(Memory):
    """Raises what it is told to, where it is told to."""

    place, kind = "", BaseException

    def __init__(self, run: Recorded) -> None:
        super().__init__(run)
        self.key += " raising"
        self.fail("open")

    def fail(self, place: str) -> None:
        if place == self.place:
            raise self.kind

    @property
    def keep(self) -> Mapping[str, Any]:
        self.fail("keep")
        return {}

    def hear(self, event: Mapping[str, Any]) -> None:
        self.fail(str(event.get("step")))


@pytest.mark.parametrize("kind", [Speechless, SystemExit, KeyboardInterrupt, MemoryError, RecursionError])
@pytest.mark.parametrize("place", ["open", "keep", "6"])
def test_whatever_a_recorder_raises_the_run_goes_on_and_says_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    kind: type[BaseException], place: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(Raising, "place", place)
    monkeypatch.setattr(Raising, "kind", kind)
    assert run(tmp_path / "run", log_to="raising,memory", **GIVEN).exit_status == 0
    said = capsys.readouterr().err
    assert said.count(f"raising: is not recorded any further: {kind.__name__}") == 1 and "Traceback" not in said
    assert sorted(untimed(Memory.points[str(tmp_path / "run")])) == untimed(logged(tmp_path / "run"))


@recorders.register("waiting")
class Waiting(Memory):
    """Waits where it is told to."""

    place, free = "", threading.Event()

    def __init__(self, run: Recorded) -> None:
        super().__init__(run)
        self.key += " waiting"
        self.wait("open")

    def wait(self, place: str) -> None:
        if place == self.place:
            self.free.wait(PATIENCE)

    def close(self, status: str) -> None:
        self.wait("close")


@pytest.mark.parametrize("place", ["open", "close"])
def test_a_recorder_that_hangs_at_its_begin_or_its_end_holds_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    monkeypatch.setattr(Waiting, "place", place)
    monkeypatch.setattr(Waiting, "free", threading.Event())
    monkeypatch.setattr(records, "PATIENCE", 0.2)
    try:
        assert run(tmp_path / "run", log_to="waiting", **GIVEN).exit_status == 0
        said = capsys.readouterr().err
        assert said.count("waiting: is not recorded any further: it has not written all of it in time") == 1
    finally:
        Waiting.free.set()
    monkeypatch.undo()
    run(tmp_path / "run", resume=True, **{**GIVEN, "steps": 16, "log_to": "waiting"})
    points = Memory.points[f"{tmp_path / 'run'} waiting"]
    assert {(name, step) for name, step, _ in untimed(points)} == {
        (name, step) for name, step, _ in untimed(logged(tmp_path / "run"))
    }


@recorders.register("changing")
class Changing(Memory):
    """Changes what it hears."""

    def hear(self, event: Any) -> None:
        for inner in event.values():
            if isinstance(inner, dict):
                inner.clear()
        event.clear()


def test_a_recorder_that_changes_an_event_changes_its_own_alone(tmp_path: Path) -> None:
    run(tmp_path / "run", log_to="changing,memory", **GIVEN)
    assert sorted(untimed(Memory.points[str(tmp_path / "run")])) == untimed(logged(tmp_path / "run"))
    assert any(name.startswith("final/") for name, _, _ in Memory.points[str(tmp_path / "run")])


def test_a_recorder_changes_no_number_of_the_run(tmp_path: Path) -> None:
    @recorders.register("drawing")
    class Drawing(Memory):
        """Draws from generators of its own alone, as recorders do."""

        def scalars(self, step: int, values: Mapping[str, float]) -> None:
            random.Random(1).random()
            np.random.default_rng(1).random()

    for name, given in (("plain", {}), ("recorded", {"log_to": "drawing,tensorboard"})):
        if given:
            pytest.importorskip("tensorboard")
        run(tmp_path / name, **GIVEN, **given)
    from tests.training.test_kill import check_equal

    check_equal(tmp_path / "plain", tmp_path / "recorded")


def test_a_wrong_name_and_a_missing_package_are_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownName, match="unknown recorder 'tensorbord'; did you mean tensorboard?"):
        run(tmp_path / "run", log_to="tensorbord", **GIVEN)

    here = importlib.import_module

    def gone(name: str) -> Any:
        if name.startswith("transformula."):
            return here(name)
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", gone)
    for name in ("tensorboard", "wandb", "mlflow", "trackio"):
        with pytest.raises(MissingExtra, match=rf"the recorder {name} needs .*'transformula\[{name}\]'"):
            run(tmp_path / "run", log_to=name, **GIVEN)
    assert not (tmp_path / "run").exists()


def test_names_are_read_from_one_text_or_several() -> None:
    for stated in ("wandb, mlflow", ["wandb", "mlflow"], ["wandb,mlflow"]):
        assert TrainingSettings.read({"log_to": stated}).log_to == ["wandb", "mlflow"]


def test_numbers_by_depth_have_their_layer_and_deep_models_a_few() -> None:
    event = {"event": "telemetry", "step": 3, "others": 0.5, "streams": {"x": [1.0, 2.0, None]},
             "gradients": {"layers": [float(n) for n in range(1, 101)]}}  # fmt: skip
    values = scalars_of(event)
    assert values["telemetry/streams/x/00"] == 1.0 and values["telemetry/streams/x/01"] == 2.0
    assert "telemetry/streams/x/02" not in values and values["telemetry/others"] == 0.5
    deep = {name: value for name, value in values.items() if "gradients" in name}
    assert len(deep) == MAX_LAYERS and deep["telemetry/gradients/layers/01"] == 1.0
    assert deep["telemetry/gradients/layers/100"] == 100.0
    assert scalars_of({"event": "evaluation", "step": 1, "sample": "32 of 64 rows", "loss": 1.0}) == {
        "validation-sample/loss": 1.0
    }
    assert dict(flat({"lora": {"rank": 8, "alpha": None}, "lr": 0.1}, ".")) == {"lora.rank": 8, "lr": 0.1}


def recorded_twice(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was killed at step 10, was resumed from step 8, and became longer."""
    monkeypatch.setattr(records, "FAILED_PATIENCE_SECONDS", 60.0)  # this process is not killed, nor its recorders
    for steps in (0, 12, 16):
        if steps:
            run(folder, resume=True, **{**GIVEN, "steps": steps})
        else:
            killed(folder, 10, log_to=name)
        if name == "wandb":  # each sitting is a process of its own, with a service of its own that writes to its end
            importlib.import_module("wandb").teardown()


def check_once(folder: Path, points: list[Point]) -> None:
    """Each number of the log once, as float32 at least."""
    assert not [name for name, times in Counter((name, step) for name, step, _ in points).items() if times > 1]
    (expected, found) = (untimed(sorted(each)) for each in (logged(folder), points))
    assert [point[:2] for point in found] == [point[:2] for point in expected]
    assert [point[2] for point in found] == pytest.approx([point[2] for point in expected], rel=1e-6)
    last = [value for name, step, value in points if name == "final/loss" and step == 16]
    assert last == pytest.approx([value for name, step, value in logged(folder) if name == "final/loss"], rel=1e-6)


def test_tensorboard_reads_each_point_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    recorded_twice(tmp_path / "run", "tensorboard", monkeypatch)
    read = EventAccumulator(str(tmp_path / "run" / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    read.Reload()
    tags = read.Tags()
    points = [(name, one.step, one.value) for name in tags["scalars"] for one in read.Scalars(name)]
    check_once(tmp_path / "run", points)
    assert {"settings/text_summary", "model/text_summary", "sample/text_summary"} <= set(tags["tensors"])
    shown = read.Tensors("settings/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "| checkpoint_every | 4 |" in shown


@pytest.mark.slow
def test_wandb_offline_goes_on_with_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    recorded_twice(tmp_path / "run", "wandb", monkeypatch)
    files = sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    identity = json.loads((tmp_path / "run/manifest.json").read_text())["run"]
    assert len(files) == 3 and {file.stem for file in files} == {f"run-{identity}"}
    points, settings = list[Point](), list[dict[str, Any]]()
    for file in files:
        for record in wandb_records(file):
            if record.HasField("history"):
                row = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
                step = int(row["step"])
                assert int(row.get("_step", step)) == step
                numbers = {k: json.loads(v) for k, v in row.items() if "/" in k and not k.startswith("sample/")}
                points += [(name, step, value) for name, value in numbers.items()]
            if record.HasField("run"):
                settings.append({one.key: one.value_json for one in record.run.config.update})
    check_once(tmp_path / "run", points)
    assert settings[0]["steps"] == "12" and settings[-1]["steps"] == "16"


def wandb_records(path: Path) -> list[Any]:
    """The records of a file of W&B: LevelDB's log format, blocks of 32 KiB, in each record a header of 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, place, found, piece = path.read_bytes(), 7, list[Any](), b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        size, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        piece += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part
            found.append(Record.FromString(piece))
            piece = b""
    return found


@pytest.mark.slow
def test_mlflow_goes_on_with_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    recorded_twice(tmp_path / "run", "mlflow", monkeypatch)
    client = mlflow.MlflowClient()
    (experiment,) = [one for one in client.search_experiments() if one.name == "transformula"]
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED" and found.info.run_name == "run"
    assert found.data.params["steps"] == "12" and found.data.tags["resumed.steps"] == "16"
    histories = {name: client.get_metric_history(found.info.run_id, name) for name in found.data.metrics}
    check_once(tmp_path / "run", [(name, one.step, one.value) for name, all in histories.items() for one in all])
    assert "sample-step-16.txt" in {file.path for file in client.list_artifacts(found.info.run_id)}


@pytest.mark.slow
def test_trackio_goes_on_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    recorded_twice(tmp_path / "run", "trackio", monkeypatch)
    kept = json.loads((tmp_path / "run/records.json").read_text())["trackio"]["record"]["name"]
    rows = SQLiteStorage.get_logs("transformula", kept)
    points = [(name, row["step"], value) for row in rows for name, value in row.items() if "/" in name]
    check_once(tmp_path / "run", points)
