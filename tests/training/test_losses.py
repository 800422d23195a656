"""What a model adds to the task's loss: in training only, by name, right with several micro-batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from tests.training.toy import LENGTH, VOCAB, Halves, ToyModel, ToyTask
from transformula.errors import NotFinite
from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.model import build
from transformula.runs.log import read_log
from transformula.training import RunResult, TrainingSettings, train
from transformula.training.gradients import by_kind, named_losses, whole_loss, worst_by_kind
from transformula.training.progress import Progress
from transformula.words import vocabulary


class Adding(ToyModel):
    """Adds the mean square of its logits, `weight` times, as two losses."""

    def __init__(self, weight: float = 0.1, **given: Any) -> None:
        super().__init__(dropout=0.0, **given)
        self.weight = weight
        self.last: Tensor | None = None

    def forward(self, tokens: Tensor) -> Tensor:
        logits = super().forward(tokens)
        if self.training:
            self.last = self.weight * logits.square().mean()
        return logits

    def named_losses(self) -> dict[str, Tensor]:
        return {} if self.last is None else {"layers.0.size": self.last, "layers.1.size": 2 * self.last}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "last": None}


def run(folder: Path, model: nn.Module, task: Any = None, resume: bool = False, **given: Any) -> RunResult:
    plain = {"batch": 4, "precision": "float32", "device": "cpu", "log_every": 5}
    settings = TrainingSettings.read({**plain, **given})
    return train(task or ToyTask(), model, settings, folder, resume=resume, quiet=True)


def steps(folder: Path) -> list[dict[str, Any]]:
    return [e for e in read_log(folder / "log.jsonl") if e["event"] == "step"]


@pytest.mark.parametrize("precision", ["float32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_they_are_made_small_and_logged_by_name(tmp_path: Path, precision: str) -> None:
    sizes = {}
    for weight in (0.0, 1.0):
        model = Adding(weight)
        run(tmp_path / str(weight), model, steps=40, precision=precision)
        with torch.no_grad():
            sizes[weight] = float(model.eval()(torch.arange(LENGTH)[None] % VOCAB).square().mean())
    assert sizes[1.0] < 0.3 * sizes[0.0]
    for event in steps(tmp_path / "1.0"):
        assert event["losses"]["layers.1.size"] == pytest.approx(2 * event["losses"]["layers.0.size"], rel=1e-2)
    assert (
        steps(tmp_path / "1.0")[-1]["losses"]["layers.0.size"] < steps(tmp_path / "1.0")[0]["losses"]["layers.0.size"]
    )


def test_the_logged_loss_is_the_tasks_alone_and_evaluation_has_no_other(tmp_path: Path) -> None:
    model, task = Adding(weight=100.0), ToyTask()
    expected = float(task.loss(model, task.batch(0, 0)).detach())
    result = run(tmp_path / "run", model, steps=1, log_every=1)
    assert steps(tmp_path / "run")[0]["loss"] == pytest.approx(expected, rel=1e-6)
    model.eval()
    assert result.scores["loss"] == pytest.approx(ToyTask().evaluate(model)["loss"], rel=1e-6)


def test_micro_batches_weigh_them_as_the_tasks_loss(tmp_path: Path) -> None:
    """The mean over positions of a loss that is itself a mean over positions: as one batch has it."""

    run(tmp_path / "one", Adding(), steps=10)
    run(tmp_path / "two", Adding(), task=Halves(), steps=10, accumulate=2)
    a, b = (load_file(tmp_path / n / "last/weights.safetensors") for n in ("one", "two"))
    for key in a.keys() - {"seen"}:
        torch.testing.assert_close(a[key], b[key], atol=1e-4, rtol=1e-3)
    for one, two in zip(steps(tmp_path / "one"), steps(tmp_path / "two"), strict=True):
        assert one["losses"]["layers.0.size"] == pytest.approx(two["losses"]["layers.0.size"], rel=1e-3)


def test_a_resume_goes_on_with_their_means(tmp_path: Path) -> None:
    run(tmp_path / "whole", Adding(), steps=20, log_every=8, lr_schedule="constant", warmup=0.0, evaluate_every=6)
    run(tmp_path / "cut", Adding(), steps=6, log_every=8, lr_schedule="constant", warmup=0.0, evaluate_every=6)
    run(
        tmp_path / "cut", Adding(), resume=True, steps=20, log_every=8, lr_schedule="constant", warmup=0.0,
        evaluate_every=6,
    )  # fmt: skip
    assert [e["losses"] for e in steps(tmp_path / "cut")] == [e["losses"] for e in steps(tmp_path / "whole")]


def test_one_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(NotFinite, match="the loss is not a finite number"):
        run(tmp_path / "run", Adding(weight=float("inf")), steps=3)


def test_models_without_any() -> None:
    assert named_losses(ToyModel()) == {}
    assert whole_loss(torch.tensor(2.0), {}) == 2
    assert by_kind({"layers.1.experts.balance": 1.0, "layers.2.experts.balance": 2.0, "a": 5.0}) == {
        "balance": 3.0,
        "a": 5.0,
    }


def test_they_are_shown() -> None:
    import io

    stream = io.StringIO()
    with Progress("tokens", stream) as shown:
        shown._shown -= 1000
        shown.step(2, 0.02, 2.0, 1000.0, 0.5, None, 1e-3, {"balance": 0.0213})
    assert stream.getvalue() == "step 2  2 %  loss 2.000  balance 0.0213  1,000 tokens/s  50 % of peak  lr 0.001\n"


# With a model of the language.


def experts(balance: float) -> nn.Module:
    """Experts whose router begins with a strong liking for the first."""
    formula = f"x = x + experts(norm(x), n=4, active=1, hidden=16, renormalise=False, balance={balance})"
    numbers = {"vocab": VOCAB, "context": LENGTH, "depth": 1, "width": 16, "heads": 2}
    model = build(check(from_formula(formula, name="routed").override(numbers), vocabulary()), seed=0)
    with torch.no_grad():
        norm = model.get_submodule("layers.1.experts_input_norm")
        norm.bias.add_(1)
        model.get_submodule("layers.1.experts").router.weight[0] += 0.3
    return model


def load(model: nn.Module) -> Tensor:
    """The share of the positions that each expert is chosen by."""
    word, counts = model.get_submodule("layers.1.experts"), []
    handle = word.register_forward_hook(
        lambda m, given, result: counts.append(
            torch.bincount(m.route(given[0].flatten(0, 1))[0].flatten(), minlength=4)
        )
    )
    with torch.no_grad():
        model.eval()(torch.cat([ToyTask().batch(step).inputs["tokens"] for step in range(20)]))
    handle.remove()
    return counts[0] / counts[0].sum()


def test_the_load_of_experts_becomes_even(tmp_path: Path) -> None:
    found = {}
    for balance in (0.0, 1.0):
        model = experts(balance)
        assert load(model)[0] > 0.95
        result = run(tmp_path / str(balance), model, steps=60, lr=0.02, patience=1000)
        found[balance] = load(model).max()
        assert result.scores["loss"] < 2.3
    assert found[1.0] < 0.5 < 0.9 < found[0.0]
    first, *_, last = (e["losses"]["layers.1.experts.balance"] for e in steps(tmp_path / "1.0"))
    assert last < 1.2 < 3 < first and "losses" not in steps(tmp_path / "0.0")[0]


def with_selection_bias() -> nn.Module:
    formula = (
        "x = x + experts(norm(x), n=4, active=1, hidden=16, renormalise=False, selection_bias=True, bias_rate=0.05)"
    )
    numbers = {"vocab": VOCAB, "context": LENGTH, "depth": 1, "width": 16, "heads": 2}
    return build(check(from_formula(formula, name="routed").override(numbers), vocabulary()), seed=0)


def test_a_selection_bias_is_updated_resumed_and_saved(tmp_path: Path) -> None:
    """Its run in two parts ends as the whole one, in bf16, with two micro-batches a step; the load is logged."""
    settings: dict[str, Any] = {"accumulate": 2, "precision": "bf16", "lr_schedule": "constant", "log_every": 1}
    settings |= {"evaluate_every": 3}
    whole, cut = with_selection_bias(), with_selection_bias()
    run(tmp_path / "whole", whole, steps=6, **settings)
    run(tmp_path / "cut", cut, steps=3, **settings)
    cut = with_selection_bias()
    run(tmp_path / "cut", cut, resume=True, steps=6, **settings)
    name = "layers.1.experts.selection_bias"
    bias, other = (load_file(tmp_path / run / "last" / "weights.safetensors")[name] for run in ("whole", "cut"))
    assert torch.equal(bias, other) and bias.abs().max() > 0 and bias.dtype == torch.float32
    # every step moves it by the rate or leaves it: no gradient, no decay
    torch.testing.assert_close(bias / 0.05, (bias / 0.05).round())
    measured = steps(tmp_path / "cut")[-1]["measures"]
    assert measured == steps(tmp_path / "whole")[-1]["measures"]
    assert set(measured) == {"layers.1.experts.largest_load", "layers.1.experts.idle"}
    assert 1 <= measured["layers.1.experts.largest_load"] <= 4 and 0 <= measured["layers.1.experts.idle"] < 1


def test_the_worst_load_is_shown() -> None:
    measures = {"layers.1.experts.idle": 0.1, "layers.2.experts.idle": 0.3, "layers.2.experts.largest_load": 2.0}
    assert worst_by_kind(measures) == {"idle": 0.3, "largest_load": 2.0}
