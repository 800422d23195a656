"""Scores of a search: where among all candidates the one that belongs to a query stands, by similarity.

The rank of a query is 1 plus the number of wrong candidates that are at least as similar as its right one: a model that
finds all alike has no luck. Of several right candidates the most similar counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from .measured import Measured, Numbers, mean_of

RECALL_DEPTHS = (1, 5, 10)


def retrieval(
    similarity: Numbers, right: Sequence[int] | NDArray[np.bool_] | None = None, name: str = ""
) -> list[Measured]:
    """Recall at 1, 5 and 10 (100 times the share of queries whose rank is so high; those below the number of
    candidates) and the mean reciprocal rank, times 100.

    similarity  (queries, candidates)
    right       the number of each query's right candidate, from 0; or (queries, candidates), True for each that is
                right; by default query i has candidate i
    name        what is searched, before each score's name: "image for text"

    Raises InputError.
    """
    rank = ranks_of(similarity, right)
    candidates = similarity.shape[1]
    signature, before = f"candidates:{candidates}|ties:last", f"{name}: " if name else ""
    depths = [k for k in RECALL_DEPTHS if k == 1 or k < candidates]
    recalls = [mean_of(f"{before}recall@{k}", signature, 100.0 * (rank <= k)) for k in depths]
    return [*recalls, mean_of(f"{before}mean reciprocal rank", signature, 100 / rank)]


def ranks_of(similarity: Numbers, right: Sequence[int] | NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """The rank of each query, from 1, (queries,); see `retrieval`. Raises InputError."""
    if similarity.ndim != 2 or not similarity.size:
        raise InputError(f"similarities have the shape (queries, candidates); given: {similarity.shape}")
    if not np.isfinite(similarity).all():
        raise InputError("similarities are finite numbers; some are not")
    queries, candidates = similarity.shape
    chosen = np.asarray(range(queries) if right is None else right)
    if chosen.ndim == 1:
        if len(chosen) != queries or chosen.min() < 0 or chosen.max() >= candidates:
            raise InputError(f"each of {queries:,} queries has its right one among {candidates:,} candidates, from 0")
        chosen = chosen[:, None] == np.arange(candidates)
    if chosen.shape != similarity.shape or not chosen.any(axis=1).all():
        raise InputError("each query has one right candidate, or more: True in its row of (queries, candidates)")
    best = np.where(chosen, similarity, -np.inf).max(axis=1, keepdims=True)
    wrong: NDArray[np.int64] = (~chosen & (similarity >= best)).sum(axis=1)
    return 1 + wrong
