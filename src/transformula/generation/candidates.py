"""One step of a search on the device: from logits to the best continuations of every sentence.

Which is better, where numbers are equal, is a rule and not the accident of a sort: of two continuations with the same
sum first the one whose hypothesis ranked higher, then the one with the higher logit, then the lower token id.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

BLOCK = 64  # tokens whose maximum is looked at first: the k best of a row lie in the k blocks of the highest maxima
SMALL = 1024  # below this many tokens a row is sorted through as it is


def log_probabilities(logits: Sequence[Tensor], mean: str = "probabilities") -> tuple[Tensor, Tensor]:
    """What ranks the tokens of a row, and log p, both (rows, vocab) and float32 at least, from the logits (rows, vocab)
    of one model, or from those of K models whose mean is taken.

        "probabilities"       log p = log((1 / K) sum_k p_k)
        "log-probabilities"   log p = (1 / K) sum_k log p_k, which is not normalized again

    One model's tokens are ranked by its logits, of which rounded log p can make two one.
    """
    wide = [x.to(torch.promote_types(x.dtype, torch.float32)) for x in logits]
    logs = [x.log_softmax(-1) for x in wide]
    if len(logs) == 1:
        return wide[0], logs[0]
    stacked = torch.stack(logs)
    mixed = stacked.mean(0) if mean == "log-probabilities" else stacked.logsumexp(0) - math.log(len(logs))
    return mixed, mixed


def repeated_ngrams(written: Tensor, n: int, vocab: int) -> Tensor:
    """(rows, vocab), bool: the tokens that would complete an n-gram which the row has already.

    written (rows, length), token ids, the last on the right; -1 on the left where a row is shorter.
    """
    blocked = torch.zeros(len(written), vocab + 1, dtype=torch.bool, device=written.device)
    if written.shape[1] >= n:
        grams = written.unfold(1, n, 1)  # (rows, places, n)
        last = written[:, None, written.shape[1] - n + 1 :]
        met = (grams[..., :-1] == last).all(-1) & (grams >= 0).all(-1)
        blocked.scatter_(1, torch.where(met, grams[..., -1], vocab), True)  # the column `vocab` takes what is not met
    return blocked[:, :vocab]


def best_tokens(ranking: Tensor, count: int, exact: bool = False) -> tuple[Tensor, Tensor]:
    """(the `count` best tokens of each row, in order, (rows, count); whether tokens just outside are as good, (rows,)).

    Where they are, which of the equals is among the best follows the rule only if `exact`, at the cost of a whole sort.
    """
    rows, vocab = ranking.shape
    count = min(count, vocab)
    surely = torch.zeros(rows, dtype=torch.bool, device=ranking.device)
    if exact:
        return ranking.sort(dim=-1, descending=True, stable=True).indices[:, :count], surely
    if count == 1:
        return _first_best(ranking), surely
    values, tokens = _top(ranking, min(count + 1, vocab))
    if count < vocab:
        border = values[:, count]
        surely = (values[:, count - 1] == border) & (border > float("-inf"))
    tokens, order = tokens[:, :count].sort(dim=-1)
    order = values.gather(1, order).sort(dim=-1, descending=True, stable=True).indices
    return tokens.gather(1, order), surely


def _first_best(ranking: Tensor) -> Tensor:
    """`argmax`, the first of equals, (rows, 1); for many long rows on a CPU through the maxima of blocks."""
    rows, vocab = ranking.shape
    whole = vocab // BLOCK * BLOCK
    if rows < 4 or rows * vocab < BLOCK * SMALL or ranking.device.type != "cpu":
        return ranking.argmax(-1, keepdim=True)
    blocks = ranking[:, :whole].view(rows, -1, BLOCK)
    highest = blocks.amax(-1).max(-1)
    tokens = highest.indices * BLOCK + blocks[torch.arange(rows), highest.indices].argmax(-1)
    if whole < vocab:
        rest = ranking[:, whole:].max(-1)
        tokens = torch.where(rest.values > highest.values, whole + rest.indices, tokens)
    return tokens[:, None]


def _top(ranking: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`topk`, which on a CPU is slow in long rows: through the maxima of blocks."""
    rows, vocab = ranking.shape
    whole = vocab // BLOCK
    if vocab < SMALL or whole < 2 * k or ranking.device.type != "cpu":
        best = ranking.topk(k, dim=-1)
        return best.values, best.indices
    blocks = ranking[:, : whole * BLOCK].view(rows, whole, BLOCK)
    chosen = blocks.amax(-1).topk(k, dim=-1).indices  # (rows, k)
    kept = blocks.gather(1, chosen[:, :, None].expand(-1, -1, BLOCK)).flatten(1)
    best = torch.cat((kept, ranking[:, whole * BLOCK :]), 1).topk(k, dim=-1)
    inside = best.indices < k * BLOCK
    block = chosen.gather(1, torch.where(inside, best.indices // BLOCK, 0))
    # the rest of the row, after the last whole block, stands behind the k blocks
    tokens = torch.where(inside, block * BLOCK + best.indices % BLOCK, best.indices + (whole - k) * BLOCK)
    return best.values, tokens


def best_continuations(
    ranking: Tensor,
    logs: Tensor,
    sums: Tensor,
    places: Tensor | None,
    sentences: int,
    beam: int,
    stops: int = 0,
    exact: bool = False,
    choose: Callable[[Tensor, int], tuple[Tensor, Tensor]] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The `beam` (1 + `stops`) best continuations of each sentence, best first: (sums, slots, tokens), each
    (sentences, <= beam (1 + stops)), and whether any row has equals at its border. However many of them are one of
    `stops` tokens, the `beam` best that are none of these are there: each row gives its beam + stops best.

    ranking, logs   (rows, vocab); a token that is ruled out ranks at -inf
    sums            (rows,), of the log probabilities so far
    places          (rows,), sentence * beam + slot of every row; None where each sentence has one row
    choose          finds the best tokens of each row by `ranking`, exactly, and their log p, in place of `logs`

    A sum of -inf means that there is no such continuation.
    """
    if choose is None:
        tokens, equals = best_tokens(ranking, beam + stops, exact)
        added = logs.gather(1, tokens).masked_fill(ranking.gather(1, tokens) == float("-inf"), float("-inf"))
    else:
        tokens, added = choose(ranking, beam + stops)
        equals = torch.zeros(len(tokens), dtype=torch.bool)
    # log p is at most 0, but for rounding: a sum never rises, which the end of the search relies on
    totals = sums[:, None] + added.clamp(max=0)
    width = tokens.shape[1]
    if places is not None:
        empty = totals.new_full((sentences * beam, width), float("-inf"))
        totals = empty.index_copy(0, places, totals).view(sentences, beam * width)
        filler = tokens.new_zeros(sentences * beam, width)
        tokens = filler.index_copy(0, places, tokens).view(sentences, beam * width)
    best, order = (part[:, : beam * (1 + stops)] for part in totals.sort(dim=-1, descending=True, stable=True))
    return best, order // width, tokens.gather(1, order), equals.any()


def to_host(
    sums: Tensor, slots: Tensor, tokens: Tensor, flag: Tensor
) -> tuple[list[list[tuple[float, int, int]]], bool]:
    """What `best_continuations` found, in one transfer: for each sentence its continuations (sum, slot, token)."""
    bits = sums.view(torch.int64 if sums.dtype == torch.float64 else torch.int32).long()
    packed = torch.stack((bits, slots, tokens, flag.long().expand_as(bits))).cpu()
    numbers = packed[0].to(torch.int32 if sums.dtype == torch.float32 else torch.int64).view(sums.dtype).tolist()
    found = zip(numbers, packed[1].tolist(), packed[2].tolist(), strict=True)
    return [list(zip(*of_one, strict=True)) for of_one in found], bool(packed[3].any())
