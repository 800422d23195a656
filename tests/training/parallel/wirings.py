"""One step of training of each entry of the gallery, by two ranks together and by one process."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tests.invariants.harness import built, inputs, loss_of, randomize
from tests.training.parallel.splits import even
from tests.training.toy import ToyTask
from transformula.errors import TransformulaError
from transformula.model import build
from transformula.tasks.base import Batch
from transformula.training import TrainingSettings, start, train
from transformula.training.parallel.world import join, leave
from transformula.words.attention import DotAttention

ROWS = 3  # of which one rank has two
GIVEN = {
    "steps": 1, "optimizer": "adamw", "lr": 0.01, "precision": "float32", "device": "cpu", "threads": 1,
}  # fmt: skip


class Wired(ToyTask):
    """Some loss of all that an entry returns. Its batches go on where a model says `carry`, as a text's do."""

    carries = True

    def __init__(self, name: str) -> None:
        super().__init__(batch=ROWS)
        self.wiring = name

    def batch(self, step: int, micro: int = 0) -> Batch:
        return Batch(inputs(self.wiring, ROWS), torch.zeros(ROWS, 1, dtype=torch.long))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return loss_of(model(**batch.given))


@contextmanager
def a_step_alone() -> Iterator[list[Any]]:
    """Within it a run ends after its first step, before its float64 weights would be written; yields what it would
    have told of it, and the model."""
    steps, whole = list[Any](), start._to_its_end

    def once(trainer: Any, *given: Any) -> Any:
        trainer.state.weights.publish()
        trainer.meter.take = steps.append
        trainer.step()
        trainer.state.gather()
        steps.append(trainer.state.weights.master)

    start._to_its_end = once
    try:
        yield steps
    finally:
        start._to_its_end = whole


def divisible(name: str) -> nn.Module:
    """An entry at a size whose numbers two ranks divide. Inside of its split words nothing is dropped: there each rank
    draws numbers of its own."""
    model = randomize(build(even(name), dtype=torch.float64))
    for module in model.modules():
        if isinstance(module, DotAttention):
            module.settings, module.made_with = module.evaluated, {**module.made_with, "dropout": 0}
    return model


def step(name: str, folder: Path, split: bool = False, **given: Any) -> dict[str, Tensor] | str:
    """What an entry holds after a step, in float64, with what the step tells; the error where it is refused.

    split  the entry at a size that tensor parallelism can split
    """
    model = divisible(name) if split else copy.deepcopy(built(name))
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    try:
        with a_step_alone() as steps:
            train(Wired(name), model, TrainingSettings.read({**GIVEN, **given}), folder, quiet=True)
    except TransformulaError as error:
        return f"{error.message}{' after its folder was made' * folder.exists()}"
    made, trained = steps
    after = trained.state_dict()
    assert made.loss > 0 and made.norm > 0 and any(not torch.equal(before[key], t) for key, t in after.items())
    numbers = {"loss": made.loss, "gradient": made.norm, **made.named, **made.measures}
    told = {f"told: {key}": torch.tensor(value, dtype=torch.float64) for key, value in numbers.items()}
    return {**after, **told}


def in_layouts(names: list[str], folder: str, layouts: list[str], split: bool) -> dict[str, dict[str, Any]]:
    """On each rank, of each layout: what became of each entry by both together, and how far that is, of every second
    entry, from what this process makes alone."""
    ranks = join()
    together = {
        layout: {name: step(name, Path(folder, layout, name), split, parallel=layout) for name in names}
        for layout in layouts
    }
    leave()
    parts = 1 if split else 2
    alone = {
        name: step(name, Path(folder, f"{name}-alone"), split, micro_batches=parts) for name in names[ranks.rank :: 2]
    }
    return {
        layout: {
            "sums": {name: made if isinstance(made, str) else sums(made) for name, made in found.items()},
            "apart": {name: apart(made, found[name]) for name, made in alone.items()},
        }
        for layout, found in together.items()
    }


def sums(made: dict[str, Tensor]) -> float:
    """One number by which ranks that hold something else are found."""
    return sum(float(tensor.double().sum()) for tensor in made.values())


def apart(alone: Any, together: Any) -> dict[str, float]:
    """What differs by more than rounding, by how much; {} where both are refused."""
    if isinstance(alone, str) or isinstance(together, str):
        return {} if type(alone) is type(together) else {"refused": 1.0}
    if alone.keys() != together.keys():
        return {"names": 1.0}
    far = {
        key: float((alone[key].double() - together[key].double()).abs().max()) for key in alone if alone[key].numel()
    }
    return {key: value for key, value in far.items() if not value <= 1e-8}
