"""Conditional random fields against sums over every sequence of tags."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from transformula.errors import InputError
from transformula.tasks.chain import chain_marginals, chain_nll, viterbi
from transformula.tasks.span_schemes import allowed_moves

TAGS = ["O", "B-x", "I-x", "I-y"]
LENGTHS = [4, 1, 3]
ALLOWED = allowed_moves("bio", TAGS)
ALLOWED[0, 4] = False  # `O` may not come last
N = len(TAGS)


def potentials(dtype: torch.dtype = torch.float64) -> Tensor:
    y = torch.randn(3, 4, N * N, dtype=dtype, generator=torch.Generator().manual_seed(1)) * 2
    for row, length in enumerate(LENGTHS):
        y[row, length:] = 1e4  # padding holds anything
    return y


def by_hand(y: Tensor, length: int, allowed: Tensor | None) -> dict[tuple[int, ...], float]:
    """exp(s) of each sequence of tags that may be."""
    weights = {}
    for tags in itertools.product(range(N), repeat=length):
        moves = [(N, tags[0]), *itertools.pairwise(tags), (tags[-1], N)]
        if allowed is None or all(allowed[move] for move in moves):
            pairs = [(0, tags[0]), *itertools.pairwise(tags)]
            score = sum(float(y[t, i * N + j]) for t, (i, j) in enumerate(pairs))
            weights[tags] = float(torch.tensor(score, dtype=torch.float64).exp())
    return weights


@pytest.mark.parametrize("allowed", [None, ALLOWED], ids=["all", "bio"])
def test_against_every_sequence(allowed: Tensor | None) -> None:
    y, lengths = potentials(), torch.tensor(LENGTHS)
    best, marginals = viterbi(y, lengths, allowed), chain_marginals(y, lengths, allowed)
    for row, length in enumerate(LENGTHS):
        weights = by_hand(y[row], length, allowed)
        total = sum(weights.values())
        right = max(weights, key=lambda tags: weights[tags])
        assert best[row].tolist() == [*right, *[-100] * (4 - length)]
        for tags in list(weights)[:: max(1, len(weights) // 7)]:
            given = torch.tensor([*tags, *[-100] * (4 - length)])
            nll = chain_nll(y[row : row + 1], given[None], lengths[row : row + 1], allowed)
            torch.testing.assert_close(nll.exp(), torch.tensor([total / weights[tags]], dtype=torch.float64))
        for t, j in itertools.product(range(4), range(N)):
            share = sum(w for tags, w in weights.items() if t < length and tags[t] == j) / total
            assert float(marginals[row, t, j]) == pytest.approx(share, abs=1e-9)


def test_rows_alone_and_together_in_any_precision() -> None:
    y, lengths, tags = potentials(torch.float32), torch.tensor(LENGTHS), torch.ones(3, 4, dtype=torch.int64)
    together = chain_nll(y, tags, lengths, ALLOWED)
    for row, length in enumerate(LENGTHS):
        alone = chain_nll(y[row : row + 1, :length], tags[row : row + 1, :length], None, ALLOWED)
        torch.testing.assert_close(together[row : row + 1], alone)
    assert chain_nll(y.bfloat16(), tags, lengths).dtype == torch.float32


def test_gradients() -> None:
    lengths, tags = torch.tensor([2, 3]), torch.tensor([[1, 2, -100], [1, 1, 0]])
    y = torch.randn(2, 3, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: chain_nll(y, tags, lengths), y)
    y = potentials().requires_grad_()
    chain_nll(y, torch.ones(3, 4, dtype=torch.int64), torch.tensor(LENGTHS), ALLOWED).sum().backward()
    assert y.grad is not None and bool(y.grad.isfinite().all())
    assert all(y.grad[row, length:].abs().sum() == 0 for row, length in enumerate(LENGTHS))


def test_probabilities_in_inference() -> None:
    with torch.inference_mode():
        sums = chain_marginals(potentials(), torch.tensor(LENGTHS)).sum(-1)
    torch.testing.assert_close(sums, (torch.arange(4) < torch.tensor(LENGTHS)[:, None]).double())


def test_what_does_not_fit_says_so() -> None:
    tags = torch.zeros(3, 4, dtype=torch.int64)
    with pytest.raises(InputError, match=r"a square; these have 5.*transitions\(linear"):
        viterbi(torch.zeros(3, 4, 5))
    with pytest.raises(InputError, match="one tag a position"):
        chain_nll(potentials(), tags[:, :3])
    with pytest.raises(InputError, match="a tag from 0 to 3"):
        chain_nll(potentials(), tags - 100)
    with pytest.raises(InputError, match=r"they are \(5, 5\)"):
        viterbi(potentials(), None, torch.ones(4, 4, dtype=torch.bool))
