"""Out of memory: which batch, and how to go on. Batches in micro-batches: the same gradient, the largest that fit."""

import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from tests.forked import context
from tests.training.killed import carry, language, translation, write_data
from tests.training.test_failure import Failing
from tests.training.test_loop import run, same
from tests.training.toy import ToyModel, ToyTask
from transformula.cost.machine import of_process
from transformula.errors import ConfigError, RunError
from transformula.runs.folder import RunFolder
from transformula.tasks.base import IGNORED, Batch
from transformula.tasks.question_answering import QuestionAnswering
from transformula.training import machine
from transformula.training.fit import fewest, parts_of, shares_of

LACKING = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes. Error code 12"


class Uneven(ToyTask):
    """Rows of which more and more positions do not count, and the last none."""

    def __init__(self, batch: int = 7) -> None:
        super().__init__(batch=batch)

    def batch(self, step: int, micro: int = 0) -> Batch:
        whole = super().batch(step, micro)
        targets = whole.targets.clone()
        for row in range(self.size):
            targets[row, : 8 * (row + 1) // self.size] = IGNORED
        return Batch(whole.inputs, targets)


class Small(Uneven):
    """Has memory for some rows only."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if model.training and len(batch.targets) > self.rows:
            raise RuntimeError(LACKING)
        return super().loss(model, batch)


@pytest.mark.parametrize("most", [1, 2, 7, 16])
def test_the_fewest_parts_are_found_in_few_tries(most: int) -> None:
    for least in range(1, most + 1):
        tried: list[int] = []
        assert fewest(lambda n: tried.append(n) or n >= least, most) == least  # noqa: B023
        assert len(tried) == len(set(tried)) <= 2 * most.bit_length()
    assert fewest(lambda n: False, most) is None


def test_parts_are_the_batch() -> None:
    batch = ToyTask(batch=7).batch(3)
    for count in (1, 2, 3, 7, 9):
        parts = parts_of(batch, count)
        assert len(parts) == min(count, 7) and max(len(p.targets) for p in parts) == -(-7 // min(count, 7))
        assert torch.equal(torch.cat([p.targets for p in parts]), batch.targets)
        assert torch.equal(torch.cat([p.inputs["tokens"] for p in parts]), batch.inputs["tokens"])


def gradients(task: Any, model: nn.Module, shared: list[tuple[Batch, float]]) -> dict[str, Tensor]:
    model.zero_grad()
    for part, share in shared:
        (task.loss(model, part) * share).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", [language, translation, lambda data: (Uneven(), ToyModel())])
def test_the_gradient_of_the_parts_is_that_of_the_batch(kind: Any, tmp_path: Path) -> None:
    write_data(tmp_path)
    task, model = kind(tmp_path)
    batch = task.batch(2, 0)
    whole = gradients(task, model.eval(), [(batch, 1.0)])
    for count in (2, 3, len(batch.targets)):
        parts = gradients(task, model, shares_of(task, [batch], count))
        for name in whole:
            torch.testing.assert_close(parts[name], whole[name], atol=1e-6, rtol=1e-4, msg=name)


def test_parts_of_answers_weigh_by_their_marks_and_not_by_what_is_read() -> None:
    """Rows of several lengths; in one of them answers differ, so that it has two starts."""
    task = object.__new__(QuestionAnswering)
    targets = torch.zeros(4, 9, dtype=torch.int64)
    for row, (length, marks) in enumerate([(9, {2: 1, 3: 1, 5: 2}), (4, {1: 3}), (6, {0: 1, 5: 2}), (3, {2: 3})]):
        targets[row, length:] = IGNORED
        for place, mark in marks.items():
            targets[row, place] = mark
    batch, output = Batch({"row": torch.arange(4)}, targets), torch.randn(4, 9, 2)
    whole = task.objective(output, batch)
    for count in (2, 3, 4):
        parts = shares_of(task, [batch], count)
        assert sum(share for _, share in parts) == pytest.approx(1.0)
        summed = sum(share * task.objective(output[part.inputs["row"]], part) for part, share in parts)
        torch.testing.assert_close(summed, whole)


def test_a_run_in_micro_batches_is_the_run(tmp_path: Path) -> None:
    for count in (1, 3):
        run(tmp_path / f"{count}", task=Uneven(), model=ToyModel(dropout=0.0), steps=8, micro_batches=count)
    a, b = (load_file(tmp_path / f"{count}/last/weights.safetensors") for count in (1, 3))
    for key in a.keys() - {"seen"}:
        torch.testing.assert_close(a[key], b[key], atol=1e-4, rtol=1e-3)


class Contrasting(ToyTask):
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        rows = model(**batch.given).float().mean(1)
        return F.cross_entropy(rows @ rows.T, torch.arange(len(rows)))


@pytest.mark.parametrize("given", [{"micro_batches": 2}, {"fit": True}])
def test_a_loss_of_the_whole_batch_is_not_cut(tmp_path: Path, given: dict[str, Any]) -> None:
    (key,) = given
    with pytest.raises(ConfigError, match=f"{key}: .*looks at a batch as a whole"):
        run(tmp_path / "run", task=Contrasting(), steps=2, **given)
    write_data(tmp_path)
    task, model = carry(tmp_path)
    with pytest.raises(ConfigError, match=f"{key}: the model says `carry: 20`.*leave it out"):
        run(tmp_path / "run", task=task, model=model, steps=2, **given)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "error",
    [RuntimeError(LACKING), MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4 GiB")],
)
def test_the_message_names_the_batch_and_what_goes_on_works(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(RunError) as told:
        run(tmp_path / "run", task=Failing("loss", 13, error), steps=12, accumulate=2)
    said = str(told.value)
    assert "step 6: there is no memory" in said and told.value.exit_status == 1
    assert "at micro-batch 2 of 2 (tokens 4 x 8, targets 4 x 8: 32 tokens)" in said
    assert said.endswith(f"to resume: {RunFolder.open(tmp_path / 'run').resume_command()} --micro-batches 2")
    assert run(tmp_path / "run", steps=12, accumulate=2, resume=True, micro_batches=2).steps == 12


@pytest.mark.parametrize("rows,parts", [(7, 1), (4, 2), (3, 3), (2, 4), (1, 7)])
def test_fit_finds_the_largest_and_changes_nothing_else(tmp_path: Path, rows: int, parts: int) -> None:
    run(tmp_path / "fit", task=Small(rows), steps=5, fit=True, precision="auto", threads=None)
    config = RunFolder.open(tmp_path / "fit").config()
    assert (config["micro_batches"], config["fit"]) == (parts, False)
    given = {"precision": config["precision"], "threads": config["threads"]}
    run(tmp_path / "given", task=Small(rows), steps=5, micro_batches=parts, **given)
    assert same(tmp_path / "fit/last", tmp_path / "given/last")


def test_a_run_that_was_killed_before_it_fits_when_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("transformula.training.start.fit", kill)
        run(tmp_path / "run", task=Small(2), steps=2, fit=True)
    run(tmp_path / "run", task=Small(2), resume=True)
    config = RunFolder.open(tmp_path / "run").config()
    assert (config["micro_batches"], config["fit"]) == (4, False)


def test_where_no_row_fits_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not even a single row of a batch fits: there is no memory"):
        run(tmp_path / "run", task=Small(0), steps=5, fit=True)


def test_a_resume_may_cut_finer_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path / "run", task=Uneven(), steps=3)
    run(tmp_path / "run", task=Small(2), steps=6, resume=True, fit=True)
    assert RunFolder.open(tmp_path / "run").config()["micro_batches"] == 4
    run(tmp_path / "run", task=Small(2), steps=7, resume=True)
    run(tmp_path / "run", task=Small(2), steps=9, resume=True, micro_batches=5)
    assert (
        "micro_batches: 5, and the run began with 4: from here on it is no longer bit for bit"
        in capsys.readouterr().err
    )


class Balanced(ToyModel):
    """Keeps what it adds to the loss, as experts do."""

    balance: Tensor | None = None

    def forward(self, tokens: Tensor) -> Tensor:
        logits = super().forward(tokens)
        if self.training:
            self.balance = logits.square().mean()
        return logits

    def named_losses(self) -> dict[str, Tensor]:
        return {} if self.balance is None else {"balance": self.balance}


class FailingLate(Uneven):
    """Has memory for three rows only, which shows when the model has passed; notes what it still holds afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.failed, self.held = False, list[bool]()

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if self.failed and isinstance(model, Balanced) and model.balance is not None:
            self.held.append(model.balance.requires_grad)
        loss = super().loss(model, batch)
        self.failed = model.training and len(batch.targets) > 3
        if self.failed:
            raise RuntimeError(LACKING)
        return loss


def test_a_trial_that_fails_leaves_no_activations(tmp_path: Path) -> None:
    task = FailingLate()
    run(tmp_path / "run", task=task, model=Balanced(), steps=2, fit=True)
    assert RunFolder.open(tmp_path / "run").config()["micro_batches"] == 3
    assert task.held and not any(task.held)


PER_ROW = 32 * 2**20


class Large(ToyTask):
    """Takes two to three times 32 MiB a row while its gradient is made."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if not model.training:
            return super().loss(model, batch)
        first = next(model.parameters()).flatten()[0]
        held = first * torch.ones(len(batch.targets), PER_ROW // 4)  # the ones are kept for the gradient
        return super().loss(model, batch) + 0.0 * held.mean()


def train_in_little(folder: Path, rows: int) -> None:
    """With memory for so many times 32 MiB beside what libraries take."""
    machine.keep_memory = lambda needed=0: False  # type: ignore[assignment]  # what is freed goes back to the system
    run(folder / "first", task=ToyTask(batch=16), steps=2)  # libraries are loaded, threads begun
    limit = of_process("VmData:") + rows * PER_ROW + PER_ROW // 2
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    run(folder / "run", task=Large(batch=16), steps=3, fit=True)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [8, 13, 24])
def test_fit_where_the_system_gives_no_more_memory(tmp_path: Path, rows: int) -> None:
    process = context().Process(target=train_in_little, args=(tmp_path, rows))
    process.start()
    process.join()
    assert process.exitcode == 0
    parts = RunFolder.open(tmp_path / "run").config()["micro_batches"]
    assert rows / 4 <= -(-16 // parts) <= rows / 2  # the ones, their product, and perhaps its gradient
