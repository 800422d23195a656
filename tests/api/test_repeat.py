"""`repeat`: a run that is made again is the same, bit for bit; where it is not, the first difference is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import transformula
from transformula.cli import main
from transformula.errors import CheckpointError, InputError
from transformula.runs.differences import LogComparison, differing
from transformula.training.guard import NOT_FINITE, SPIKE

FORMULA = "x = x + dropout(attention(norm(x))); x = x + mlp(norm(x))"
GIVEN: dict[str, Any] = {
    "depth": 1, "width": 16, "heads": 2, "context": 16, "dropout": 0.1, "batch": 4, "steps": 12, "log_every": 2,
    "checkpoint_every": 4, "evaluate_every": 6, "telemetry_every": 4, "threads": 1, "precision": "float32",
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repeated")
    (folder / "text.txt").write_text("".join(f"{n} and {n + 1} are {2 * n + 1}\n" for n in range(300)))
    transformula.train(FORMULA, data=str(folder / "text.txt"), out=str(folder / "run"), quiet=True, **GIVEN)
    return folder


@pytest.fixture
def work(made: Path, tmp_path: Path) -> Path:
    """A copy of the run, which may be changed."""
    shutil.copytree(made / "run", tmp_path / "run")
    return tmp_path


def change_log(run: Path, at: int, change: Any) -> None:
    """Change the event of one line."""
    lines = (run / "log.jsonl").read_text().splitlines()
    event = json.loads(lines[at])
    change(event)
    (run / "log.jsonl").write_text("\n".join([*lines[:at], json.dumps(event), *lines[at + 1 :]]) + "\n")


def line_of(run: Path, event: str, step: int) -> int:
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return next(n for n, one in enumerate(events) if (one["event"], one.get("step")) == (event, step))


def test_a_run_made_again_is_the_same(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repeat", str(work / "run"), "--quiet"]) == 0
    said = capsys.readouterr()
    assert "the same: 12 steps, bit for bit, the weights included, last loss " in said.out
    assert said.err == "" and (work / "run-repeat" / "config.yaml").is_file()
    assert main(["repeat", str(work / "run"), "--quiet", "--json", "--out", str(work / "other")]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["same"] and data["difference"] is None and data["environment"] == [] and data["weights"]
    events = [json.loads(line)["event"] for line in (work / "run/log.jsonl").read_text().splitlines()]
    assert data["compared"] == sum(event in ("step", "evaluation", "telemetry") for event in events) > 8


@pytest.mark.parametrize(
    ("event", "step", "key"), [("step", 6, "gradient_norm"), ("evaluation", 6, "loss"), ("telemetry", 4, "streams")]
)
def test_the_first_difference_is_named_and_ends_the_repetition(
    work: Path, capsys: pytest.CaptureFixture[str], event: str, step: int, key: str
) -> None:
    def nudge(one: dict[str, Any]) -> None:
        if key == "streams":
            one[key]["x"][1] *= 1 + 2**-50
        else:
            one[key] *= 1 + 2**-52

    change_log(work / "run", line_of(work / "run", event, step), nudge)
    assert main(["repeat", str(work / "run"), "--quiet"]) == 3
    said = capsys.readouterr().out
    what = "training" if event == "step" else event
    assert f"then step {step}, {what}, {'streams.x.1' if key == 'streams' else key}: " in said
    assert "nothing differs in what was recorded of versions, machine, data and code" in said
    last = json.loads((work / "run-repeat/log.jsonl").read_text().splitlines()[-1])
    assert last["event"] == "end" and step <= last["step"] <= step + 1


def test_weights_that_differ_are_a_difference(work: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = work / "run/last/weights.safetensors"
    tensors = load_file(path)
    name = sorted(tensors)[0]
    tensors[name].flatten()[0] += 1
    save_file(tensors, path)
    found = transformula.repeat(work / "run", quiet=True)
    assert found.exit_status == 3 and found.difference is not None
    assert found.difference.event == "weights" and found.difference.key == f"{name}[0]" and found.compared > 8


def test_what_else_differs_is_said(work: Path) -> None:
    path = work / "run/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["machine"]["processor"], manifest["code"] = "another one", "0123"
    manifest["versions"]["torch"] = "0.1"
    manifest["task"]["identity"] = "of another text"
    path.write_text(json.dumps(manifest))
    change_log(work / "run", line_of(work / "run", "step", 2), lambda one: one.update(loss=1.0))
    found = transformula.repeat(work / "run", quiet=True)
    assert found.difference is not None and found.difference.then == 1.0 and found.difference.step == 2
    keys = {row.partition(":")[0] for row in found.environment}
    assert keys == {"machine.processor", "code", "versions.torch", "task.identity"}
    said = repr(found)
    assert "versions.torch: 0.1 then, " in said and "then step 2, training, loss: 1.0 then, 2." in said


def test_a_run_that_was_resumed_and_one_that_has_not_ended(work: Path) -> None:
    """A log that stops in the middle is compared to where it stops; a resume changes nothing."""
    log = work / "run/log.jsonl"
    lines = log.read_text().splitlines()
    log.write_text("\n".join(lines[: line_of(work / "run", "step", 10)]) + "\n")
    transformula.train(resume=work / "run", quiet=True)
    assert transformula.repeat(work / "run", quiet=True).same
    log.write_text("\n".join(lines[: line_of(work / "run", "step", 8) + 1]) + "\n")
    found = transformula.repeat(work / "run", quiet=True, out=work / "part")
    assert found.same and found.steps == 8 and not found.weights and "the same: 8 steps" in repr(found)


def test_what_cannot_be_repeated_is_said_before_it_is_tried(work: Path, tmp_path: Path) -> None:
    transformula.train(resume=work / "run", steps=16, quiet=True)
    with pytest.raises(InputError, match=r"changed its length \(steps 12, then steps 16\)"):
        transformula.repeat(work / "run")
    config = (work / "run/config.yaml").read_text()
    (work / "run/config.yaml").write_text(config.replace("minutes: null", "minutes: 1"))
    with pytest.raises(InputError, match="limited by minutes, .*train with --steps"):
        transformula.repeat(work / "run")
    (work / "run/config.yaml").write_text(config)
    (work / "run/log.jsonl").write_text("")
    with pytest.raises(CheckpointError, match="holds no step that could be compared"):
        transformula.repeat(work / "run")
    with pytest.raises(CheckpointError, match="there is no such folder"):
        transformula.repeat(work / "missing")
    assert not (work / "run-repeat").exists()


def test_logs_are_compared_but_for_the_clock_and_for_what_tells_of_faults() -> None:
    then = [{"event": "step", "step": 1, "loss": None, "seconds": 1.0}, {"event": "step", "step": 2, "loss": 2.0}]
    comparison = LogComparison([{"event": "resumed", "step": 0}, *then])
    comparison.hear({"event": "step", "step": 1, "loss": None, "seconds": 9.0})
    comparison.hear({"event": "not saved", "step": 1})
    assert comparison.difference is None and comparison.step == 1
    comparison.hear({"event": "evaluation", "step": 1, "loss": 2.0})
    assert str(comparison.difference) == "step 1, training, event: step then, evaluation now"
    short = LogComparison(then)
    short.hear(then[0])
    short.end()
    assert str(short.difference) == "step 2, training: there then, missing now"
    assert list(differing({"a": [1, 2], "b": 1}, {"a": [1, 3], "c": 1})) == [
        ("a.1", 2, 3), ("b", 1, "missing"), ("c", "missing", 1)
    ]  # fmt: skip


@pytest.mark.parametrize("fault", [NOT_FINITE, SPIKE])
def test_a_batch_that_was_left_out_is_compared_too(fault: str) -> None:
    comparison = LogComparison([{"event": fault, "step": 3, "loss": 9.0}])
    comparison.hear({"event": fault, "step": 3, "loss": 8.0})
    assert comparison.difference and comparison.difference.event == fault and comparison.difference.key == "loss"
