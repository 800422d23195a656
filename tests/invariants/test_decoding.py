"""Step-by-step decoding is one pass over the whole: single steps, chunks, prompts of different lengths in one batch."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.invariants.harness import LENGTH, built, close, parts, tokens
from transformula import gallery


@pytest.mark.parametrize("name", gallery.names())
def test_steps_and_chunks(name: str) -> None:
    model, ids = built(name), tokens(2)
    with torch.no_grad():
        whole = model(ids)
        for sizes in (itertools.repeat(1), iter((3, 1, 2, 1)), iter((5, 2))):
            decoding = model.start(2, LENGTH)
            made = [model.step(ids[:, begin:end], decoding) for begin, end in parts(LENGTH, sizes)]
            close(torch.cat(made, 1), whole)


@pytest.mark.parametrize("name", gallery.names())
def test_prompts_of_different_lengths(name: str) -> None:
    """Chunks are padded on the right with ids that mean something; `new` says how many are real."""
    model, ids = built(name), tokens(3)
    lengths = torch.tensor([2, 5, 3])
    with torch.no_grad():
        whole = model(ids)
        decoding = model.start(3, LENGTH)
        prompts = torch.where(torch.arange(5) < lengths[:, None], ids[:, :5], (ids[:, :5] + 3) % 19)
        first = model.step(prompts, decoding, new=lengths)
        for row, length in enumerate(lengths.tolist()):
            close(first[row, :length], whole[row, :length])
        now = lengths.clone()
        for chunk in (1, 1):
            given = torch.stack([ids[row, at : at + chunk] for row, at in enumerate(now.tolist())])
            made = model.step(given, decoding)
            for row, at in enumerate(now.tolist()):
                close(made[row], whole[row, at : at + chunk])
            now = now + chunk
        kept = torch.tensor([2, 0, 2])
        decoding.select(kept)
        given = torch.stack([ids[row, now[row] : now[row] + 1] for row in kept.tolist()])
        made = model.step(given, decoding)
        for place, row in enumerate(kept.tolist()):
            close(made[place], whole[row, now[row] : now[row] + 1])
