"""The output of a model for some positions at a time, so that its logits never stand in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from ..errors import InputError
from .dataflow import output_reads_more
from .transformer import Transformer, is_compiled, take_code

REMEDY = "leave loss_chunks out, and cut batches into micro_batches instead"


class Head(NamedTuple):
    """A model's output, apart from what comes before it.

    streams     what the output reads, each (batch, length, width)
    run         makes logits (1, positions, vocab) of such streams, (1, positions, width) each
    parameters  what the output has learned
    """

    streams: list[Tensor]
    run: Callable[..., Tensor]
    parameters: list[nn.Parameter]


def set_chunks(model: nn.Module, count: int) -> int:
    """Let losses be made in so many chunks of positions from here on; returns how many it was before.

    Raises InputError for a model whose output is not made position by position.
    """
    if not isinstance(model, Transformer):
        if count > 1:
            raise InputError(f"loss_chunks: no formula made this model, so its output is not known; {REMEDY}")
        return 1
    if count > 1:
        check_output(model)
    blueprint = model._blueprint
    before, blueprint.chunks = blueprint.chunks, count
    if before != count:
        take_code(model)
    return before


def check_output(model: Transformer) -> None:
    """Raise InputError unless each position of the output is made from what entered there, and from nothing else."""
    wrong = output_reads_more(model.architecture)
    if model.carry:
        wrong = "belongs to a model that says `carry`"
    elif is_compiled(model):
        wrong = "is compiled"
    if wrong:
        raise InputError(f"loss_chunks: the model's output {wrong}; {REMEDY}")


def head_of(model: nn.Module, given: Mapping[str, Any]) -> tuple[Head, int] | None:
    """What enters a model's output for these inputs, and the number of chunks; None where the model has no chunks."""
    count = model._blueprint.chunks if isinstance(model, Transformer) else 1
    if count == 1:
        return None
    assert isinstance(model, Transformer)
    runner: Any = model
    function = model._blueprint.functions[-1]
    paths = dict.fromkeys(value.called.path for value in model.architecture.output.calls())
    owners = [module for name, module in model.named_modules() if name in paths]
    parameters = {id(p): p for module in owners for p in module.parameters() if p.requires_grad}

    def run(*streams: Tensor) -> Tensor:
        logits: Tensor = function(model, *streams)
        return logits

    return Head(runner._entering(**given), run, [*parameters.values()]), count
