"""The memory of a step, known before it: against the same step made with its numbers, storage by storage."""

import contextlib
import mmap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.training.toy import ToyModel, ToyTask
from transformula import Model
from transformula.cost.memory import GRADIENTS, UPDATE, MemoryEstimate
from transformula.errors import InputError
from transformula.model.builder import build
from transformula.model.transformer import Transformer
from transformula.tasks.base import Batch
from transformula.tasks.chunked_loss import token_loss
from transformula.training import memory, memory_notice
from transformula.training.memory import batch_of, memory_of, memory_of_step
from transformula.training.optimizer import TABLE, parameters_of
from transformula.training.progress import Progress
from transformula.training.settings import TrainingSettings
from transformula.training.start import train

PLAIN = "x = x + attention(norm(x))\nx = x + dropout(mlp(norm(x)), 0.1)"
SIZES: dict[str, Any] = {"depth": 2, "width": 32, "heads": 2, "vocab": 300, "context": 64}


def built(text: str = PLAIN, device: str | None = "meta", **numbers: Any) -> Transformer:
    return build(Model(text, **{**SIZES, **numbers}).architecture, device=device)


def estimate(text: str = PLAIN, rows: int = 4, device: str = "cpu", **settings: Any) -> MemoryEstimate:
    return memory_of(built(text), rows, 64, TrainingSettings(**{"precision": "float32", **settings}), device)


def really(monkeypatch: pytest.MonkeyPatch, text: str, **settings: Any) -> MemoryEstimate:
    """The same account of a step that is made with its numbers."""

    @contextlib.contextmanager
    def with_numbers(device: str) -> Iterator[str]:
        yield device

    monkeypatch.setattr(memory, "without_numbers", with_numbers)
    empty = memory.copy_without_numbers

    def zeros(*given: Any) -> nn.Module:
        made = empty(*given)
        for tensor in (*made.parameters(), *made.buffers()):
            tensor.data.zero_()
        return made

    monkeypatch.setattr(memory, "copy_without_numbers", zeros)
    monkeypatch.setattr(memory, "_like", lambda batch, device: batch)
    ids = torch.randint(300, (4, 64))
    given = TrainingSettings(**{"precision": "float32", **settings})
    return memory_of_step(built(text, None), token_loss, Batch({"tokens": ids}, ids), given)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "x = x + attention(norm(x), kv_heads=1, rotary=10000, dropout=0.1)\nx = x + mlp(norm(x), gated=True)",
        "x = norm(x + conv(x, 3))\nx = x + linear_attention(norm(x))",
    ],
)
def test_it_is_that_of_the_step_made_with_its_numbers(
    monkeypatch: pytest.MonkeyPatch, text: str, precision: str
) -> None:
    before = estimate(text, precision=precision)
    after = really(monkeypatch, text, precision=precision)
    assert before.activations == pytest.approx(after.activations, rel=0.005)
    assert before.moments[UPDATE].total == pytest.approx(after.moments[UPDATE].total, rel=0.01)
    # tables that are kept from an earlier step are no storages of this one
    assert before.peak == pytest.approx(after.peak, rel=0.02)


def parameters_of_tables() -> list[torch.Tensor]:
    return [p.tensor for p in parameters_of(built()) if p.role == TABLE]


def test_what_the_process_holds_is_in_the_sum() -> None:
    model = built(device=None)
    besides = memory_notice.bytes_besides(model)
    with mmap.mmap(-1, 1 << 27) as large:  # of the system, where `malloc` would give out what was freed before
        for _ in range(1 << 7):  # piece by piece, since `malloc` may keep what is written from
            large.write(b"x" * (1 << 20))
        assert memory_notice.bytes_besides(model) == pytest.approx(besides + len(large), abs=2**24)
    told = replace(estimate(), besides=2**40).sentence
    assert told.startswith(estimate().sentence) and "with what the process holds besides, 1 TiB" in told


def test_ranks_share_what_belongs_to_the_parameters() -> None:
    whole, of_four = estimate(optimizer="adamw", average=0.9), estimate(optimizer="adamw", average=0.9).of_rank(4)
    for key, moment in of_four.moments.items():
        before = whole.moments[key]
        for name, size in moment.data.items():
            shared = name in ("weights", "masters", "averages", "optimizer", "gradients")
            assert size == (-(-before.data[name] // 4) if shared else before.data[name])
    assert of_four.sentence.startswith("memory of a step, on each rank: about ") and whole.of_rank(1) is whole


def test_parts_are_what_they_are_called() -> None:
    parameters = sum(p.numel() for p in built().parameters())
    made = estimate(optimizer="adamw")
    at = made.moments[UPDATE]
    assert at.weights == at.gradients == 4 * parameters and not at.masters and not at.averages
    assert 8 * parameters <= at.optimizer <= 8 * parameters + 4 * len(list(built().parameters()))
    assert made.peak == max(moment.total for moment in made.moments.values())
    tables = sum(p.numel() for p in parameters_of_tables())
    assert estimate(optimizer="muon").at.optimizer >= 4 * parameters + 4 * tables  # AdamW keeps two numbers of these
    low = estimate(optimizer="adamw", precision="bf16", average=0.9).moments[GRADIENTS]
    assert (low.weights, low.masters, low.averages) == (2 * parameters, 4 * parameters, 4 * parameters)
    logits = 4 * 64 * 300 * 4
    assert 2 * logits <= made.logits <= 4 * logits


def test_activations_go_by_the_lines_of_the_formula() -> None:
    made = estimate()
    by_place = {(one.section, one.line): one.bytes for one in made.lines}
    assert sum(by_place.values()) == made.activations
    for layer in (1, 2):
        assert [line for section, line in by_place if section == f"layer {layer}"] == PLAIN.splitlines()
    assert by_place["layer 1", PLAIN.splitlines()[0]] == by_place["layer 2", PLAIN.splitlines()[0]]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.slow)])
