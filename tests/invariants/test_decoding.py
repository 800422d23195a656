"""Step-by-step decoding is one pass over the whole: single steps, chunks, prompts of different lengths in one batch."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.invariants.harness import CAUSAL, LENGTH, built, chunk_of, close, fixed_inputs, inputs, parts


@pytest.mark.parametrize("name", CAUSAL)
def test_steps_and_chunks(name: str) -> None:
    model, given = built(name), inputs(name)
    with torch.no_grad():
        whole = model(**given)
        for sizes in (itertools.repeat(1), iter((3, 1, 2, 1)), iter((5, 2))):
            decoding = model.start(2, LENGTH, **fixed_inputs(name, given))
            pieces = [chunk_of(name, given, begin, end) for begin, end in parts(LENGTH, sizes)]
            made = [model.step(decoding=decoding, **piece) for piece in pieces]
            close(torch.cat(made, 1), whole)


@pytest.mark.parametrize("name", CAUSAL)
def test_prompts_of_different_lengths(name: str) -> None:
    """Chunks are padded on the right with ids that mean something; `new` says how many are real."""
    model, given = built(name), inputs(name, 3)
    fixed = fixed_inputs(name, given)
    growing = chunk_of(name, given, 0, LENGTH)
    lengths = torch.tensor([2, 5, 3])
    with torch.no_grad():
        whole = model(**given)
        decoding = model.start(3, LENGTH, **fixed)
        real = torch.arange(5) < lengths[:, None]
        prompts = {key: torch.where(real, ids[:, :5], ids[:, :5].flip(1)) for key, ids in growing.items()}
        first = model.step(decoding=decoding, new=lengths, **prompts)
        for row, length in enumerate(lengths.tolist()):
            close(first[row, :length], whole[row, :length])
        now = lengths.clone()

        def following(rows: list[int]) -> dict[str, torch.Tensor]:
            return {k: torch.stack([ids[r, now[r] : now[r] + 1] for r in rows]) for k, ids in growing.items()}

        for _ in range(2):
            made = model.step(decoding=decoding, **following([0, 1, 2]))
            for row, at in enumerate(now.tolist()):
                close(made[row], whole[row, at : at + 1])
            now = now + 1
        kept = torch.tensor([2, 0, 2])
        decoding.select(kept)
        made = model.step(decoding=decoding, **following(kept.tolist()))
        for place, row in enumerate(kept.tolist()):
            close(made[place], whole[row, now[row] : now[row] + 1])
