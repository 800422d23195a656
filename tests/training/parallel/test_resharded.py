"""A run that was saved on two ranks goes on on one and on four, and in other layouts: the same steps."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.training.parallel.splits import made
from tests.training.ranks import on_ranks
from tests.training.test_loop import run, same
from tests.training.toy import LENGTH, VOCAB, ToyTask
from transformula.model import build
from transformula.runs.log import read_log
from transformula.tasks.base import Batch
from transformula.training.parallel.world import join

SAVED, STEPS = 5, 55
GIVEN = {
    "optimizer": "adamw", "lr": 1e-3, "lr_schedule": "constant", "warmup": 0, "log_every": 1, "evaluate_every": 100,
    "batch": 4,
}  # fmt: skip


class Seen(ToyTask):
    """Notes the rows of the batches whose loss is made in training."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int, ...]] = []

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if model.training and torch.is_grad_enabled():
            self.rows += [tuple(row) for row in batch.inputs["tokens"].tolist()]
        return super().loss(model, batch)


def model() -> nn.Module:
    layer = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
    return build(made(layer, width=16, heads=2, vocab=VOCAB, context=LENGTH))


def trained(folder: str, layout: str, first: str = "", steps: int = STEPS) -> list[tuple[int, ...]]:
    """Train on the ranks that are here, on from a copy of the run `first` if one is named; gives the rows that this
    rank has seen."""
    ranks, task = join(), Seen()
    if first:
        ranks.by_first(lambda: shutil.copytree(first, folder) and None)
    run(Path(folder), task=task, model=model(), resume=bool(first), steps=steps, **GIVEN, parallel=layout)
    return task.rows


def all_trained(cases: list[tuple[Any, ...]]) -> list[Any]:
    return [trained(*case) for case in cases]


def losses(folder: Path) -> Tensor:
    rows = [event["loss"] for event in read_log(folder / "log.jsonl") if event["event"] == "step"]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.slow
def test_a_run_goes_on_on_other_ranks_and_in_other_layouts(tmp_path: Path) -> None:
    """On one and four ranks, from DDP to FSDP2 and tensor parallelism and back: the same rows in each step, and losses
    within 1e-5 of those of the run that was not stopped, for 50 steps; in the same layout, bit for bit."""
    at, cache = (lambda name: str(tmp_path / name)), {"TRANSFORMULA_CACHE": str(tmp_path / "cache")}
    layouts = {"ddp": "ddp", "fsdp": "fsdp", "tp": "tp=2"}
    on_two: list[tuple[Any, ...]] = [(at(f"{name} first"), layout, "", SAVED) for name, layout in layouts.items()]
    on_two += [(at(f"{name} whole"), layout) for name, layout in layouts.items()]
    on_two += [(at(f"{a} to {b}"), layouts[b], at(f"{a} first")) for a in layouts for b in layouts]
    two = on_ranks(2, all_trained, on_two, **cache)
    assert all(isinstance(each, list) for each in two), two
    on_four = [("fsdp", "fsdp"), ("ddp", "fsdp"), ("fsdp", "ddp"), ("ddp", "fsdp,tp=2")]
    cases = [(at(f"{a} to four {b}"), b, at(f"{a} first")) for a, b in on_four]
    four = on_ranks(4, all_trained, cases, **cache)
    assert all(isinstance(each, list) for each in four), four
    alone = {}
    for name in layouts:
        task = Seen()
        shutil.copytree(at(f"{name} first"), at(f"{name} to one"))
        run(tmp_path / f"{name} to one", task=task, model=model(), resume=True, steps=STEPS, **GIVEN)
        alone[name] = task.rows
    expected = losses(tmp_path / "ddp whole")
    assert len(expected) == STEPS and expected[-1] < expected[0] - 0.1
    runs = sorted(path.name for path in tmp_path.iterdir() if " to " in path.name or path.name.endswith("whole"))
    assert len(runs) == 3 + 9 + 4 + 3
    for name in runs:
        torch.testing.assert_close(losses(tmp_path / name), expected, rtol=1e-5, atol=0, msg=name)
    for name in layouts:
        assert same(tmp_path / f"{name} to {name}" / "last", tmp_path / f"{name} whole" / "last")
    rows = {Path(case[0]).name: sorted(row for rank in two for row in rank[n]) for n, case in enumerate(on_two)}
    rows |= {Path(case[0]).name: sorted(row for rank in four for row in rank[n]) for n, case in enumerate(cases)}
    later = sorted(alone["ddp"])
    assert len(later) == 4 * (STEPS - SAVED) and alone["ddp"] == alone["fsdp"] == alone["tp"]
    for name in (name for name in rows if " to " in name):
        times = 2 if "tp" in name.partition(" to ")[2] else 1  # ranks that share a matrix see the same rows
        assert rows[name] == sorted(later * times), name
