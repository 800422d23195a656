"""One step of a search: the order of equals is a rule, blocks find what a whole sort finds."""

from __future__ import annotations

import pytest
import torch

from transformula.generation.candidates import (
    best_continuations,
    best_tokens,
    log_probabilities,
    repeated_ngrams,
    to_host,
)


@pytest.mark.parametrize("vocab", [3, 6, 700, 1024, 5000, 5011])
@pytest.mark.parametrize("count", [1, 2, 5, 16])
def test_the_best_tokens_are_those_of_a_stable_sort(vocab: int, count: int) -> None:
    ranking = torch.randn(20, vocab, generator=torch.Generator().manual_seed(vocab))
    ranking[1, vocab // 2 :] = float("-inf")
    tokens, _ = best_tokens(ranking, count)
    whole = ranking.sort(dim=-1, descending=True, stable=True).indices[:, :count]
    values = ranking.gather(1, tokens)
    assert torch.equal(values, ranking.gather(1, whole))
    real = values > float("-inf")
    assert torch.equal(tokens[real], whole[real])


@pytest.mark.parametrize("vocab", [9, 2000])
def test_equals_at_the_border_are_told_and_the_rule_takes_the_lowest(vocab: int) -> None:
    ranking = torch.zeros(3, vocab)
    ranking[0, 5] = ranking[0, 2] = 1.0
    ranking[1, [1, 4, 7]] = torch.tensor([3.0, 2.0, 1.0])
    _, equals = best_tokens(ranking, 3)
    assert equals.tolist() == [True, False, True]
    tokens, _ = best_tokens(ranking, 3, exact=True)
    assert tokens.tolist() == [[2, 5, 0], [1, 4, 7], [0, 1, 2]]
    assert best_tokens(ranking, 1)[0].tolist() == [[2], [1], [0]]
    many = ranking.repeat(30, 1)
    many[-1, -1] = 2.0
    assert best_tokens(many, 1)[0].tolist() == ([[2], [1], [0]] * 30)[:-1] + [[vocab - 1]]


def test_equal_sums_go_to_the_higher_slot_and_then_to_the_lower_token() -> None:
    ranking = torch.zeros(3, 4)
    logs = ranking.log_softmax(-1)
    sums, places = torch.tensor([-1.0, -1.0, -2.0]), torch.tensor([0, 1, 3])
    given = (ranking, logs, sums, places, 2, 3)
    found, equals = to_host(*best_continuations(*given))
    assert equals
    found, _ = to_host(*best_continuations(*given, exact=True))
    assert [[(slot, token) for _, slot, token in of_one] for of_one in found] == [[(0, 0), (0, 1), (0, 2)]] * 2
    assert found[0][0][0] == pytest.approx(-1 + logs[0, 0].item())
    assert found[1][0][0] == pytest.approx(-2 + logs[0, 0].item())


def test_ngrams_of_the_row_are_blocked_and_no_others() -> None:
    written = torch.tensor([[1, 2, 3, 1, 2], [-1, -1, -1, 4, 4], [0, 0, 0, 0, 0]])
    as_lists = lambda n: [row.nonzero().flatten().tolist() for row in repeated_ngrams(written, n, 6)]  # noqa: E731
    assert as_lists(1) == [[1, 2, 3], [4], [0]]
    assert as_lists(2) == [[3], [4], [0]]
    assert as_lists(3) == [[3], [], [0]]
    assert as_lists(6) == [[], [], []]


def test_the_two_means_of_several_models() -> None:
    one, other = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p, q = one.softmax(-1), other.softmax(-1)
    torch.testing.assert_close(log_probabilities([one, other], "probabilities")[1], ((p + q) / 2).log())
    geometric = log_probabilities([one, other], "log-probabilities")[1]
    torch.testing.assert_close(geometric, (p.log() + q.log()) / 2)
    assert bool((geometric.exp().sum(-1) < 1).all())


def test_log_probabilities_are_float32_at_least() -> None:
    assert log_probabilities([torch.randn(1, 4).bfloat16()])[1].dtype == torch.float32
    assert log_probabilities([torch.randn(1, 4).double()])[1].dtype == torch.float64
