"""CTC: the loss is the sum over all paths, alignments and searches are those of a search through all of them."""

from __future__ import annotations

import itertools
import math
from itertools import groupby

import numpy as np
import pytest
import torch

from transformula.tasks.ctc import (
    BLANK,
    align,
    best_path,
    ctc_nats,
    positions_needed,
    positions_of_samples,
    real_positions,
    search,
)

POSITIONS, SYMBOLS = 5, 3


@pytest.fixture(scope="module")
def logs() -> np.ndarray:
    return np.asarray(torch.randn(POSITIONS, SYMBOLS, dtype=torch.float64, generator=seeded(4)).log_softmax(-1).numpy())


def seeded(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def paths() -> list[tuple[int, ...]]:
    return list(itertools.product(range(SYMBOLS), repeat=POSITIONS))


def text_of(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(symbol for symbol, _ in groupby(path) if symbol != BLANK)


def log_of(path: tuple[int, ...], logs: np.ndarray) -> float:
    return float(sum(logs[place, symbol] for place, symbol in enumerate(path)))


def by_text(logs: np.ndarray) -> dict[tuple[int, ...], float]:
    """log P of every text, by summing over every path."""
    sums: dict[tuple[int, ...], float] = {}
    for path in paths():
        sums[text_of(path)] = float(np.logaddexp(sums.get(text_of(path), -math.inf), log_of(path, logs)))
    return sums


@pytest.mark.parametrize("text", [(1,), (1, 2), (1, 1), (2, 1, 2), (1, 2, 1, 2, 1)])
def test_the_loss_is_the_sum_over_all_paths(text: tuple[int, ...], logs: np.ndarray) -> None:
    nats = ctc_nats(torch.from_numpy(logs)[None], torch.tensor([text]), torch.tensor([POSITIONS]))
    assert float(nats) == pytest.approx(-by_text(logs)[text], rel=1e-5)


def test_the_loss_of_a_row_depends_on_nothing_beside_it(logs: np.ndarray) -> None:
    alone = torch.from_numpy(logs)[None]
    beside = torch.cat([alone, torch.randn(1, POSITIONS, SYMBOLS, dtype=alone.dtype)])
    padded = torch.cat([beside, torch.randn(2, 4, SYMBOLS, dtype=alone.dtype)], 1)
    targets = torch.tensor([[1, 2, -100, -100], [1, 2, 1, 2]])
    one = ctc_nats(alone, targets[:1, :2], torch.tensor([POSITIONS]))
    two = ctc_nats(padded, targets, torch.tensor([POSITIONS, POSITIONS + 4]))
    assert float(two[0]) == pytest.approx(float(one), rel=1e-5)


def test_what_no_position_can_say_counts_for_nothing(logs: np.ndarray) -> None:
    """Neither a text that is too long, nor none; and their gradient is 0, not NaN."""
    logits = torch.from_numpy(logs)[None].repeat(3, 1, 1).requires_grad_()
    targets = torch.tensor([[1, 1, 1, 2], [-100] * 4, [1, -100, -100, -100]])
    nats = ctc_nats(logits, targets, torch.tensor([POSITIONS] * 3))
    nats.sum().backward()
    assert nats[:2].tolist() == [0, 0] and nats[2] > 0
    assert logits.grad is not None and not logits.grad[:2].any() and logits.grad[2].isfinite().all()
    assert positions_needed([1, 1, 1, 2]) == 6 and positions_needed([]) == 0 and positions_needed([1, 2]) == 2


@pytest.mark.parametrize("text", [(1,), (1, 2), (1, 1), (2, 1, 2), (1, 1, 2), (1, 2, 1, 2, 1)])
def test_an_alignment_is_the_best_of_all_paths(text: tuple[int, ...], logs: np.ndarray) -> None:
    best = max((path for path in paths() if text_of(path) == text), key=lambda path: log_of(path, logs))
    spans, place = [], 0
    for symbol, run in groupby(best):
        size = len(list(run))
        if symbol != BLANK:
            spans.append((place, place + size - 1))
        place += size
    assert align(logs, text) == spans


def test_nothing_is_aligned_with_nothing(logs: np.ndarray) -> None:
    assert align(logs, []) == []


def test_the_best_path(logs: np.ndarray) -> None:
    assert tuple(best_path(logs)) == text_of(max(paths(), key=lambda path: log_of(path, logs)))


def test_a_search_that_keeps_all_finds_the_sums(logs: np.ndarray) -> None:
    known = by_text(logs)
    found = search(logs, 1000)
    assert [text for text, _ in found[:5]] == sorted(known, key=lambda text: -known[text])[:5]
    assert {text: value for text, value in found} == pytest.approx(known, abs=1e-9)


def test_a_search_knows_more_than_the_best_path() -> None:
    """0.6 of nothing at both positions is the best path, at 0.36; "a" has 0.64 in three."""
    logs = np.log([[0.6, 0.4], [0.6, 0.4]])
    assert best_path(logs) == [] and search(logs, 4)[0][0] == (1,)


def test_what_is_favored_is_found(logs: np.ndarray) -> None:
    """A model of texts counts at each symbol and at the end, once for each text."""
    known, favors = by_text(logs), [0.3, -0.5, 0.7]
    expected = {text: value + sum(favors[symbol] for symbol in (*text, BLANK)) for text, value in known.items()}
    found = search(logs, 1000, lambda beginnings: [favors[beginning[-1]] for beginning in beginnings])
    assert dict(found) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("first", "step"), [(159, 160), (159, 640), (0, 1), (399, 320)])
def test_positions_are_counted_as_they_are_sliced(first: int, step: int) -> None:
    for samples in (1, 100, 159, 160, 161, 399, 400, 1599, 1600, 16_001):
        expected = len(range(samples)[first::step])
        assert positions_of_samples(samples, first, step) == expected
        assert real_positions(torch.tensor([samples]), first, step).tolist() == [expected]
