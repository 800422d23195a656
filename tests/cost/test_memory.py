"""What an optimizer keeps stands at the optimizer: its record is true, and every estimate of memory asks it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter

import pytest
import torch

from tests.rules import classes, trees
from tests.training.toy import ToyModel, ToyTask
from transformula import plan
from transformula.api import room
from transformula.api.reading import check_model
from transformula.comparison.costs import costs_of, prepare
from transformula.cost.memory import FLOAT, of_parameters
from transformula.data.settings import DataSettings
from transformula.errors import InputError
from transformula.training.adapters import choose_trained
from transformula.training.memory_notice import bound_of_step
from transformula.training.optimizer import numbers_of, optimizers, parameters_of
from transformula.training.optimizers import keeps_of
from transformula.training.parallel import layout
from transformula.training.parallel.place import RankPlace
from transformula.training.parallel.world import Ranks
from transformula.training.settings import TrainingSettings

MUCH = 1000  # numbers of each of a parameter


@pytest.fixture
def hoarding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Muon, the usual optimizer, says that it keeps much."""
    record = {"keeps": dict.fromkeys(("matrix", "table", "vector"), MUCH)}
    monkeypatch.setitem(optimizers._records, "muon", record)
    assert keeps_of("muon")["matrix"] == MUCH and keeps_of("adamw")["matrix"] < MUCH


@pytest.mark.parametrize("name", optimizers.names())
def test_a_record_says_what_the_optimizer_keeps(name: str) -> None:
    model, kept = ToyModel(), Counter[str]()
    parameters = parameters_of(model)
    optimizer = optimizers.get(name)(parameters, TrainingSettings())
    for parameter in parameters:
        parameter.tensor.grad = torch.ones_like(parameter.tensor)
    optimizer.step(1e-3)
    roles = {parameter.name: parameter.role for parameter in parameters}
    for key, tensor in optimizer.tensors().items():
        kept[roles[key.rpartition("/")[0]]] += tensor.numel() if tensor.ndim else 0  # not a count of steps
    numbers = numbers_of(parameters)
    assert kept == {role: keeps_of(name)[role] * count for role, count in numbers.items()}
    assert of_parameters(numbers, keeps_of(name)).optimizer == FLOAT * kept.total()


def test_records_are_read_without_torch_and_are_those_of_the_classes() -> None:
    program = (
        "import sys\nfrom transformula.training.optimizers import keeps_of, optimizers\n"
        "print([keeps_of(name) for name in optimizers.records()])\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    optimizers.names()
    assert ast.literal_eval(done.stdout) == [dict(keeps_of(name)) for name in optimizers.records()]


def test_an_optimizer_without_a_record_counts_as_adamw() -> None:
    assert keeps_of("of another package") == keeps_of("adamw")


def test_of_parameters() -> None:
    held = of_parameters({"matrix": 100, "table": 10}, {"matrix": 1, "table": 2}, averaged=True)
    assert (held.weights, held.gradients, held.averages, held.optimizer) == (440, 440, 440, 480)
    assert held.total == 1800 and of_parameters({"matrix": 100}, {"matrix": 1}).averages == 0


@pytest.mark.usefixtures("hoarding")
def test_a_plan_asks() -> None:
    given = {"tokens": "1B", "gpu": "h100", "gpus": 8, "depth": 2, "parallel": "ddp"}
    with pytest.raises(InputError, match="no layout fits"):
        plan("gpt2", **given)
    assert plan("gpt2", optimizer="adamw", **given).chosen.fits


@pytest.mark.usefixtures("hoarding")
def test_a_comparison_asks() -> None:
    config = {"model": "pre-norm", "task": "copy", "depth": 2, "width": 64, "heads": 2, "batch_tokens": 64}
    muon, adamw = (costs_of(prepare({**config, "optimizer": name}), 1) for name in ("muon", "adamw"))
    assert muon.memory_bytes - adamw.memory_bytes == pytest.approx(FLOAT * (MUCH - 2) * muon.parameters)


@pytest.mark.usefixtures("hoarding")
def test_the_room_of_a_run_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    model, settings = check_model("pre-norm", {"depth": 2, "width": 64, "heads": 2, "vocab": 256}), TrainingSettings()
    monkeypatch.setattr(room, "machine_memory", lambda: 50 << 20)
    with pytest.raises(InputError, match="and what the optimizer keeps .* and this machine has 50 MiB"):
        room.check_room(model, settings, DataSettings())
    room.check_room(model, settings.model_copy(update={"optimizer": "adamw"}), DataSettings())


@pytest.mark.usefixtures("hoarding")
def test_a_layout_of_several_processes_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    model, ranks = ToyModel(), Ranks(RankPlace(size=2, local_size=2))
    monkeypatch.setattr(layout, "device_memory", lambda *_: 1 << 20)
    found = []
    for name in ("muon", "adamw"):
        settings = TrainingSettings(optimizer=name)
        trained = choose_trained(model, settings)
        found.append(layout.choose_by_size("auto", settings, ranks, trained, torch.device("cpu")))
    assert [one.data for one, _ in found] == ["fsdp", "ddp"] and "optimizer's state take" in found[0][1]


@pytest.mark.usefixtures("hoarding")
def test_the_bound_of_a_step_asks() -> None:
    model, part = ToyModel(), ToyTask().batch(0, 0)
    muon, adamw = (bound_of_step(model, part, TrainingSettings(optimizer=name)) for name in ("muon", "adamw"))
    assert muon - adamw == FLOAT * (MUCH - 2) * sum(p.numel() for p in model.parameters())


def test_all_estimates_have_one_structure() -> None:
    """No other class has gradients and what an optimizer keeps as parts, and one file alone counts what words cost."""
    parts = {"gradients", "optimizer"}
    fields = {
        (path, node.name): {ast.unparse(one.target) for one in node.body if isinstance(one, ast.AnnAssign)}
        for path, node in classes()
    }
    assert [place for place, names in fields.items() if parts <= names] == [("cost/memory.py", "Moment")]
    counting = {
        path
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and any(ast.unparse(one).endswith((".word.flops", ".word.saved", ".word.state")) for one in node.args)
    }
    assert counting == {"analysis/accounting.py"}


def test_no_other_file_knows_what_an_optimizer_keeps() -> None:
    """No table by the names of optimizers, no names of AdamW's moments, and no record but at an optimizer."""
    names, found, asking = {*optimizers.records()}, set(), set()
    for path, tree in trees().items():
        for node in ast.walk(tree):
            keys = [ast.unparse(key) for key in node.keys if key] if isinstance(node, ast.Dict) else []
            moments = isinstance(node, ast.Constant) and str(node.value).startswith("exp_avg")
            if moments or {key.strip("'") for key in keys} & {*names, "keeps"}:
                found.add(path)
            if isinstance(node, ast.Name) and node.id == "keeps_of":
                asking.add(path)
    assert found == {f"training/optimizers/{name}.py" for name in names}
    assert asking == {
        "api/planning.py", "api/room.py", "comparison/costs.py", "training/fit.py", "training/memory_notice.py",
        "training/parallel/layout.py",
    }  # fmt: skip
