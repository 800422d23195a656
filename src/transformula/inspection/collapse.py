"""Whether tokens become alike with depth (rank collapse, over-smoothing), how much each layer changes the streams, and
the learned coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..analysis.by_depth import by_depth, name_in_stack
from ..errors import InputError
from ..figure import new_panels
from ..model.transformer import Transformer
from .norms import Lists, norms
from .places import Row, recorder
from .shown import Shown, draw_by_depth, table_by_depth


@dataclass(frozen=True, repr=False)
class TokenCollapse(Shown):
    """What `inspect(run, "collapse")` returns: lists by depth, means over rows.

    similarity    of a stream, on entering the first layer and on leaving each: mean cosine between different positions
    rank          exp(entropy of the singular values' shares) of its matrix (positions, width): Roy and Vetterli 2007
    updates       RMS(x_l - x_(l-1)) / RMS(x_(l-1))
    coefficients  learned numbers of the formula in each layer; of a vector the mean
    """

    similarity: Lists
    rank: Lists
    updates: Lists
    coefficients: Lists
    rows: int
    notes: Sequence[str] = ()
    look = "collapse"
    title = "how alike tokens become with depth"

    def __repr__(self) -> str:
        head, columns = ["layer"], list[list[float | None]]()
        for name in self.similarity:
            head += [f"similarity {name}", "rank", "update"]
            columns += [self.similarity[name], self.rank[name], [None, *self.updates[name]]]
        columns += [[None, *values] for values in self.coefficients.values()]
        return "\n".join([*table_by_depth([*head, *self.coefficients], columns), *self.notes])

    @cached_property
    def figure(self) -> Any:
        """Similarity, effective rank, updates and, where there are some, coefficients over the layers."""
        with new_panels([3.6] * (3 + bool(self.coefficients))) as (figure, panels):
            draw_by_depth(panels[0], "cosine between tokens", self.similarity, first=0)
            draw_by_depth(panels[1], "effective rank", self.rank, first=0)
            draw_by_depth(panels[2], "change of the stream by each layer", self.updates)
            if self.coefficients:
                draw_by_depth(panels[3], "learned coefficients", self.coefficients)
        return figure


def collapse(model: Transformer, rows: Sequence[Row]) -> TokenCollapse:
    """Similarity of tokens and effective rank by depth, over some rows of two positions or more; what each layer
    changes; the learned coefficients. Of several stacks each name is led by its stack's. Raises InputError for rows of
    one position."""
    stacks = by_depth(model.architecture)
    streams = {name_in_stack(s.stack, name): places for s in stacks for name, places in s.streams.items()}
    learned = {name_in_stack(s.stack, name): places for s in stacks for name, places in s.coefficients.items()}
    record = recorder(model, {p for places in (*streams.values(), *learned.values()) for p in places if p})
    alike: dict[str, list[float]] = {}
    ranks: dict[str, list[float]] = {}
    numbers: dict[str, float] = {}
    for row in rows:
        for place, value in record(row).items():
            if any(place in places for places in learned.values()):
                numbers[place] = float(value.detach().double().mean())
            elif value.shape[1] > 1:
                alike.setdefault(place, []).append(similarity(value[0]))
                ranks.setdefault(place, []).append(effective_rank(value[0]))
    if not alike:
        raise InputError("tokens are compared with each other: give rows of two positions or more")

    def means(of: dict[str, list[float]], places: Sequence[str | None]) -> list[float | None]:
        return [sum(of[p]) / len(of[p]) if p in of else None for p in map(str, places)]

    by_stack = norms(model, rows).stacks
    updates = {name_in_stack(s.stack, name): values for s in by_stack for name, values in s.updates.items()}
    return TokenCollapse(
        {name: means(alike, places) for name, places in streams.items()},
        {name: means(ranks, places) for name, places in streams.items()},
        updates,
        {name: [numbers.get(str(place)) for place in places] for name, places in learned.items()},
        len(rows),
    )


def similarity(x: Tensor) -> float:
    """Mean cosine between different rows of x (positions, width); several streams of a position are one long row."""
    unit = torch.nn.functional.normalize(x.double().flatten(1), dim=-1)
    count = len(unit)
    return float((unit.sum(0).pow(2).sum() - unit.pow(2).sum()) / (count * (count - 1)))


def effective_rank(x: Tensor) -> float:
    """exp(-sum of p log p), p the singular values of x (positions, width) over their sum: from 1 to their number."""
    sizes = torch.linalg.svdvals(x.double().flatten(1))
    shares = sizes / sizes.sum().clamp(min=1e-300)
    return float(torch.exp(-torch.special.xlogy(shares, shares).sum()))
