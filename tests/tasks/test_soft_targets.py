"""A teacher's probabilities in the loss: the equation, what counts in it, and the tasks that have it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training.killed import classification, dialogue, language, stream, translation, write_data
from transformula.errors import ConfigError, InputError
from transformula.model import build
from transformula.tasks.base import IGNORED, Batch, tasks
from transformula.tasks.kept_targets import KeptTargets
from transformula.tasks.losses import AT_ONCE
from transformula.tasks.soft import soft_of
from transformula.tasks.soft_loss import soft_loss
from transformula.tasks.soft_targets import Teacher, agreement, taught
from transformula.training.copies import working_copy
from transformula.training.fit import parts_of
from transformula.training.memory import memory_of_step
from transformula.training.settings import TrainingSettings


def kl_by_hand(student: Tensor, teacher: Tensor, weights: Tensor, temperature: float) -> Tensor:
    """T^2 sum_i w_i sum_v p_iv log(p_iv / q_iv) / sum_i w_i, term by term."""
    total = student.new_zeros(())
    for s, t, w in zip(student, teacher, weights, strict=True):
        if w == 0:
            continue
        p, q = ((x / temperature).exp() for x in (t, s))
        p, q = p / p.sum(), q / q.sum()
        total = total + w * sum(p[v] * (p[v] / q[v]).log() for v in range(len(t)))
    return temperature**2 * total / weights.sum()


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_it_is_the_equation_and_its_gradient(temperature: float) -> None:
    student, teacher = drawn(7, 5).requires_grad_(), 2 * drawn(7, 5, seed=2)
    weights = torch.tensor([1, 0, 2, 1, 0.5, 0, 1], dtype=torch.float64)
    loss = soft_loss(student, teacher, weights, temperature)
    expected = kl_by_hand(student, teacher, weights, temperature)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    (made,) = torch.autograd.grad(3 * loss, student)
    (right,) = torch.autograd.grad(3 * expected, student)
    torch.testing.assert_close(made, right, rtol=1e-10, atol=1e-14)
    assert torch.autograd.gradcheck(lambda x: soft_loss(x, teacher, weights, temperature), (student,))


def test_many_rows_are_made_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    student, teacher, weights = drawn(50, 6).requires_grad_(), drawn(50, 6, seed=2), torch.ones(50)
    whole = soft_loss(student, teacher, weights, 2.0)
    (gradient,) = torch.autograd.grad(whole, student)
    monkeypatch.setitem(AT_ONCE, "cpu", 40)
    parts = soft_loss(student, teacher, weights, 2.0)
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(torch.autograd.grad(parts, student)[0], gradient)


def test_a_teacher_that_says_the_same_asks_for_no_change() -> None:
    student = drawn(9, 4).requires_grad_()
    loss = soft_loss(student, student.detach().clone(), torch.ones(9), 1.0)
    (gradient,) = torch.autograd.grad(loss, student)
    assert loss == 0 and not gradient.any()


def test_what_does_not_count_may_be_anything() -> None:
    student, teacher, weights = drawn(3, 4), drawn(3, 4, seed=2), torch.tensor([1.0, 0, 1])
    clean = soft_loss(student[[0, 2]], teacher[[0, 2]], torch.ones(2), 2.0)
    student[1], teacher[1] = torch.nan, torch.inf
    student.requires_grad_()
    loss = soft_loss(student, teacher, weights, 2.0)
    torch.testing.assert_close(loss.detach(), clean)
    (gradient,) = torch.autograd.grad(loss, student)
    assert not gradient[1].any() and gradient.isfinite().all()
    none = soft_loss(student, teacher, torch.zeros(3), 2.0)
    assert none == 0 and not torch.autograd.grad(none, student)[0].any()


def test_a_teacher_may_rule_classes_out() -> None:
    student, teacher = drawn(2, 3).requires_grad_(), torch.tensor([[0.0, 1, -torch.inf], [0, 0, 0]]).double()
    loss = soft_loss(student, teacher, torch.ones(2), 1.0)
    p = teacher.softmax(-1)
    expected = -(p * student.log_softmax(-1)).sum(1) - torch.special.entr(p).sum(1)
    torch.testing.assert_close(loss, expected.mean())
    assert torch.autograd.grad(loss, student)[0].isfinite().all()


@pytest.mark.parametrize(("own", "theirs"), [(6, 4), (4, 6)])
def test_rows_that_one_table_lacks_are_left_out_by_the_teacher(own: int, theirs: int) -> None:
    student, teacher = drawn(5, own).requires_grad_(), drawn(5, theirs, seed=2)
    loss = soft_loss(student, teacher, torch.ones(5), 1.0)
    p, log_q = teacher[:, :4].softmax(-1), student.log_softmax(-1)[:, :4]
    torch.testing.assert_close(loss, (p * (p.log() - log_q)).sum(1).mean())


def test_logits_of_other_positions_are_refused() -> None:
    with pytest.raises(InputError, match=r"teacher's logits are \(4, 5\) where the student's are \(3, 5\)"):
        soft_loss(drawn(3, 5), drawn(4, 5), torch.ones(3))


def test_of_some_classes_the_teacher_s_probabilities_are_renormalized() -> None:
    student, teacher, weights = (
        drawn(6, 5).requires_grad_(),
        2 * drawn(6, 5, seed=2),
        torch.tensor([1, 1, 0, 2, 1, 1.0]),
    )
    some, ids = teacher.topk(2, dim=-1)
    kept = torch.full_like(teacher, -torch.inf).scatter(-1, ids, some)
    loss, expected = soft_loss(student, some, weights, 2.0, ids), soft_loss(student, kept, weights, 2.0)
    torch.testing.assert_close(loss, expected)
    one, other = (torch.autograd.grad(each, student)[0] for each in (loss, expected))
    torch.testing.assert_close(one, other)
    whole, all_ids = teacher.topk(5, dim=-1)
    torch.testing.assert_close(
        soft_loss(student, whole, weights, 2.0, all_ids), soft_loss(student, teacher, weights, 2.0)
    )


# tasks

KINDS = {each.__name__: each for each in (language, translation, classification, dialogue)}


def other_model(task: Any, model: Any, seed: int = 9) -> Any:
    """A model of the same text with other weights."""
    return build(model.architecture, seed=seed)


def both(kind: Any, folder: Path, **teaching: Any) -> tuple[Any, Any, Any]:
    """A task, one that learns from a teacher, and a model."""
    write_data(folder)
    task, model = kind(folder)
    teacher = Teacher(other_model(task, model), **{"temperature": 2.0, "weight": 0.3, **teaching})
    return task, taught(task, teacher), model.eval()


@pytest.mark.parametrize("name", KINDS)
def test_the_loss_is_a_mixture(name: str, tmp_path: Path) -> None:
    task, with_teacher, model = both(KINDS[name], tmp_path)
    batch, teacher = task.batch(0), with_teacher.teacher
    counted = batch.targets != IGNORED
    own, theirs = (one(**batch.given).double() for one in (model, teacher.module))
    if own.dim() == batch.targets.dim() + 2:
        own, theirs = own[:, 0], theirs[:, 0]
    p, q = ((x[counted] / 2).softmax(-1) for x in (theirs, own))
    soft = 4 * (p * (p / q).log()).sum(-1).mean()
    expected = 0.7 * task.loss(model, batch).double() + 0.3 * soft
    torch.testing.assert_close(with_teacher.loss(model, batch).double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_without_weight_the_loss_is_the_task_s(name: str, tmp_path: Path) -> None:
    task, with_teacher, model = both(KINDS[name], tmp_path, weight=0.0)
    grads = []
    for each in (task, with_teacher):
        loss = each.loss(model, each.batch(0))
        grads.append([loss, *torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True) if a is not None)


@pytest.mark.parametrize("name", KINDS)
def test_the_teacher_stays_as_it_is(name: str, tmp_path: Path) -> None:
    _, with_teacher, model = both(KINDS[name], tmp_path)
    teacher = with_teacher.teacher.module
    before = {key: value.clone() for key, value in teacher.state_dict().items()}
    torch.autograd.backward(with_teacher.loss(model.train(), with_teacher.batch(0)))
    assert not teacher.training and all(p.grad is None and not p.requires_grad for p in teacher.parameters())
    assert all(torch.equal(value, before[key]) for key, value in teacher.state_dict().items())


def test_padding_changes_nothing(tmp_path: Path) -> None:
    _, task, model = both(translation, tmp_path)
    batch = task.batch(0)
    row = int(batch.lengths["tokens"].argmin())
    length = int(batch.lengths["tokens"][row])
    assert length < batch.targets.shape[1]
    here = slice(row, row + 1)
    padded = replace(
        batch,
        inputs={key: each[here] for key, each in batch.inputs.items()},
        targets=batch.targets[here],
        lengths={key: each[here] for key, each in batch.lengths.items()},
    )
    alone = Batch({key: each[:, :length] for key, each in padded.inputs.items()}, padded.targets[:, :length])
    torch.testing.assert_close(task.loss(model, padded), task.loss(model, alone), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_the_loss_of_parts_adds_up(name: str, tmp_path: Path) -> None:
    """What accumulation, micro-batches and ranks rely on."""
    _, task, model = both(KINDS[name], tmp_path)
    batch = task.batch(0)
    halves = [
        replace(
            batch,
            inputs={key: each[rows] for key, each in batch.inputs.items()},
            targets=batch.targets[rows],
            lengths={key: each[rows] for key, each in batch.lengths.items()},
        )
        for rows in (slice(0, 3), slice(3, None))
    ]
    parts = sum(share * task.loss(model, part) for part, share in type(task).shared(task, halves))
    torch.testing.assert_close(parts, task.loss(model, batch), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_agreement_with_the_teacher_stands_beside_the_scores(name: str, tmp_path: Path) -> None:
    task, with_teacher, model = both(KINDS[name], tmp_path)
    scores, alone = with_teacher.evaluate(model), task.evaluate(model)
    assert {**scores, **alone} == dict(scores)  # the labels' own are what they were
    assert scores.keys() - alone.keys() == {"teacher_agreement", "teacher_kl"} <= {*with_teacher.measures}
    assert 0 <= scores["teacher_agreement"] <= 1 and scores["teacher_kl"] > 0
    assert len(scores.resampled["teacher_kl"]) == len(scores.resampled["teacher_agreement"]) > 0
    itself = taught(task, Teacher(model, 1.0, 0.5))
    own = {each.key: each.score for each in agreement(itself, model)}
    assert own == {"teacher_kl": pytest.approx(0, abs=1e-9), "teacher_agreement": 1.0}


@pytest.mark.parametrize("name", KINDS)
def test_what_is_kept_is_what_would_be_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, asked, model = both(KINDS[name], tmp_path)
    teacher = asked.teacher
    kept = taught(task, teacher, kept=1000)  # all classes
    batches = [each.batch(3) for each in (asked, kept)]
    assert torch.equal(batches[0].targets, batches[1].targets) and not batches[0].said
    torch.testing.assert_close(*(each.loss(model, b) for each, b in zip((asked, kept), batches, strict=True)))
    few = taught(task, teacher, kept=2)
    said = few.batch(3).said
    assert said["logits"].shape[-1] == said["ids"].shape[-1] == 2 and len(said["ids"]) == len(batches[0].targets)
    parts = parts_of(few.batch(3), 3)
    shares = type(few).shared(few, parts)
    whole = few.loss(model, few.batch(3))
    torch.testing.assert_close(sum(s * few.loss(model, part) for part, s in shares), whole, rtol=1e-5, atol=1e-6)
    # another run of these batches, of another model, asks nobody
    monkeypatch.setattr(KeptTargets, "_ask", None)
    again = taught(task, teacher, kept=2).batch(3).said
    assert torch.equal(again["logits"], said["logits"]) and torch.equal(again["ids"], said["ids"])
    with pytest.raises(TypeError):
        taught(task, Teacher(teacher.module, 1.0, 0.5, {"sha256": "other weights"}), kept=2).batch(3)


@pytest.mark.parametrize("kept", [0, 3])
def test_dialogues_in_one_row_have_the_loss_of_padded_ones(kept: int, tmp_path: Path) -> None:
    task, asked, model = both(dialogue, tmp_path)
    task = taught(task, asked.teacher, kept=kept)
    batch = task.batch(0)
    assert batch.lengths, "something is padded"
    parts = parts_of(batch, 2)
    found = []
    for task.pack in (False, True):
        losses = [task.loss(model, each) for each in (batch, *parts)]
        found.append([*losses, *torch.autograd.grad(losses[0], list(model.parameters()), allow_unused=True)])
    assert len(found[0]) > 5
    for padded, packed in zip(*found, strict=True):
        torch.testing.assert_close(packed, padded, rtol=1e-4, atol=1e-6)


def test_micro_batches_are_kept_by_their_place(tmp_path: Path) -> None:
    task, asked, _ = both(language, tmp_path)
    kept = taught(task, asked.teacher, kept=4, accumulate=2)
    for step, micro in ((0, 0), (0, 1), (40, 1), (1, 0)):  # of two entries
        batch = kept.batch(step, micro)
        whole = asked.teacher_says(task.batch(step, micro)).logits.topk(4, dim=-1)
        assert torch.equal(batch.said["ids"].flatten(0, 1), whole.indices)


def test_what_is_never_met_again_is_not_kept(tmp_path: Path) -> None:
    masked = object.__new__(tasks.get("masked-language-modeling"))
    with pytest.raises(ConfigError, match="teacher_kept: .* chooses other positions in each step"):
        taught(masked, Teacher(torch.nn.Linear(1, 1), 1.0, 0.5), kept=4)
    write_data(tmp_path)
    task, model = stream(tmp_path)
    with pytest.raises(ConfigError, match="teacher_kept: its data are read as the run goes on"):
        taught(task, Teacher(model, 1.0, 0.5), kept=4)


def test_agreement_is_that_of_the_validation_set(tmp_path: Path) -> None:
    task, with_teacher, model = both(classification, tmp_path)
    side = task.data.validation
    batch = side.batch(range(len(side)))
    own, theirs = (one(**batch.given)[:, 0].double() for one in (model, with_teacher.teacher.module))
    p, q = theirs.softmax(-1), own.softmax(-1)
    found = {each.key: each.score for each in agreement(with_teacher, model)}
    assert found["teacher_kl"] == pytest.approx(float((p * (p / q).log()).sum(1).mean()), rel=1e-4)
    assert found["teacher_agreement"] == pytest.approx(float((p.argmax(1) == q.argmax(1)).double().mean()))


def test_classes_are_weighted_as_in_the_loss(tmp_path: Path) -> None:
    _, task, model = both(classification, tmp_path)
    task.weights = torch.tensor([3.0, 1.0])
    output, batch = torch.randn(6, 1, 2), Batch({}, torch.tensor([0, 1, 1, 0, 1, 1]))
    assert task.compared.soft(task, output, batch).weights.tolist() == [3, 1, 1, 3, 1, 1]


def test_of_several_labels_each_is_a_choice_of_two(tmp_path: Path) -> None:
    _, task, _ = both(classification, tmp_path)
    task.data.kind = replace(task.data.kind, several=True)
    student, teacher = drawn(4, 1, 3), drawn(4, 1, 3, seed=2)
    batch = Batch({}, torch.zeros(4, 3))
    own, said = (task.compared.soft(task, each, batch) for each in (student, teacher))
    loss = soft_loss(own.logits, said.logits, own.weights, 1.0)
    p, q = teacher.sigmoid(), student.sigmoid()
    expected = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    torch.testing.assert_close(loss, expected.mean())
    assert own.rows.tolist() == [n for n in range(4) for _ in range(3)]


def test_a_teacher_reads_what_it_knows_of_a_batch(tmp_path: Path) -> None:
    _, task, _ = both(language, tmp_path)
    batch = task.batch(0)
    more = replace(batch, inputs={**batch.inputs, "document": batch.inputs["tokens"]}, lengths={})
    assert set(Teacher(torch.nn.Linear(1, 1), 1, 1, {}, frozenset(["tokens"])).reads(more).inputs) == {"tokens"}


def test_tasks_without_such_logits_name_those_with_them(tmp_path: Path) -> None:
    assert {"language-modeling", "classification", "tagging", "translation", "dialogue"} <= {
        name for name in tasks.names() if tasks.get(name).soft_targets is not None
    }
    without = {name for name in tasks.names() if tasks.get(name).soft_targets is None}
    assert {"sentence-embeddings", "image-text-retrieval", "question-answering", "multi-token-prediction"} <= without
    task = object.__new__(tasks.get("sentence-embeddings"))
    with pytest.raises(InputError, match="sentence-embeddings has no logits .*; tasks with them: .*language-modeling"):
        taught(task, Teacher(torch.nn.Linear(1, 1), 1.0, 0.5))


def test_distributions_belong_to_rows() -> None:
    made = soft_of(torch.zeros(2, 3, 5), torch.tensor([[True, False, True], [False, False, True]]))
    assert made.logits.shape == (6, 5)
    assert made.weights.tolist() == [1, 0, 1, 0, 0, 1] and made.rows.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_student_in_bf16_is_answered_in_bf16(tmp_path: Path) -> None:
    task, asked, model = both(language, tmp_path, lower=working_copy)
    batch, low = task.batch(0), working_copy(model)
    before = asked.loss(model, batch)
    settings = TrainingSettings(precision="bf16", optimizer="adamw")
    memory_of_step(model, asked.loss, batch, settings)  # a step without numbers leaves nothing behind
    lowered = asked.loss(low, batch)
    assert lowered.dtype is torch.float32 and float(lowered) == pytest.approx(float(before), rel=0.05)
    assert asked.teacher_says(batch, torch.bfloat16).logits.dtype is torch.bfloat16
    assert torch.equal(asked.loss(model, batch), before)  # of the weights as they were


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("kept", [0, 2])
def test_the_memory_of_a_step_is_known_before_it(device: str, kept: int, tmp_path: Path) -> None:
    task, asked, model = both(language, tmp_path)
    settings = TrainingSettings(precision="float32", optimizer="adamw")
    if kept:
        asked = taught(task, asked.teacher, kept)
    estimates = [memory_of_step(model, each.loss, each.batch(0), settings, device) for each in (task, asked)]
    logits = 4 * task.batch(0).targets.numel() * task.numbers["vocab"]
    assert estimates[1].peak >= estimates[0].peak + (0 if kept else logits)
    assert asked.held_bytes == 4 * sum(p.numel() for p in asked.teacher.module.parameters()) + sum(
        buffer.nbytes for buffer in asked.teacher.module.buffers()
    )
    assert task.held_bytes == 0 and not asked.teacher.module.training
