"""Connectionist temporal classification (Graves et al. 2006): a model says at each position a symbol or nothing (the
blank, symbol 0); a text is what is left of a path once repeats are merged and blanks are taken out.

    P(text | sound) = sum over the paths that become the text of the product of P(symbol at each position)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

BLANK = 0
UNLIKELY = -8.0  # natural logarithm: symbols less probable than this are not looked at where others are
NEVER = -math.inf

Prefix = tuple[int, ...]
Favor = Callable[[Sequence[Prefix]], Sequence[float]]


def ctc_nats(logits: Tensor, targets: Tensor, positions: Tensor) -> Tensor:
    """-log P(text | sound) of each row, (batch,) float32; 0 for a row without symbols, or with more than its positions
    can say.

    logits (batch, length, symbols); targets (batch, most) int64, below 0 where there is none; positions (batch,) int64
    """
    logs = logits.float().log_softmax(-1).transpose(0, 1)
    sizes = (targets >= 0).sum(1)
    nats = F.ctc_loss(logs, targets.clamp(min=0), positions, sizes, BLANK, reduction="none", zero_infinity=True)
    return nats.masked_fill(sizes == 0, 0.0)


def positions_needed(ids: Sequence[int]) -> int:
    """How many positions a text takes at least: one a symbol, and a blank between equal ones."""
    return len(ids) + sum(one == other for one, other in pairwise(ids))


def best_path(logs: np.ndarray) -> list[int]:
    """The text of the most probable path; logs (positions, symbols)."""
    return [int(symbol) for symbol, _ in groupby(logs.argmax(1).tolist()) if symbol != BLANK]


def align(logs: np.ndarray, ids: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the last position of each symbol of a text in the most probable path that becomes it (Viterbi).
    Needs at least `positions_needed` positions.

    logs (positions, symbols), logarithms of probabilities
    """
    if not ids:
        return []
    states = np.full(2 * len(ids) + 1, BLANK)
    states[1::2] = ids
    skips = np.zeros(len(states), dtype=bool)  # whether a state may follow the one before the last blank
    skips[3::2] = states[3::2] != states[1:-2:2]
    scores = np.full(len(states), NEVER)
    scores[:2] = logs[0, states[:2]]
    came = np.zeros((len(logs), len(states)), dtype=np.int8)
    for place in range(1, len(logs)):
        one, two = (np.concatenate([[NEVER] * back, scores[:-back]]) for back in (1, 2))
        choices = np.stack([scores, one, np.where(skips, two, NEVER)])
        came[place] = choices.argmax(0)
        scores = choices.max(0) + logs[place, states]
    state = len(states) - 1 if scores[-1] >= scores[-2] else len(states) - 2
    path = []
    for place in range(len(logs) - 1, -1, -1):
        path.append(state)
        state -= int(came[place, state])
    held: dict[int, list[int]] = {}
    for place, state in enumerate(reversed(path)):
        if state % 2:
            held.setdefault(state // 2, []).append(place)
    return [(held[number][0], held[number][-1]) for number in range(len(ids))]


def search(logs: np.ndarray, beam: int, favor: Favor | None = None) -> list[tuple[Prefix, float]]:
    """The most probable texts, best first, with the logarithms of their probabilities, by a search that keeps `beam`
    beginnings at each position (Hannun et al. 2014).

    logs   (positions, symbols)
    favor  of beginnings: what the last symbol of each adds to the logarithm, such as a language model's; at the end it
           is asked for each text with the blank behind it, which stands for the end
    """
    kept: dict[Prefix, tuple[float, float]] = {(): (0.0, NEVER)}  # ends in a blank, ends in its last symbol
    added: dict[Prefix, float] = {(): 0.0}
    for row in logs:
        likely = [int(n) for n in np.flatnonzero(row > max(UNLIKELY, row.max() + UNLIKELY)) if n != BLANK]
        new: dict[Prefix, list[float]] = {}
        for prefix, (blank, own) in kept.items():
            last, whole = prefix[-1] if prefix else BLANK, float(np.logaddexp(blank, own))
            add(new, prefix, 0, whole + float(row[BLANK]))
            if prefix:
                add(new, prefix, 1, own + float(row[last]))
            for symbol in likely:
                add(new, (*prefix, symbol), 1, (blank if symbol == last else whole) + float(row[symbol]))
        if favor is not None:
            favored(added, [prefix for prefix in new if prefix not in added], favor)
        scored = {prefix: float(np.logaddexp(one, two)) + added.get(prefix, 0.0) for prefix, (one, two) in new.items()}
        best = sorted(scored, key=lambda prefix: (-scored[prefix], prefix))[:beam]
        kept = {prefix: (new[prefix][0], new[prefix][1]) for prefix in best}
        added = {prefix: added.get(prefix, 0.0) for prefix in best}
    closing = dict.fromkeys(kept, 0.0)
    if favor is not None:
        closing = dict(zip(kept, favor([(*prefix, BLANK) for prefix in kept]), strict=True))
    ends = [(text, float(np.logaddexp(*pair)) + added[text] + closing[text]) for text, pair in kept.items()]
    return sorted(ends, key=lambda end: (-end[1], end[0]))


def favored(added: dict[Prefix, float], longer: Sequence[Prefix], favor: Favor) -> None:
    """Add to what has been added to beginnings that of longer ones."""
    for prefix, value in zip(longer, favor(longer) if longer else (), strict=True):
        added[prefix] = added[prefix[:-1]] + value


def add(new: dict[Prefix, list[float]], prefix: Prefix, side: int, value: float) -> None:
    """Add a probability, as a logarithm, to that of a beginning."""
    if value > NEVER:
        pair = new.setdefault(prefix, [NEVER, NEVER])
        pair[side] = float(np.logaddexp(pair[side], value))


def positions_of_samples(samples: int, first: int, step: int) -> int:
    """How many positions a sound has, of which number k stands at sample first + k step."""
    return max(0, -(-(samples - first) // step))


def real_positions(samples: Tensor, first: int, step: int) -> Tensor:
    """The same of each row of a batch, (batch,) int64."""
    return (torch.div(samples - first + step - 1, step, rounding_mode="floor")).clamp(min=0)
