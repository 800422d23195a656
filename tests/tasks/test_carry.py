"""Language modeling of a model that says `carry`: rows go on from step to step, an evaluation reads to the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from transformula.data.settings import DataSettings
from transformula.errors import ConfigError, InputError
from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.model import Transformer, build
from transformula.tasks.language_modeling import LanguageModeling
from transformula.words import vocabulary

TEXT = "".join(f"line {i} speaks of {i * i} things.\n" for i in range(60))


def make(folder: Path, carry: int = 10, batch: int = 3, accumulate: int = 2, **settings: Any) -> LanguageModeling:
    path = folder / "one.txt"
    path.write_text(TEXT)
    read = DataSettings(data=str(path), tokenizer="characters", **settings)
    return LanguageModeling.make(read, {"context": 16, "carry": carry}, batch=batch, accumulate=accumulate, seed=3)


def model_of(task: LanguageModeling, carry: int = 10) -> Transformer:
    """In float64, evaluating."""
    numbers = {"depth": 2, "width": 16, "heads": 2, **task.numbers, **({"carry": carry} if carry else {})}
    text = from_formula("x = x + attention(norm(x), rotary=100)\nx = x + mlp(norm(x))").override(numbers)
    return build(check(text, vocabulary()), seed=1).double().eval()


def nats(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def test_losses_are_those_of_segments_of_one_text(tmp_path: Path) -> None:
    """Through the end of an epoch, where nothing is carried; each micro-batch has rows of its own."""
    task = make(tmp_path)
    model = model_of(task)
    steps = task.windows.strip
    assert 3 < steps < 20
    carried: list[Any] = [None, None]
    for step in range(steps + 3):
        for micro in range(2):
            batch = task.batch(step, micro)
            given = carried[micro] if step % steps else None
            logits, carried[micro] = model.segment(batch.inputs["tokens"], given)
            torch.testing.assert_close(task.loss(model, batch), nats(logits, batch.targets), rtol=1e-13, atol=0)
    before = task.batch(1).inputs["tokens"][:, 0]
    assert torch.equal(before, task.batch(0).targets[:, -1])


def test_a_step_can_be_made_again_and_none_left_out(tmp_path: Path) -> None:
    task = make(tmp_path)
    model = model_of(task)
    losses = [task.loss(model, task.batch(step)) for step in (0, 0, 1, 1, 2, 2, 2)]
    assert losses[0] == losses[1] and losses[2] == losses[3] and losses[4] == losses[5] == losses[6]
    alone = nats(model(task.batch(2).inputs["tokens"]), task.batch(2).targets)
    assert not torch.isclose(losses[4], alone, rtol=1e-6)
    with pytest.raises(InputError, match="step 5, micro-batch 0, goes on from the step before it"):
        task.loss(model, task.batch(5))
    with pytest.raises(InputError, match="step 3, micro-batch 1"):
        task.loss(model, task.batch(3, 1))


def test_what_is_carried_is_put_into_another_task(tmp_path: Path) -> None:
    task, other = make(tmp_path), make(tmp_path)
    model = model_of(task)
    assert task.memory.tensors() == {}
    for step in range(3):
        for micro in range(2):
            task.loss(model, task.batch(step, micro))
    other.memory.put(task.memory.tensors())
    assert all(name.startswith("3.") for name in task.memory.tensors())
    for micro in range(2):
        assert torch.equal(task.loss(model, task.batch(3, micro)), other.loss(model, other.batch(3, micro)))
    with pytest.raises(InputError, match="step 2"):
        other.loss(model, other.batch(2))


def test_an_evaluation_that_sees_all_is_one_pass(tmp_path: Path) -> None:
    task = make(tmp_path, carry=10_000)
    model = model_of(task, carry=10_000).train()
    ids = torch.from_numpy(task.data.validation.ids.astype("int64"))[None]
    assert ids.shape[1] > 100
    seen: list[tuple[int, int]] = []
    scores = task.evaluate(model, progress=lambda done, total: seen.append((done, total)))
    assert model.training and seen[-1] == (ids.shape[1] - 1,) * 2 and len(seen) > 5
    model.eval()
    assert scores.loss == pytest.approx(nats(model(ids[:, :-1]), ids[:, 1:]).item(), rel=1e-6)
    few = make(tmp_path, carry=2).evaluate(model_of(task, carry=2)).loss
    none = make(tmp_path, carry=0).evaluate(model_of(task, carry=0)).loss
    assert len({scores.loss, few, none}) == 3


def test_an_evaluation_leaves_what_training_carries(tmp_path: Path) -> None:
    task = make(tmp_path)
    model = model_of(task)
    task.loss(model, task.batch(0))
    before = task.memory.tensors()
    task.evaluate(model)
    after = task.memory.tensors()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


def test_model_and_batches_belong_together(tmp_path: Path) -> None:
    with_carry, without = make(tmp_path), make(tmp_path, carry=0)
    with pytest.raises(InputError, match="the model says `carry: 10`, and its batches do not go on"):
        without.loss(model_of(without), without.batch(0))
    with pytest.raises(InputError, match="the batches go on for `carry: 10`, and the model says no"):
        with_carry.evaluate(model_of(with_carry, carry=0))
    with pytest.raises(ConfigError, match="stride: 4.*carries on through the whole validation text"):
        make(tmp_path, stride=4)
    assert with_carry.describe()["carry"] == 10 and "carry" not in without.describe()
