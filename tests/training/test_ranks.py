"""Several processes that train together: their places, what they tell each other, and runs that equal one process's."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import nn

from tests.training.killed import carry, write_data
from tests.training.ranks import on_ranks
from tests.training.test_loop import run, same
from tests.training.toy import ToyModel, ToyTask
from transformula.errors import ConfigError, InputError, RunError
from transformula.runs.folder import RunFolder
from transformula.runs.log import read_log
from transformula.tasks.base import tasks
from transformula.tasks.soft import SoftTargets
from transformula.tasks.soft_targets import Teacher, taught
from transformula.training import start
from transformula.training.parallel.place import RankPlace, job
from transformula.training.parallel.world import Ranks, join

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "a"}
SLURM = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))


def test_a_place_is_read_from_the_environment_of_torchrun_and_of_slurm() -> None:
    assert RankPlace.read({}) is None and RankPlace.read({"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}) is None
    assert RankPlace.read({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}) is None  # a batch script, before its srun
    assert RankPlace.read({**TORCHRUN, "MASTER_PORT": "7"}) == RankPlace(1, 4, 1, 2, ("a", 7))
    assert RankPlace.read({**SLURM, "MASTER_ADDR": "b"}) == RankPlace(3, 4, 1, 2, ("b", 29500))


@pytest.mark.parametrize(
    "given,named",
    [({**TORCHRUN, "RANK": "4"}, "RANK is '4'"), ({**TORCHRUN, "WORLD_SIZE": "many"}, "WORLD_SIZE is 'many'"),
     ({**TORCHRUN, "MASTER_ADDR": ""}, "MASTER_ADDR is not set"), ({"WORLD_SIZE": "2"}, "RANK is not set"),
     (SLURM, "scontrol show hostnames"), ({**TORCHRUN, "MASTER_PORT": "0"}, "MASTER_PORT is '0'")],
)  # fmt: skip
def test_a_wrong_variable_is_named(given: dict[str, str], named: str) -> None:
    with pytest.raises(InputError, match=named.replace("$", r"\$")):
        RankPlace.read(given if "RANK" in named else {"RANK": "0", **given} if named[0] == "M" else given)


def test_a_job_that_was_started_again_is_known_as_the_same() -> None:
    assert job({}) == ("", False) and job({"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": "1"}) == ("slurm 5", True)
    once = {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0"}
    assert job(once)[0] == job({**once, "TORCHELASTIC_RESTART_COUNT": "2"})[0] != job({"TORCHELASTIC_RUN_ID": "x"})[0]
    assert not job(once)[1] and job({**once, "TORCHELASTIC_RESTART_COUNT": "2"})[1]


def test_one_rank_alone_gives_back_what_it_was_given() -> None:
    alone = Ranks()
    tensor = torch.ones(2)
    assert alone.meet(1.5, 2) == [1.5, 2] and alone.any(True) and not alone.any(False)
    assert alone.from_first(3) == 3 and alone.each("a") == ["a"] and alone.by_first(lambda: 4) == 4
    assert alone.device("auto") == "auto" and tensor.equal(torch.ones(2))


class Second(Ranks):
    """The second of two ranks, which hears nothing of the first."""

    def __init__(self) -> None:
        super().__init__(RankPlace(1, 2, 1, 2))

    def by_first(self, work: Any) -> Any:
        return work()


class Pairs(ToyTask):
    """Compares the rows of a batch, but not those of the first one, which are alike."""

    compares = True

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        return 0 * super().loss(model, batch)


class Summed(ToyTask):
    """Its loss grows with the rows, of which it does not tell."""

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        return super().loss(model, batch) * len(batch.targets)


def test_what_cannot_be_cut_is_refused_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "here", Second)
    write_data(tmp_path)
    carrying, model = carry(tmp_path)
    for task, own, why in (
        (carrying, model, "the model says `carry: 20`, so that a batch goes on from the one before it"),
        (Pairs(), ToyModel(), "counting has a contrastive loss, which compares all rows of a batch"),
        (Summed(), ToyModel(), "counting looks at a batch as a whole"),
    ):
        with pytest.raises(ConfigError, match=rf"rank 1 of 2 .*parallel: {why}.*train by one process"):
            run(tmp_path / "run", task=task, model=own, steps=1)
    assert not (tmp_path / "run").exists()


def test_tasks_of_pairs_say_that_they_compare() -> None:
    known = {name: tasks.get(name) for name in tasks.names()}
    assert {name for name, kind in known.items() if kind.compares} == {"sentence-embeddings", "image-text-retrieval"}
    assert not any(kind.compares for name, kind in known.items() if kind.carries)


def told() -> dict[str, Any]:
    ranks = join()
    gradients = [torch.full((3,), float(ranks.rank + 1)), torch.ones(2, 2), torch.tensor(2.0, dtype=torch.float64)]
    ranks.add(gradients)

    def fails() -> None:
        raise InputError("no room")

    try:
        ranks.by_first(fails)
        failed = ""
    except Exception as error:
        failed = f"{type(error).__name__}: {error}"
    return {
        "sums": ranks.meet(ranks.rank, 1),
        "any": [ranks.any(ranks.rank == 1), ranks.any(False)],
        "told": ranks.from_first({"rank": ranks.rank}),
        "each": ranks.each("x" * ranks.rank),
        "by_first": ranks.by_first(lambda: ranks.rank),
        "clock": ranks.now(),
        "added": [tensor.tolist() for tensor in gradients],
        "failed": failed,
    }


def test_ranks_sum_and_tell_each_other() -> None:
    one, two = on_ranks(2, told)
    assert one["failed"] == "InputError: no room" and two.pop("failed").endswith("the first rank failed: no room")
    assert {key: value for key, value in one.items() if key != "failed"} == two
    assert two["sums"] == [1, 2] and two["any"] == [True, False] and two["told"] == {"rank": 0}
    assert two["each"] == ["", "x"] and two["by_first"] == 0
    assert two["added"] == [[3.0] * 3, [[2.0, 2.0]] * 2, 4.0]


def dies() -> str:
    ranks = join()
    if ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        ranks.meet()
    except RunError as error:
        return str(error)
    return "nothing was noticed"


def test_a_rank_that_died_is_noticed() -> None:
    assert on_ranks(2, dies)[0].startswith("another rank has ended")


class Few(ToyTask):
    """Every third batch has a single row."""

    def batch(self, step: int, micro: int = 0) -> Any:
        whole = super().batch(step, micro)
        rows = 1 if step % 3 == 1 else 4
        return type(whole)({"tokens": whole.inputs["tokens"][:rows]}, whole.targets[:rows])


class AskedOnOne(ToyTask):
    """A scheduler signals one rank alone, in a step."""

    def batch(self, step: int, micro: int = 0) -> Any:
        if step == 3 and os.environ.get("RANK") == "1":
            os.kill(os.getpid(), signal.SIGTERM)
        return super().batch(step, micro)


class Poisoned(ToyTask):
    """The loss of one row of a step is not finite: the last row, which is rank 1's."""

    def batch(self, step: int, micro: int = 0) -> Any:
        whole = super().batch(step, micro)
        marked = torch.tensor([0, 0, 0, 50 if step == 3 else 0])[:, None]
        return replace(whole, targets=whole.targets + marked)

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        loss = super().loss(model, replace(batch, targets=batch.targets % 50))
        return loss * float("nan") if bool((batch.targets >= 50).any()) else loss


