"""Logits in chunks: the loss and the gradients of the whole, in less memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training.killed import language, translation, write_data
from tests.training.toy import ToyModel, ToyTask
from transformula import Model
from transformula.errors import ConfigError, InputError
from transformula.model.builder import build
from transformula.model.head_in_chunks import set_chunks
from transformula.model.transformer import Transformer
from transformula.tasks.base import Batch
from transformula.tasks.chunked_loss import token_loss
from transformula.training.memory import memory_of
from transformula.training.settings import TrainingSettings
from transformula.training.start import train

SIZES: dict[str, Any] = {"depth": 1, "width": 16, "heads": 2, "vocab": 60, "context": 12}
OUTPUTS = {
    "tied": {},
    "bias": {"output": "logits = unembed(x, bias=True)"},
    "cap": {"output": "h = linear(norm(x), 16)\nlogits = 5 * tanh(unembed.words(h) / 5)"},
}


def built(device: str | None = None, text: str = "x = x + attention(norm(x))", **numbers: Any) -> Transformer:
    return build(Model(text, **{**SIZES, **numbers}).architecture, device=device)


def batch() -> Batch:
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(60, (3, 13), generator=generator)
    targets = ids[:, 1:].clone()
    targets[1, :7] = -100
    return Batch({"tokens": ids[:, :-1]}, targets)


def step(model: Transformer, given: Batch, smoothing: float, share: float = 1.0) -> dict[str, Tensor]:
    loss = token_loss(model, given, smoothing)
    torch.autograd.backward(loss * share)
    made = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return {"loss": loss.detach(), **made}


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("chunks", [2, 5, 100])
def test_it_is_the_loss_of_the_whole(output: str, smoothing: float, chunks: int) -> None:
    model, given = built(**OUTPUTS[output]).double(), batch()
    whole = step(model, given, smoothing, 0.5)
    assert set_chunks(model, chunks) == 1
    parts = step(model, given, smoothing, 0.5)
    assert whole.keys() == parts.keys()
    for name, tensor in whole.items():
        torch.testing.assert_close(parts[name], tensor, rtol=1e-9, atol=1e-12, msg=name)
    with torch.no_grad():
        torch.testing.assert_close(token_loss(model, given, smoothing), whole["loss"])


def test_in_bf16_sums_are_float32() -> None:
    model, given = built().to(torch.bfloat16), batch()
    whole = step(model, given, 0.0)
    set_chunks(model, 6)
    parts = step(model, given, 0.0)
    for name, tensor in whole.items():
        assert parts[name].dtype == tensor.dtype
        assert (parts[name] - tensor).float().norm() <= 0.03 * tensor.float().norm() + 1e-4, name


def test_logits_never_stand_as_a_whole() -> None:
    model = built("meta", vocab=5000)
    numbers = {"precision": "float32", "optimizer": "adamw"}
    whole, parts = (memory_of(model, 200, 12, TrainingSettings(**numbers, loss_chunks=chunks)) for chunks in (1, 16))
    assert parts.peak < whole.peak / 3 and parts.logits < whole.logits / 3
    assert set_chunks(model, 1) == 1  # as it was


@pytest.mark.parametrize("kind", [language, translation])
def test_a_run_learns_the_same(kind: Any, tmp_path: Path) -> None:
    write_data(tmp_path)
    losses = []
    for chunks in (1, 3):
        task, model = kind(tmp_path)
        given = TrainingSettings(steps=3, precision="float32", threads=1, device="cpu", loss_chunks=chunks)
        run = train(task, model, given, tmp_path / f"{chunks}", quiet=True)
        losses.append(run.scores["loss"])
        set_chunks(model, 1)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_outputs_that_look_around_are_refused() -> None:
    around = built(output="logits = unembed.words(attention(x))")
    with pytest.raises(InputError, match="'attention', which is not of each position alone"):
        set_chunks(around, 2)
    two = built(output="logits = unembed.words(x)\nmore = linear(x, 4)")
    with pytest.raises(InputError, match="makes 2 outputs"):
        set_chunks(two, 2)
    chance = built(output="logits = dropout(unembed.words(x), 0.1)")
    with pytest.raises(InputError, match="'dropout', which is not"):
        set_chunks(chance, 2)
    with pytest.raises(InputError, match="no formula made this model"):
        set_chunks(ToyModel(), 2)


def test_a_task_with_another_loss_refuses_chunks(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="counting needs its logits as a whole.*language-modeling"):
        train(ToyTask(), ToyModel(), TrainingSettings(steps=1, loss_chunks=2), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
