"""`ngrams`: by hand, step by step in chunks of any size and with padding, and no further back than it says."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.words.helpers import make, random_weights
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary
from transformula.words.embed import FACTOR, PRIME

MODEL = """
width: 8
depth: 1
heads: 2
vocab: 11
before: x = embed.words(tokens) + ngrams(tokens, 2, rows=13) + ngrams(tokens, 4, rows=7)
layer: x = x + attention(norm(x))
after: x = norm(x)
"""


def built(text: str, dtype: torch.dtype = torch.float64) -> Any:
    return random_weights(build(check(read_text(text), vocabulary()), dtype=dtype)).eval()


@pytest.mark.parametrize("n", [2, 3, 5])
def test_equation(n: int) -> None:
    module, _ = make("ngrams", {"tokens": 1}, n=n, rows=101, size=4)
    tokens = torch.randint(50_000, (2, 7))
    y = random_weights(module)(tokens)
    for row in range(2):
        for i in range(7):
            ids = [int(tokens[row, i - k]) + 1 if i >= k else 0 for k in range(n)]
            code = sum(each * FACTOR**k for k, each in enumerate(ids)) % PRIME % 101
            assert torch.equal(y[row, i], module.weight[code])


@pytest.mark.parametrize("rows", [10_000, 30_000, 50_000])
def test_pairs_share_rows_no_more_often_than_by_chance(rows: int) -> None:
    module, _ = make("ngrams", {"tokens": 1}, n=2, rows=rows, size=1)
    module.weight.data = torch.arange(rows, dtype=torch.float32)[:, None]
    pairs = torch.cartesian_prod(torch.arange(100), torch.arange(100))
    by_chance = rows * (1 - math.exp(-len(pairs) / rows))
    assert module(pairs)[:, 1].unique().numel() > 0.95 * by_chance


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_decoding_keeps_the_last_tokens(dtype: torch.dtype) -> None:
    model = built(MODEL, dtype)
    tokens = torch.randint(11, (3, 9))
    whole = model(tokens)
    decoding = model.start(3, 9)
    steps = [model.step(tokens[:, a:b], decoding) for a, b in ((0, 1), (1, 2), (2, 7), (7, 9))]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0.05, atol=0.05)
    if dtype == torch.float64:
        torch.testing.assert_close(torch.cat(steps, 1), whole)


def test_rows_of_a_batch_stand_at_different_positions() -> None:
    model = built(MODEL)
    tokens, lengths = torch.randint(11, (3, 7)), torch.tensor([5, 1, 3])
    decoding = model.start(3, 7)
    first = model.step(tokens[:, :5], decoding, new=lengths)
    after = torch.stack([row[n : n + 2] for row, n in zip(tokens, lengths.tolist(), strict=True)])
    second = model.step(after, decoding)
    whole = model(tokens)
    for row, n in enumerate(lengths.tolist()):
        torch.testing.assert_close(first[row, :n], whole[row, :n])
        torch.testing.assert_close(second[row], whole[row, n : n + 2])


def test_padding_changes_nothing_where_all_is_seen() -> None:
    model = built(MODEL + "causal: false\n")
    tokens, lengths = torch.randint(11, (2, 6)), torch.tensor([6, 3])
    together = model(tokens, lengths={"tokens": lengths})
    torch.testing.assert_close(together[1, :3], model(tokens[1:, :3])[0])
