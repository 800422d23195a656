"""How several processes share one model: which layout, and why.

ddp         each rank holds the whole model, and makes a part of every batch
fsdp        each rank holds a part of all weights, gradients, and what the optimizer keeps, and makes a part of
            every batch (FSDP2)
tp=2        two ranks hold a part of each matrix, and make the batch together (tensor parallelism)
fsdp,tp=2   both: two ranks share each matrix, and pairs of ranks share the batch
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from ...analysis.parallel_text import parallel_of
from ...cost.machine import cores, device_memory
from ...cost.memory import of_parameters
from ...cost.words import bytes_in_words
from ...errors import ConfigError
from ...model.transformer import Transformer
from ..adapters import Trainable
from ..optimizer import numbers_of
from ..optimizers import keeps_of
from ..settings import TrainingSettings
from .world import Ranks

AUTO, NONE, DDP, FSDP = "auto", "none", "ddp", "fsdp"
DDP_MEMORY_SHARE = 0.5  # of a rank's memory, for these, in ddp; the rest is for the forward pass


@dataclass(frozen=True)
class RankLayout:
    """How ranks share a model.

    data    none, ddp, or fsdp
    tensor  how many ranks share each matrix
    """

    data: str = NONE
    tensor: int = 1

    @property
    def divided(self) -> bool:
        """Whether a rank holds only a part of the weights."""
        return self.data == FSDP or self.tensor > 1

    def __str__(self) -> str:
        parts = [self.data] if self.data != NONE or self.tensor == 1 else []
        return ",".join([*parts, *([f"tp={self.tensor}"] if self.tensor > 1 else [])])


def choose_layout(
    settings: TrainingSettings, ranks: Ranks, model: nn.Module, trained: Trainable, device: torch.device
) -> tuple[RankLayout, str]:
    """The layout, and a line that says so with its reason; "" where one process trains and nothing else was asked for.

    Raises ConfigError for what does not go together.
    """
    asked = settings.parallel
    if not ranks.grouped:
        wanted = asked not in (AUTO, NONE)
        return (
            RankLayout(),
            f"parallel: none, since one process trains ({asked} is for several: torchrun)" if wanted else "",
        )
    if asked == NONE and ranks.several:
        what = f"{ranks.size} processes have joined already, and each was to train by itself"
        raise ConfigError(f"parallel: {what}; say --parallel none from the start of the process")
    if asked in (AUTO, NONE, DDP):
        layout, why = choose_by_size(asked, settings, ranks, trained, device)
    else:
        layout, why = read_layout(asked, ranks), "each rank holds a part of the weights"
    if layout.divided:
        check_divided(layout, settings, model)
    return layout, f"parallel: {layout} on {ranks.size} ranks: {why}" if ranks.several or layout.divided else ""


def choose_by_size(
    asked: str, settings: TrainingSettings, ranks: Ranks, trained: Trainable, device: torch.device
) -> tuple[RankLayout, str]:
    """ddp where a rank has room for the weights, gradients, and what the optimizer keeps; else fsdp."""
    if not ranks.several:
        return RankLayout(), ""
    needed = of_parameters(numbers_of(trained.parameters), keeps_of(settings.optimizer)).total
    room = device_memory(device, ranks.place.local_size)
    why = "each rank holds the whole model, and makes its part of every batch"
    if asked == DDP or not room or needed <= DDP_MEMORY_SHARE * room or settings.lora is not None:
        return RankLayout(DDP), why
    what = f"weights, gradients, and the optimizer's state take {bytes_in_words(needed)}"
    return RankLayout(FSDP), f"{what}, more than half of the {bytes_in_words(room)} of a rank"


def read_layout(text: str, ranks: Ranks) -> RankLayout:
    """What `fsdp`, `tp=2` or `fsdp,tp=2` says. Raises ConfigError where the ranks do not divide so."""
    data, tensor = parallel_of(text)
    if ranks.size % tensor or (data == NONE and tensor != ranks.size):
        known = [n for n in range(2, ranks.size + 1) if ranks.size % n == 0]
        fitting = ", ".join([f"tp={ranks.size}", *(f"fsdp,tp={n}" for n in known[:-1])]) if known else "fsdp"
        raise ConfigError(f"parallel: {text} is not for {ranks.size} ranks; expected auto, ddp, fsdp, or {fitting}")
    return RankLayout(data, tensor)


def check_divided(layout: RankLayout, settings: TrainingSettings, model: nn.Module) -> None:
    """Raise ConfigError for what a model of which each rank holds a part cannot do."""
    mistakes: list[str] = []
    if settings.lora is not None:
        mistakes.append("an adapter changes a whole matrix; train with ddp, or without lora")
    if settings.fit:
        mistakes.append("a rank that runs out of memory would leave the others waiting; give micro_batches, not fit")
    if settings.loss_chunks > 1:
        mistakes.append("loss_chunks reads the output's weights outside of a pass of the model; leave it out")
    if any(getattr(one, "_compiled_call_impl", None) is not None for one in model.modules()):
        mistakes.append("this model is compiled; train with ddp, or do not compile it")
    if isinstance(model, Transformer) and "policy" in model.architecture.hooks:
        what = f"by its policy, {model.architecture.hooks['policy'].text}, ranks run other layers than each other"
        mistakes.append(f"{what}, and each layer is gathered from all; train with ddp")
    if layout.tensor > 1:
        from ...analysis.tensor_plan import tensor_plan

        if not isinstance(model, Transformer):
            mistakes.append("no formula made this model, so its matrices are not split; train with fsdp")
        elif reason := tensor_plan(model.architecture, layout.tensor).refusal():
            mistakes.append(f"{reason}; train with fsdp")
    if mistakes:
        raise ConfigError([f"parallel: {layout}: {what}" for what in mistakes])


def threads_of(ranks: Ranks) -> int:
    """The CPU threads of one of the ranks of a machine: its share of the cores."""
    return max(1, cores() // ranks.place.local_size)
