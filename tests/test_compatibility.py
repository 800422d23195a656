"""Runs, model folders, a configuration and a recipe of an earlier version open, go on and score as they did.

`compatibility/data/` holds what that version wrote; its README says how. A resume must log the same losses and end with
nearly the same weights: another CPU rounds differently, and where a gradient is 0 but for rounding, as that of a bias
of keys, Adam makes steps of it. That a resume ends with the same bits on one machine is tested in tests/training."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.compatibility.data.make import RUNS, STEPS, numbers, written
from tests.portions import every_third
from transformula import evaluate, reproduce, train

DATA = Path(__file__).parent / "compatibility" / "data"
RECORDED = DATA / "recorded"
GOLDEN = Path(__file__).parent / "golden" / "parameter_names.txt"


def recorded(name: str) -> Any:
    return json.loads((RECORDED / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the data in the current folder, and one thread."""
    folder = shutil.copytree(DATA, tmp_path_factory.mktemp("earlier") / "data")
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMULA_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        torch.set_num_threads(1)
        yield folder
        torch.set_num_threads(threads)


@pytest.mark.parametrize("name", every_third(RUNS))
def test_a_run_is_scored_resumed_and_scored_again(work: Path, name: str) -> None:
    then = recorded(f"{name}/numbers.json")
    assert numbers(evaluate(name, threads=1)) == pytest.approx(then["scores"]["killed"], rel=1e-4)

    train(resume=name, quiet=True)

    log = [json.loads(line) for line in (work / name / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    for event, kind in (("step", "losses"), ("evaluation", "validation")):
        losses = {str(row["step"]): row["loss"] for row in log if row["event"] == event}
        assert losses == pytest.approx(then[kind], rel=1e-4)
    now = load_file(work / name / "checkpoints" / f"step-{STEPS:08d}" / "weights.safetensors")
    weights = load_file(RECORDED / name / "weights.safetensors")
    assert now.keys() == weights.keys()
    apart, size = (torch.cat([t.double().flatten() for t in each]).norm() for each in (
        [now[key] - tensor for key, tensor in weights.items()], [*weights.values()],
    ))  # fmt: skip
    assert apart < 0.01 * size
    assert numbers(evaluate(name, threads=1)) == pytest.approx(then["scores"]["whole"], rel=1e-4)


@pytest.mark.parametrize("name", RUNS)
def test_a_model_folder_alone_writes_what_it_wrote(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(DATA / name / "best", tmp_path / name / "best")
    shutil.copytree(DATA / "pictures", tmp_path / "pictures")
    monkeypatch.chdir(tmp_path)
    assert written(name) == recorded(f"{name}/numbers.json")["written"]


def test_a_configuration_by_hand_trains(work: Path) -> None:
    run = train(config="config.yaml", quiet=True, out="by-hand")
    assert run.folder == Path("by-hand") and Path("by-hand/best/weights.safetensors").is_file()


def test_a_recipe_by_hand_is_reproduced(work: Path) -> None:
    assert reproduce("recipe.yaml", quiet=True, out="by-recipe").holds


def test_formulas_have_the_hashes_they_had() -> None:
    index = json.loads((files("transformula.gallery") / "index.json").read_text(encoding="utf-8"))
    then = recorded("formulas.json")
    assert {name: index.get(name, {}).get("hash") for name in then} == then


def test_parameters_have_the_names_they_had() -> None:
    blocks = re.findall(r"^(\S+):\n((?:  .*\n)+)", GOLDEN.read_text(encoding="utf-8"), flags=re.MULTILINE)
    now = {name: sha256(block.encode()).hexdigest()[:16] for name, block in blocks}
    then = recorded("parameters.json")
    assert {name: now.get(name) for name in then} == then
