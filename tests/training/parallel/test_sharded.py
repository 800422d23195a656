"""Runs of which each rank holds a part of the model are runs of one process, and go on in any other layout."""

import errno
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file

from tests.training.ranks import on_ranks
from tests.training.test_loop import run, same
from tests.training.test_ranks import trained
from tests.training.toy import ToyTask
from transformula.runs.log import read_log
from transformula.training.parallel.world import join

PLAIN = {"steps": 8, "evaluate_every": 4, "checkpoint_every": 4}
FSDP = {**PLAIN, "parallel": "fsdp"}


def assert_close(folder: Path, other: Path) -> None:
    ours, theirs = (load_file(each / "last/weights.safetensors") for each in (folder, other))
    assert ours.keys() == theirs.keys()
    for key in ours.keys() - {"seen"}:  # of passes, of which each rank makes its own
        torch.testing.assert_close(ours[key], theirs[key], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_runs_that_are_divided_are_those_of_one_process(tmp_path: Path) -> None:
    cases: list[tuple[str, str, bool, dict[str, Any]]] = [
        ("plain", f"{tmp_path}/muon", False, {**FSDP, "average": 0.5}),
        ("plain", f"{tmp_path}/adamw", False, {**FSDP, "optimizer": "adamw", "average_checkpoints": 2}),
        ("few", f"{tmp_path}/few", False, {**FSDP, "accumulate": 2}),
        ("asked", f"{tmp_path}/half", False, FSDP),
        ("plain", f"{tmp_path}/half", True, FSDP),
        ("plain", f"{tmp_path}/whole", False, FSDP),
        ("asked", f"{tmp_path}/from-ddp", False, PLAIN),
        ("plain", f"{tmp_path}/from-ddp", True, FSDP),
        ("asked", f"{tmp_path}/to-ddp", False, FSDP),
        ("plain", f"{tmp_path}/to-ddp", True, {**PLAIN, "parallel": "ddp"}),
        ("asked", f"{tmp_path}/to-one", False, FSDP),
        ("poisoned", f"{tmp_path}/broken", False, FSDP),
        ("poisoned", f"{tmp_path}/back", False, {**FSDP, "on_not_finite": "rollback", "checkpoint_every": 2}),
        ("plain", f"{tmp_path}/bf16", False, {**FSDP, "precision": "bf16"}),
        ("plain", f"{tmp_path}/frozen", False, {**FSDP, "freeze": "embed"}),
        ("plain", f"{tmp_path}/lora", False, {**FSDP, "lora": "rank=1"}),
        ("plain", f"{tmp_path}/fit", False, {**FSDP, "fit": True}),
        ("plain", f"{tmp_path}/tp", False, {**FSDP, "parallel": "tp=2"}),
        ("plain", f"{tmp_path}/three", False, {**FSDP, "parallel": "fsdp,tp=3"}),
    ]
    one, two = on_ranks(2, trained, cases)
    assert not isinstance(one, str), one
    found = {Path(folder).name: (a, b) for (_, folder, _, _), a, b in zip(cases, one, two, strict=True)}
    for name, (first, second) in found.items():
        assert isinstance(first, str) or first == second, (name, first, second)
        assert isinstance(first, str) == (name in ("broken", "lora", "fit", "tp", "three")), (name, first)
    for name, given in (("muon", {"average": 0.5}), ("adamw", {"optimizer": "adamw", "average_checkpoints": 2})):
        run(tmp_path / f"{name}-alone", task=ToyTask(), **{**PLAIN, **given}, micro_batches=2)
        assert_close(tmp_path / name, tmp_path / f"{name}-alone")
    for name, shape in (("whole", "divided"), ("to-ddp", "plain")):  # each rank its part; one process's form
        newest = sorted((tmp_path / name / "checkpoints").iterdir())[-1]
        shards = sorted(path.name[:11] for path in (newest / "optimizer").glob("*"))
        assert shards == (["shard-00001", "shard-00002"] if shape == "divided" else []), name
        assert (newest / "weights.safetensors").exists() == (shape == "plain")
    assert same(tmp_path / "half/last", tmp_path / "whole/last")  # on as many ranks, bit for bit
    assert run(tmp_path / "to-one", resume=True, **PLAIN).steps == 8
    for name in ("from-ddp", "to-ddp", "to-one"):
        assert_close(tmp_path / name, tmp_path / "whole")
    assert "is not a finite number" in found["broken"][0] and "on rank 1" in found["broken"][0]
    assert [e["event"] for e in read_log(tmp_path / "back/log.jsonl")].count("not finite") == 1
    said = {name: found[name][0] for name in ("lora", "fit", "tp", "three")}
    assert "parallel: fsdp: an adapter changes a whole matrix" in said["lora"]
    assert "give micro_batches, not fit" in said["fit"] and "no formula made this model" in said["tp"]
    assert "fsdp,tp=3 is not for 2 ranks; expected auto, ddp, fsdp, or tp=2" in said["three"]
    assert not any((tmp_path / name).exists() for name in said)


def trained_on_a_full_disk(cases: list[tuple[str, int, dict[str, Any]]]) -> list[Any]:
    """Runs of which the second rank cannot write the checkpoint of some step."""
    from torch.distributed.checkpoint import filesystem

    second, write = not join().first, filesystem._write_files_from_queue
    found: list[Any] = []
    for folder, step, given in cases:

        def full(*of: Any, step: int = step, **named: Any) -> None:
            if second and f"step-{step:08d}" in str(named["file_queue"].queue):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "shard")
            write(*of, **named)

        with patch.object(filesystem, "_write_files_from_queue", full):
            found += trained([("plain", folder, False, given)])
    return found


@pytest.mark.slow
def test_a_rank_whose_disk_is_full(tmp_path: Path) -> None:
    """The run goes on and saves at the next checkpoint, or ends: all ranks alike."""
    cases = [(f"{tmp_path}/on", 4, FSDP), (f"{tmp_path}/stop", 4, {**FSDP, "on_save_error": "stop"})]
    cases += [(f"{tmp_path}/end", 8, FSDP)]
    on, stop, end = zip(*on_ranks(2, trained_on_a_full_disk, cases), strict=True)
    assert [steps for steps, *_ in on] == [8, 8]
    left = {name: sorted(path.name for path in (tmp_path / name / "checkpoints").iterdir()) for name in ("on", "end")}
    assert left == {"on": ["step-00000000", "step-00000008"], "end": ["step-00000000", "step-00000004"]}
    for first, other in (stop, end):
        assert "no space left on device (rank 1 of 2)" in first.lower() and "first rank failed" in other
    assert run(tmp_path / "on", resume=True, **{**PLAIN, "steps": 12}).steps == 12