class Compared(ToyTask):
    """It can be compared with a teacher."""

    soft_targets = SoftTargets(lambda task, model: iter([task._counting(10**6)]))


def learning() -> Any:
    """A task that a model of another seed teaches."""
    return taught(Compared(), Teacher(ToyModel(seed=5), 2.0, 0.5, {"sha256": "of the seed 5"}))


TASKS: dict[str, Any] = {
    "plain": ToyTask, "few": Few, "asked": AskedOnOne, "poisoned": Poisoned, "taught": learning,
}  # fmt: skip


def trained(cases: list[tuple[str, str, bool, dict[str, Any]]]) -> list[Any]:
    """Runs one after another in one group: (task, folder, resume, settings) -> what is known of each."""
    ranks, found = join(), list[Any]()
    for task, folder, resume, given in cases:
        try:
            result = run(Path(folder), task=TASKS[task](), resume=resume, **given)
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
            continue
        weights = {name: tensor.tolist() for name, tensor in result.model.state_dict().items()}
        found.append((result.steps, result.exit_status, dict(result.scores), weights, result.first == ranks.first))
    return found


@pytest.mark.slow
def test_two_ranks_train_as_one_process_does(tmp_path: Path) -> None:
    plain = {"steps": 8, "evaluate_every": 4, "checkpoint_every": 4}
    cases: list[tuple[str, str, bool, dict[str, Any]]] = []
    for optimizer in ("muon", "adamw"):
        cases.append(("plain", f"{tmp_path}/{optimizer}", False, {**plain, "optimizer": optimizer, "average": 0.5}))
    cases += [
        ("few", f"{tmp_path}/few", False, {**plain, "accumulate": 2}),
        ("asked", f"{tmp_path}/half", False, plain),
        ("plain", f"{tmp_path}/half", True, plain),
        ("plain", f"{tmp_path}/whole", False, plain),
        ("asked", f"{tmp_path}/asked", False, plain),
        ("poisoned", f"{tmp_path}/broken", False, plain),
        ("poisoned", f"{tmp_path}/skipped", False, {**plain, "on_not_finite": "skip"}),
        ("plain", f"{tmp_path}/bf16", False, {**plain, "precision": "bf16"}),
        ("plain", f"{tmp_path}/muon", False, plain),
        ("taught", f"{tmp_path}/taught", False, {**plain, "accumulate": 2}),
    ]
    one, two = on_ranks(2, trained, cases)
    assert not isinstance(one, str), one
    for first, second in zip(one, two, strict=True):
        if not isinstance(first, str):
            assert first == second  # all ranks end with the same weights and scores
    for name, given in (("muon", {"average": 0.5}), ("adamw", {"optimizer": "adamw", "average": 0.5}),
                        ("few", {"accumulate": 2}), ("taught", {"accumulate": 2})):  # fmt: skip
        task = TASKS.get(name, ToyTask)()
        alone = run(tmp_path / f"{name}-alone", task=task, **{**plain, **given}, micro_batches=2)
        ours = load_file(tmp_path / name / "last/weights.safetensors")
        for key, tensor in load_file(tmp_path / f"{name}-alone/last/weights.safetensors").items():
            if key != "seen":  # of passes, of which each rank makes its own
                torch.testing.assert_close(ours[key], tensor, rtol=1e-4, atol=1e-5)
        assert alone.units == 8 * 32 * given.get("accumulate", 1) or name == "few"
    assert same(tmp_path / "half/last", tmp_path / "whole/last")  # on the same number of ranks, bit for bit
    assert [one[6][:2], two[6][:2]] == [(4, 75), (4, 75)]
    assert "is not a finite number" in one[7] and "on rank 1" in one[7] and one[7].startswith("NotFinite: rank 0 of 2")
    assert "step 4" in one[7] and two[7].startswith("NotFinite: rank 1 of 2")
    assert one[8][0] == 8 and [e["event"] for e in read_log(tmp_path / "skipped/log.jsonl")].count("not finite") == 1
    assert one[9][0] == 8
    assert "holds a run already" in one[10] and "the first rank failed" in two[10]
    config = yaml.safe_load((tmp_path / "muon/config.yaml").read_text())
    assert config["parallel"] == "auto" and RunFolder(tmp_path / "muon").manifest()["ranks"] == 2
    assert run(tmp_path / "asked", resume=True, **plain).steps == 8  # by one process
    ours, theirs = (load_file(tmp_path / name / "last/weights.safetensors") for name in ("asked", "whole"))
    assert yaml.safe_load((tmp_path / "asked/config.yaml").read_text())["micro_batches"] == 2
    for key in ours.keys() - {"seen"}:
        torch.testing.assert_close(ours[key], theirs[key], rtol=1e-4, atol=1e-5)
