from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.toy import ToyModel, ToyTask
from transformula.training import choices, machine
from transformula.training.weights import Weights

CPU = torch.device("cpu")


def test_the_working_copy_is_bf16_and_shares_buffers() -> None:
    model = ToyModel()
    weights = Weights(model, "bf16")
    assert all(p.dtype == torch.bfloat16 for p in weights.model.parameters())
    assert all(p.dtype == torch.float32 for p in model.parameters())
    weights.model.train()(torch.zeros(1, 3, dtype=torch.long))
    assert model.seen.item() == 1


def test_the_working_copy_of_compiled_modules_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[torch.dtype] = []

    def compiled(function: Any, **given: Any) -> Any:
        def run(*inputs: Any) -> torch.Tensor:
            runs.append(function(*inputs).dtype)
            return function(*inputs)

        return run

    monkeypatch.setattr(torch, "compile", compiled)
    plain, whole, layer = (ToyModel() for _ in range(3))
    whole.compile()
    layer.layers[1].compile()
    for model, count in ((plain, 0), (whole, 1), (layer, 1)):
        runs.clear()
        Weights(model, "bf16").model(torch.zeros(1, 3, dtype=torch.long))
        assert runs == [torch.bfloat16] * count


def test_shared_parameters_stay_shared() -> None:
    model = ToyModel()
    model.unembed.weight = model.embed.weight
    weights = Weights(model, "bf16")
    assert weights.model.unembed.weight is weights.model.embed.weight


def test_gradients_go_to_the_masters_and_add_up_there() -> None:
    model, task = ToyModel(dropout=0.0), ToyTask()
    weights = Weights(model, "bf16")
    for micro in range(2):
        task.loss(weights.model, task.batch(0, micro)).backward()
        weights.collect()
    found = model.layers[0].up.weight.grad.clone()
    assert found.dtype == torch.float32
    assert all(p.grad is None for p in weights.model.parameters())
    reference = ToyModel(dropout=0.0)
    for micro in range(2):
        task.loss(reference, task.batch(0, micro)).backward()
    torch.testing.assert_close(found, reference.layers[0].up.weight.grad, atol=2e-3, rtol=0.1)
    with torch.no_grad():
        model.embed.weight.fill_(0.5)
    weights.publish()
    assert (weights.model.embed.weight == 0.5).all()


def test_float32_trains_the_model_itself() -> None:
    model = ToyModel()
    assert Weights(model, "float32").model is model


def test_auto_measures_once_and_leaves_the_model_alone(monkeypatch) -> None:
    model, task = ToyModel(), ToyTask()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    times = [[3.0, 1.0]]
    monkeypatch.setattr(machine, "slowdown_of_bf16", lambda device: 0.0)
    monkeypatch.setattr(machine, "peak", lambda *a: 1e9)
    monkeypatch.setattr(machine, "seconds_of", lambda *works, device: ([w() for w in works], times.pop(0))[1])
    monkeypatch.setattr(
        machine, "describe", lambda d: {k: "here" for k in ("processor", "capability", "threads", "device", "torch")}
    )
    found = [choices.choose_precision("auto", model, task, CPU, task.batch(0, 0), 1e6) for _ in range(2)]
    assert found[0] == found[1] and found[0][0] == "bf16"
    assert "3.0 times" in found[0][1]
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in before.items())
    assert choices.choose_precision("float32", model, task, CPU, task.batch(0, 0), 1e6)[0] == "float32"


def test_a_gain_below_the_bar_is_left_out(monkeypatch) -> None:
    model, task = ToyModel(), ToyTask()
    monkeypatch.setattr(machine, "slowdown_of_bf16", lambda device: 0.0)
    monkeypatch.setattr(machine, "measure_once", lambda *a: 1.1)
    assert choices.choose_precision("auto", model, task, CPU, task.batch(0, 0), 1e6)[0] == "float32"


def test_where_bf16_is_emulated_no_step_in_it_is_measured_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, task = ToyModel(), ToyTask()
    monkeypatch.setattr(machine, "measure_once", lambda device, what, measure, **more: 31.4)
    monkeypatch.setattr(choices, "working_copy", lambda model: pytest.fail("a step in bf16 was made"))
    slow = "matrix products in bf16 take 31 times as long as in float32 here"

    def said(asked: str, resumed: Path | None = None) -> tuple[str, str]:
        return choices.choose_precision(asked, model, task, CPU, task.batch(0, 0), 1e6, resumed)

    assert said("auto") == ("float32", f"precision: float32 ({slow})")
    assert said("bf16") == ("bf16", f"precision: bf16, as asked; {slow}: --precision float32 is faster")
    going_on = f"precision: bf16, as the run began; {slow}: a new run with --init-from runs/first --precision float32"
    assert said("bf16", Path("runs/first")) == ("bf16", f"{going_on} is faster")
    assert said("float32") == ("float32", "precision: float32, as asked")
    monkeypatch.setattr(machine, "measure_once", lambda device, what, measure, **more: 1.0)
    assert said("bf16")[1] == "precision: bf16, as asked"


def test_the_peak_in_bf16_is_measured_by_a_small_product_where_it_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    monkeypatch.setattr(torch, "mm", lambda a, b, out: rows.append(len(a)))
    monkeypatch.setattr(machine, "measure_once", lambda device, what, measure, **more: measure())
    monkeypatch.setattr(machine, "seconds_of", lambda *works, device, budget: [(work(), 1.0)[1] for work in works])
    for slow in (40.0, 0.0):
        monkeypatch.setattr(machine, "slowdown_of_bf16", lambda device, slow=slow: slow)
        machine._peak.__wrapped__(CPU, "bf16", 1)
    assert rows == [machine.SMALL_ROWS, 1024]


def test_a_real_measurement_does_not_touch_buffers() -> None:
    model, task = ToyModel(), ToyTask()
    choices.choose_precision("auto", model, task, CPU, task.batch(0, 0), 1e6)
    assert model.seen.item() == 0
