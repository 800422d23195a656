"""Padding changes nothing: a row beside longer ones gives what it gives alone, in every family."""

from __future__ import annotations

import pytest
import torch

from tests.invariants.harness import CAUSAL, built, chunk_of, close, fixed_inputs, inputs, inputs_read, outputs
from transformula import gallery

LENGTHS = {"tokens": (4, 7, 2), "source": (9, 3, 5)}
"""How many positions of each row are real."""


def padded(name: str) -> list[str]:
    """The entry's inputs that can be padded."""
    return [key for key in ("source", "tokens") if key in inputs_read(name)]


def cut(key: str, value: torch.Tensor, row: int) -> torch.Tensor:
    """One row of an input without its padding."""
    of = "tokens" if key in ("types", "targets", "document", "rank") else key
    return value[row : row + 1, : LENGTHS[of][row]] if of in LENGTHS else value[row : row + 1]


@pytest.mark.parametrize("name", [n for n in gallery.names() if padded(n)])
def test_padding_changes_nothing(name: str) -> None:
    model, given = built(name), inputs(name, 3)
    if "rank" in given:  # an order of the real positions
        given["rank"] = torch.arange(7).flip(0).expand(3, 7)
    lengths = {key: torch.tensor(LENGTHS[key]) for key in padded(name)}
    with torch.no_grad():
        together = outputs(model(**given, lengths=lengths))
        for row in range(3):
            alone = outputs(model(**{key: cut(key, value, row) for key, value in given.items()}))
            for one, all_rows in zip(alone, together, strict=True):
                close(all_rows[row, : one.shape[1]], one[0])


@pytest.mark.parametrize("name", [n for n in gallery.names() if n in CAUSAL and "source" in inputs_read(n)])
def test_decoding_beside_padded_sources(name: str) -> None:
    model, given = built(name), inputs(name, 3)
    lengths = torch.tensor(LENGTHS["source"])
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


@pytest.mark.parametrize("name", [n for n in gallery.names() if padded(n)])
def test_what_lies_in_the_padding_is_not_read(name: str) -> None:
    model, given = built(name), inputs(name, 3)
    if "rank" in given:
        given["rank"] = torch.arange(7).flip(0).expand(3, 7)
    lengths = {key: torch.tensor(LENGTHS[key]) for key in padded(name)}
    other = dict(given)
    for key, length in lengths.items():
        real = torch.arange(given[key].shape[1]) < length[:, None]
        other[key] = torch.where(real, given[key], (given[key] + 5) % 19)
    with torch.no_grad():
        before, after = outputs(model(**given, lengths=lengths)), outputs(model(**other, lengths=lengths))
        for one, two in zip(before, after, strict=True):
            for row in range(3):
                last = LENGTHS["tokens"][row] if one.shape[1] == given.get("tokens", one).shape[1] else one.shape[1]
                close(one[row, :last], two[row, :last])