def test_it_follows_rows_and_settings(device: str) -> None:
    one, two = estimate(device=device), estimate(rows=8, device=device)
    assert two.activations == pytest.approx(2 * one.activations, rel=0.1)
    cut = estimate(rows=8, device=device, micro_batches=2)
    assert cut.activations == one.activations and cut.moments[GRADIENTS].gradients
    assert estimate(device=device, precision="bf16").activations < 0.75 * one.activations
    adapted = estimate(device=device, lora="rank=4", optimizer="adamw")
    assert adapted.at.optimizer < estimate(device=device, optimizer="adamw").at.optimizer / 2
    assert estimate(device=device, freeze="layers").activations < one.activations


def test_a_large_model_costs_nothing() -> None:
    """8 x 10^9 parameters, on the meta device."""
    numbers = {"depth": 2, "width": 8192, "heads": 64, "vocab": 128_000, "context": 256}
    model = build(
        Model("x = x + attention(norm(x), kv_heads=8, rotary=10000)\nx = x + mlp(norm(x))", **numbers).architecture,
        device="meta",
    )
    made = memory_of(model, 1, 256, TrainingSettings(precision="bf16", optimizer="adamw"), "cuda")
    assert made.kept >= 14 * sum(p.numel() for p in model.parameters()) > 2**34


@pytest.mark.parametrize("device", [pytest.param("cpu", marks=pytest.mark.slow), "cuda"])
@pytest.mark.parametrize("precision", [pytest.param("float32", marks=pytest.mark.slow), "bf16"])
def test_experts_have_an_equal_load(device: str, precision: str) -> None:
    few, many = (
        estimate(f"x = x + experts(norm(x), n=8, active={active}, hidden=64)", precision=precision).activations
        for active in (2, 4)
    )
    assert few < many < 2.1 * few


def test_it_looks_at_models_without_a_formula_and_leaves_them() -> None:
    model, task = ToyModel(), ToyTask()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    made = memory_of_step(model, task.loss, task.batch(0), TrainingSettings(precision="float32"))
    assert made.activations > 0 and made.logits > 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(p.grad is None and type(p) is nn.Parameter for p in model.parameters())


def test_what_depends_on_numbers_is_refused() -> None:
    class Chosen(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x[x[:, 0] > 0])

    batch = Batch({"x": torch.ones(4, 8)}, torch.ones(4, 8))
    with pytest.raises(InputError, match="memory of a step cannot be followed"):
        memory_of_step(Chosen(8, 8), lambda model, given: model(**given.given).sum(), batch, TrainingSettings())
    text = "x = x + mlp(norm(x))"
    pictures: Any = SimpleNamespace(inputs=["image"])
    with pytest.raises(InputError, match="reads image"):
        batch_of(pictures, 1, 1)
    two = built(text, output="logits = unembed.words(x)\nmore = linear(x, 4)")
    with pytest.raises(InputError, match="models of one output"):
        memory_of(two, 1, 8)


def test_a_run_says_it_where_it_matters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Progress("tokens", quiet=True)
    said: list[str] = []
    monkeypatch.setattr(shown, "say", lambda text, warning=False: said.append(text))
    train(
        ToyTask(),
        ToyModel(),
        TrainingSettings(steps=1, precision="float32", threads=1, device="cpu"),
        tmp_path / "small",
        progress=shown,
    )
    assert not [line for line in said if line.startswith("memory of a step")]
    monkeypatch.setattr(memory_notice, "MIN_BYTES_SAID", 0)
    train(
        ToyTask(),
        ToyModel(),
        TrainingSettings(steps=1, precision="float32", threads=1, device="cpu"),
        tmp_path / "large",
        progress=shown,
    )
    (line,) = [line for line in said if line.startswith("memory of a step")]
    assert "about" in line and "KiB" in line and "with what the process holds besides, " in line
    before, after = (load_file(tmp_path / name / "last" / "weights.safetensors") for name in ("small", "large"))
    assert all(torch.equal(before[name], after[name]) for name in before)
