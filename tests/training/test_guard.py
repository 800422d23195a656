"""Losses that are not finite, and spikes: stop, skip, roll back; the batch is kept, and a resume is exact."""

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from tests.training.killed import carry, write_data
from tests.training.test_loop import run, same
from tests.training.test_preempted import Signaled
from tests.training.toy import VOCAB, ToyModel, ToyTask
from transformula.errors import NotFinite, RunError
from transformula.runs.checkpoint import load_checkpoint
from transformula.runs.folder import RunFolder
from transformula.runs.log import read_log
from transformula.tasks.base import Batch
from transformula.training.guard import read_bad_batch

GIVEN: dict[str, Any] = {"steps": 40, "checkpoint_every": 8, "evaluate_every": 8, "log_every": 1}


class Poisoned(Signaled):
    """Some batches carry a weight of the loss as an input: not a number, or large."""

    def __init__(self, poison: dict[int, float], interrupted: int = -1) -> None:
        super().__init__(15, step=interrupted)
        self.poison = poison

    def batch(self, step: int, micro: int = 0) -> Batch:
        whole = super().batch(step, micro)
        return Batch({**whole.inputs, "factor": torch.tensor([self.poison.get(step, 1.0)])}, whole.targets)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        factor = batch.inputs.get("factor", torch.ones(1))
        return super().loss(model, Batch({"tokens": batch.inputs["tokens"]}, batch.targets)) * factor[0]


NAN = math.nan
POISON = {13: NAN, 21: math.inf, 22: NAN}


def left_out(folder: Path) -> list[dict[str, Any]]:
    return [event for event in read_log(folder / "log.jsonl") if event["event"] in ("not finite", "spike")]


def test_stop_is_the_default_and_names_the_batch(tmp_path: Path) -> None:
    with pytest.raises(NotFinite, match="step 14: the loss is not a finite number.*--on-not-finite skip") as told:
        run(tmp_path / "run", task=Poisoned(POISON), **GIVEN)
    assert told.value.exit_status == 1
    (event,) = left_out(tmp_path / "run")
    assert (event["step"], event["batches"], event["policy"]) == (13, [[13, 0]], "stop")
    assert run(tmp_path / "run", task=Poisoned(POISON), resume=True, on_not_finite="skip", **GIVEN).steps == 40


@pytest.mark.parametrize("policy", ["skip", "rollback"])
@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"optimizer": "adamw", "average": 0.9, "accumulate": 2, "telemetry_every": 1},
    ],
)
def test_the_run_goes_on_and_a_resume_is_exact(
    tmp_path: Path, policy: str, more: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    given = {**GIVEN, **more, "on_not_finite": policy}
    whole = run(tmp_path / "whole", task=Poisoned(POISON), **given)
    said = capsys.readouterr().err
    assert "step 14: the loss is not a finite number" in said and "bad-batches/step-00000013" in said
    assert (whole.steps, whole.units) == (40, 40 * 32 * more.get("accumulate", 1))
    assert [event["step"] for event in left_out(tmp_path / "whole")] == [13, 21, 22]
    assert all(torch.isfinite(t).all() for t in load_file(tmp_path / "whole/last/weights.safetensors").values())
    for at in (10, 13, 17, 22):  # before a bad step, in it, between, in one after another
        run(tmp_path / "cut", task=Poisoned(POISON, at), resume=(tmp_path / "cut").exists(), **given)
    run(tmp_path / "cut", task=Poisoned(POISON), resume=True, **given)
    assert same(tmp_path / "whole/last", tmp_path / "cut/last") and same(tmp_path / "whole/best", tmp_path / "cut/best")
    assert [event["step"] for event in left_out(tmp_path / "cut")] == [13, 21, 22]


def test_a_skipped_batch_changes_nothing_but_the_step(tmp_path: Path) -> None:
    """Neither weights nor what a forward pass changes, such as the count of a buffer."""
    given = {"steps": 3, "checkpoint_every": 1, "keep": 9, "on_not_finite": "skip", "lr_schedule": "constant"}
    run(tmp_path / "run", task=Poisoned({1: NAN}), **given)
    before, after, later = (load_checkpoint(tmp_path / f"run/checkpoints/step-0000000{step}") for step in (1, 2, 3))
    for part in ("weights", "optimizer"):
        one, two = getattr(before, part), getattr(after, part)
        assert one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)
    assert not torch.equal(before.weights["unembed.weight"], later.weights["unembed.weight"])
    assert (after.state["left_out"], after.state["left_out_in_a_row"], later.state["left_out_in_a_row"]) == (1, 1, 0)


def test_rolling_back_takes_the_weights_of_the_checkpoint(tmp_path: Path) -> None:
    given = {"steps": 14, "checkpoint_every": 8, "keep": 9, "on_not_finite": "rollback"}
    run(tmp_path / "run", task=Poisoned({13: NAN}), **given)
    at, end = (load_checkpoint(tmp_path / f"run/checkpoints/step-000000{step}") for step in ("08", "14"))
    for part in ("weights", "optimizer"):
        one, two = getattr(at, part), getattr(end, part)
        assert one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one), part
    run(tmp_path / "first", task=Poisoned({5: NAN}), **{**given, "steps": 6})  # back to the beginning
    start, end = (load_checkpoint(tmp_path / f"first/checkpoints/step-0000000{step}") for step in (0, 6))
    assert all(torch.equal(start.weights[key], end.weights[key]) for key in start.weights) and not end.optimizer


