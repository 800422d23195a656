"""Padding changes nothing: a row beside longer ones gives what it gives alone, in every family."""

from __future__ import annotations

import pytest
import torch

from tests.invariants import checks
from tests.invariants.harness import CAUSAL, built, chunk_of, close, every_day, fixed_inputs, inputs, inputs_read
from transformula import gallery


def ordered(name: str) -> dict[str, torch.Tensor]:
    """Three rows of inputs; an order of positions (`rank`) is one of the real positions too."""
    given = inputs(name, 3)
    if "rank" in given:
        given["rank"] = torch.arange(7).flip(0).expand(3, 7)
    for marker in checks.marked(built(name)):  # a row that is too short for all positions of the image has none
        short = torch.tensor(checks.LENGTHS["tokens"])[:, None] < 7
        given["tokens"] = given["tokens"].masked_fill(short & (given["tokens"] == marker), 0)
    return given


def padded(name: str) -> list[str]:
    """The entry's inputs that can be padded."""
    return [key for key in ("source", "tokens") if key in inputs_read(name)]


@pytest.mark.parametrize("name", every_day(n for n in gallery.names() if padded(n)))
def test_padding_changes_nothing(name: str) -> None:
    checks.padding(built(name), ordered(name))


@pytest.mark.parametrize("name", [n for n in gallery.names() if n in CAUSAL and "source" in inputs_read(n)])
def test_decoding_beside_padded_sources(name: str) -> None:
    model, given = built(name), inputs(name, 3)
    lengths = torch.tensor(checks.LENGTHS["source"])
    with torch.no_grad():
        whole = model(**given, lengths={"source": lengths})
        decoding = model.start(3, 7, lengths={"source": lengths}, **fixed_inputs(name, given))
        rows = torch.arange(3)
        for at in range(7):
            if at == 4:  # rows change places, as in a search
                rows = torch.tensor([1, 1, 0])
                decoding.select(rows)
            piece = {key: value[rows] for key, value in chunk_of(name, given, at, at + 1).items()}
            close(model.step(decoding=decoding, **piece), whole[rows, at : at + 1])


@pytest.mark.parametrize("name", every_day(n for n in gallery.names() if padded(n)))
def test_what_lies_in_the_padding_is_not_read(name: str) -> None:
    checks.padding_unread(built(name), ordered(name))
