"""Telemetry by depth: what it measures, that training stays what it is, what is read from the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.training import test_carry, test_loop, test_real_model
from tests.training.test_real_model import model_for
from transformula.errors import InputError
from transformula.runs.log import read_log
from transformula.tasks.language_modeling import LanguageModeling
from transformula.training import RunResult

text, task = test_real_model.text, test_real_model.task

FORMULA = """
x = x + dropout(attention(norm(x)))
x = x + dropout(mlp(norm(x))) * vector(0.5)
"""


def run(folder: Path, task: LanguageModeling, model: nn.Module | None = None, **given: Any) -> RunResult:
    return test_real_model.run(
        folder, task, model_for(task, FORMULA) if model is None else model, **{"telemetry_every": 2, **given}
    )


def telemetry(folder: Path) -> list[dict[str, Any]]:
    return [event for event in read_log(folder / "log.jsonl") if event["event"] == "telemetry"]


def rms(x: Tensor) -> float:
    return float(x.detach().pow(2).mean().sqrt())


def test_training_is_the_same_bit_for_bit_and_a_resume_goes_on(tmp_path: Path, task: LanguageModeling) -> None:
    weights, losses = {}, {}
    for every in ("0", "2"):
        folder = tmp_path / every
        result = run(folder, task, steps=4, telemetry_every=int(every), log_every=1, lr_schedule="constant")
        weights[every] = list(result.model.parameters())
        steps = [event for event in read_log(folder / "log.jsonl") if event["event"] == "step"]
        losses[every] = [(event["loss"], event["gradient_norm"]) for event in steps]
    assert all(torch.equal(one, other) for one, other in zip(weights["0"], weights["2"], strict=True))
    assert losses["2"] == losses["0"] and len(losses["0"]) == 4
    assert [[event["step"] for event in telemetry(tmp_path / every)] for every in "02"] == [[], [1, 2, 4]]
    run(tmp_path / "two", task, steps=2, lr_schedule="constant")
    run(tmp_path / "two", task, steps=4, resume=True)
    assert telemetry(tmp_path / "two") == telemetry(tmp_path / "2")


def test_what_is_measured_at_the_first_step(tmp_path: Path, task: LanguageModeling) -> None:
    model = model_for(task, FORMULA, dropout=0.0).train()
    seen: dict[str, Tensor] = {}
    for path in ("layers.1", "layers.1.attention", "layers.1.mlp", "layers.2"):
        module = model.get_submodule(path)
        module.register_forward_hook(
            lambda _, given, left, path=path: seen.update({path: left, f"{path} in": given[0]})
        )
    task.loss(model, task.batch(0, 0)).backward()
    gradients = [
        sum(float(p.grad.pow(2).sum()) for p in model.layers[layer].parameters() if p.grad is not None) ** 0.5
        for layer in "12"
    ]
    run(tmp_path / "run", task, model_for(task, FORMULA, dropout=0.0), steps=1)
    (event,) = telemetry(tmp_path / "run")
    x = [seen["layers.1 in"], seen["layers.1"], seen["layers.2"]]
    middle = x[0] + seen["layers.1.attention"]
    assert event["streams"] == {"x": pytest.approx([*map(rms, x)], rel=1e-4)}
    assert event["updates"] == {
        "x": pytest.approx([rms(x[1] - x[0]) / rms(x[0]), rms(x[2] - x[1]) / rms(x[1])], rel=1e-4)
    }
    assert event["writes"]["attention"][0] == pytest.approx(rms(seen["layers.1.attention"]) / rms(x[0]), rel=1e-4)
    assert event["writes"]["mlp"][0] == pytest.approx(0.5 * rms(seen["layers.1.mlp"]) / rms(middle), rel=1e-4)
    assert event["gradients"] == {"layers": pytest.approx(gradients, rel=1e-3)} and event["others"] > 0
    assert event["coefficients"] == {"mlp_output_vector": [0.5, 0.5]}
    assert event["spreads"] == {"mlp_output_vector": [0.0, 0.0]}


def complete(event: dict[str, Any]) -> bool:
    return len(event["streams"]["x"]) == 3 and all(event["streams"]["x"]) and all(event["gradients"]["layers"])


@pytest.mark.parametrize(
    "given",
    [
        {"precision": "bf16", "accumulate": 2},
        pytest.param({"lora": "rank=2"}, marks=pytest.mark.slow),
    ],
)
def test_every_way_to_train_has_telemetry(tmp_path: Path, task: LanguageModeling, given: dict[str, Any]) -> None:
    run(tmp_path / "run", task, steps=2, **given)
    assert complete(telemetry(tmp_path / "run")[-1])


def test_segments_have_telemetry(tmp_path: Path) -> None:
    task = test_carry.make(tmp_path)
    run(tmp_path / "run", task, test_carry.model_of(task), steps=1, accumulate=2)
    (event,) = telemetry(tmp_path / "run")
    assert complete(event) and [*event["writes"]] == ["attention", "gru", "mlp"]


@pytest.mark.slow
def test_a_compiled_model(tmp_path: Path, task: LanguageModeling) -> None:
    """It is measured in a pass of its own, a quarter as often; its numbers are those without, too."""
    results = []
    for every in (0, 1):
        model = model_for(task, FORMULA, dropout=0.0)
        model.compile(backend="aot_eager")
        results.append(run(tmp_path / f"{every}", task, model, steps=5, telemetry_every=every))
    one, other = (list(result.model.parameters()) for result in results)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    run(tmp_path / "plain", task, model_for(task, FORMULA, dropout=0.0), steps=1)
    (plain,), (compiled, later) = telemetry(tmp_path / "plain"), telemetry(tmp_path / "1")
    assert later["step"] == 4
    for kind in ("streams", "updates"):
        assert compiled[kind]["x"] == pytest.approx(plain[kind]["x"], rel=1e-3)
    with pytest.raises(InputError, match=r"call model\.compile\(\)"):
        run(tmp_path / "wrapped", task, torch.compile(model))  # type: ignore[arg-type]


def test_a_run_without(tmp_path: Path) -> None:
    """A model that no formula made."""
    test_loop.run(tmp_path / "run", steps=2)
    assert not telemetry(tmp_path / "run")