def test_what_a_run_would_roll_back_to_is_kept(tmp_path: Path) -> None:
    """However often it is asked to end in between."""
    given = {**GIVEN, "keep": 1, "on_not_finite": "rollback", "evaluate_every": 100}
    for at in (9, 10, 11):
        run(tmp_path / "cut", task=Poisoned({13: NAN}, at), resume=at > 9, **given)
    run(tmp_path / "cut", task=Poisoned({13: NAN}), resume=True, **given)
    run(tmp_path / "whole", task=Poisoned({13: NAN}), **given)
    assert same(tmp_path / "whole/last", tmp_path / "cut/last")


def test_the_kept_batch_makes_the_fault_again(tmp_path: Path) -> None:
    run(tmp_path / "run", task=Poisoned({13: NAN}), on_not_finite="skip", accumulate=2, **GIVEN)
    shared, about = read_bad_batch(tmp_path / "run/bad-batches/step-00000013")
    assert about["fault"] == "not finite" and about["batches"] == [[13, 0], [13, 1]] and about["seed"] == 1
    assert sum(share for _, share in shared) == pytest.approx(1.0)
    task, model = Poisoned({}), ToyModel()
    assert torch.equal(shared[1][0].targets, task.batch(13, 1).targets)
    loss = sum(share * task.loss(model, batch) for batch, share in shared)
    assert not torch.isfinite(torch.as_tensor(loss))


def test_leaving_out_without_end_is_given_up(tmp_path: Path) -> None:
    poison = dict.fromkeys(range(11, 40), NAN)
    for policy in ("skip", "rollback"):
        with pytest.raises(RunError, match="step 22: .*10 steps .* were left out already, so it is not the batches"):
            run(tmp_path / policy, task=Poisoned(poison), on_not_finite=policy, **{**GIVEN, "checkpoint_every": 40})


def test_a_state_that_is_carried_passes_the_step_over(tmp_path: Path) -> None:
    """Where a batch goes on from the one before, the next one begins from what the bad one began from."""
    write_data(tmp_path)
    given = {"steps": 9, "batch": 2, "accumulate": 2, "checkpoint_every": 2, "on_not_finite": "skip"}

    def carried(name: str, interrupted: int = -1) -> None:
        task, model = carry(tmp_path)
        loss = task.loss

        def spoiled(model: nn.Module, batch: Any) -> Tensor:
            if model.training and batch.step == interrupted:
                os.kill(os.getpid(), signal.SIGTERM)
            return loss(model, batch) * (NAN if model.training and batch.step in (4, 5) else 1.0)

        task.loss = spoiled
        run(tmp_path / name, task=task, model=model, resume=(tmp_path / name).exists(), **given)

    carried("whole")
    assert [event["step"] for event in left_out(tmp_path / "whole")] == [4, 5]
    for at in (4, 5, -1):
        carried("cut", at)
    assert same(tmp_path / "whole/last", tmp_path / "cut/last")


class Leaping(ToyTask):
    """A loss of about 2.4, and ten times that in some steps."""

    def __init__(self, *leaps: int) -> None:
        super().__init__()
        self.leaps = leaps

    def batch(self, step: int, micro: int = 0) -> Batch:
        whole = super().batch(step, micro)
        flag = torch.full((1,), float(step in self.leaps))
        return Batch({**whole.inputs, "flag": flag}, whole.targets)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        plain = super().loss(model, Batch({"tokens": batch.inputs["tokens"]}, batch.targets))
        return plain * (1 + 9 * batch.inputs.get("flag", torch.zeros(1))[0])


def test_spikes_are_left_out_where_that_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {**GIVEN, "lr": 1e-3}
    run(tmp_path / "plain", task=Leaping(3, 30), **given)
    assert left_out(tmp_path / "plain") == []
    run(tmp_path / "skip", task=Leaping(3, 30), on_spike="skip", **given)  # step 3 comes before the others are known
    assert [(e["event"], e["step"]) for e in left_out(tmp_path / "skip")] == [("spike", 30)]
    assert "step 31: the loss" in capsys.readouterr().err
    run(tmp_path / "wide", task=Leaping(30), on_spike="skip", spike=1e6, **given)
    assert left_out(tmp_path / "wide") == []
    with pytest.raises(
        RunError, match=r"step 31: the loss, .* above its median.*--on-spike skip.*\nsaved: .*step-00000030"
    ):
        run(tmp_path / "stop", task=Leaping(30), on_spike="stop", **given)
    run(tmp_path / "stop", task=Leaping(30), on_spike="skip", resume=True, **given)
    run(tmp_path / "whole", task=Leaping(30), on_spike="skip", **given)
    assert same(tmp_path / "whole/last", tmp_path / "stop/last")


def test_without_faults_a_policy_changes_no_number(tmp_path: Path) -> None:
    run(tmp_path / "plain", **GIVEN)
    run(tmp_path / "guarded", on_not_finite="rollback", on_spike="rollback", spike=50, **GIVEN)
    assert same(tmp_path / "plain/last", tmp_path / "guarded/last")
    assert VOCAB == 11 and RunFolder.open(tmp_path / "guarded").newest_checkpoint()[0] is not None
