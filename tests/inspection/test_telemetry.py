"""What is read from the telemetry of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from transformula import Model
from transformula.api.inspect import inspect
from transformula.errors import CheckpointError, InputError
from transformula.inspection.telemetry import read_telemetry


def event(step: int, *stacks: str) -> str:
    size = step / 100
    rows = {
        "streams": {f"{stack}x": [1, 2 + size, None] for stack in stacks},
        "updates": {f"{stack}x": [0.5, size] for stack in stacks},
        "gradients": {f"{stack}layers": [0.25, 0.125] for stack in stacks},
        "coefficients": {"gain": [size, 0]},
    }
    return json.dumps({"event": "telemetry", "step": step, "units": 1, "others": 1.0, **rows})


def run_of(folder: Path, *lines: str) -> Path:
    folder.mkdir()
    (folder / "config.yaml").write_text("steps: 100")
    (folder / "log.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def test_a_table_of_start_middle_and_end_and_all_of_it_as_data(tmp_path: Path) -> None:
    steps = (1, 10, 40, 90, 100)
    look = read_telemetry(run_of(tmp_path / "run", '{"event": "step", "step": 1}', *(event(n, "") for n in steps)))
    assert look.data["steps"] == [*steps] and look.data["streams"]["x"][2] == [1, 2.4, None]
    assert look.data["coefficients"]["gain"][-1] == [1, 0] and look.data["writes"] == {}
    rows = [row.split() for row in repr(look).splitlines()]
    assert rows[:4] == [
        ["RMS", "of", "the", "stream"],
        ["layer", "step", "1", "step", "40", "step", "100"],
        ["in", "1", "1", "1"],
        ["1", "2.01", "2.4", "3"],
    ]
    assert rows[4] == ["2", "-", "-", "-"] and ["update", "ratio"] in rows and ["2", "0.125", "0.125", "0.125"] in rows
    assert [axes.get_title(loc="left") for axes in look.figure.axes] == [
        "RMS of the stream", "update ratio", "norm of the gradient",
    ]  # fmt: skip
    assert look.figure.axes[0].lines[1].get_ydata()[1] == 2.4 and look.svg.count("<svg") == 1


def test_several_stacks_and_a_short_run(tmp_path: Path) -> None:
    look = read_telemetry(run_of(tmp_path / "run", event(1, "encoder.", "decoder.")))
    assert len(look.chosen) == 1 and "RMS of the stream: decoder.x" in repr(look)
    assert "norm of the gradient: encoder.layers" in repr(look)


def test_a_run_or_a_model_without(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", '{"event": "step", "step": 1}', '{"event": "telemetry"}')
    with pytest.raises(CheckpointError, match="has no telemetry; it is written unless telemetry_every is 0"):
        read_telemetry(run)
    model = Model("x = x + mlp(norm(x))", depth=1, width=8, heads=1, vocab=5, context=4)
    with pytest.raises(InputError, match="comes from no run; training shows what the log of a run holds"):
        inspect(model, "training")
