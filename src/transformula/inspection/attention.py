"""Attention maps: what each head weighs values by, and what kind of head that is.

Training never makes these weights; here a word that has them (`attention_weights`) makes them again from what it was
called with.
"""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..cost.words import table
from ..errors import InputError
from ..figure import new_figure
from ..language.graph import Architecture, Value
from ..model.dataflow import across, input_sequences
from ..model.model_code import IDS
from ..model.transformer import Transformer, evaluating
from ..words import vocabulary
from ..words.word import word_class
from .places import Row, named_calls, select_places
from .shown import Shown, draw_shades

MEASURES = ("entropy", "distance", "previous", "first", "itself", "induction")
"""Means over the queries of a head, of weights that are made to sum to 1 (bits; positions; shares of the weight).

entropy    -sum of a log2 a
distance   sum of a |i - j|
previous   on the position before; first: on position 0; itself: on the own position (queries behind the first)
induction  on positions that stand behind an earlier occurrence of the query's own token (Olsson et al. 2022); of
           queries whose token has one
"""
METHOD = "attention_weights"  # of a word that has maps
MAX_POINTS = 12 * 12 * 128 * 128  # of a picture: twelve layers of twelve heads over 128 positions
MAX_MAP_BYTES = 350_000
"""Compressed bytes of a picture's maps, of which a notebook holds 2.3 times as many; larger maps get fewer levels."""


@dataclass(frozen=True)
class AttentionCall:
    """One call of a word with an attention map.

    place   its name: "layers.3.attention"
    own     queries and keys stand in one sequence
    ids     the input whose ids are that sequence's; "" for none
    """

    place: str
    own: bool
    ids: str


@dataclass(frozen=True, repr=False)
class AttentionMaps(Shown):
    """What `inspect(run, "attention")` returns.

    calls    the calls that are shown, in order of depth
    heads    for each, the number of each head that is shown, from 1
    maps     for each, the weights of the first row: (heads, queries, keys)
    summary  for each head {"place", "head", and MEASURES}, means over all rows; None where one has no meaning
    labels   the pieces of the first row, by input
    rows     how many rows were looked at
    """

    calls: Sequence[AttentionCall]
    heads: Sequence[Sequence[int]]
    maps: Sequence[np.ndarray]
    summary: Sequence[Mapping[str, Any]]
    labels: Mapping[str, Sequence[str]]
    rows: int
    notes: Sequence[str] = ()
    look = "attention"
    title = "attention maps"

    @property
    def data(self) -> dict[str, Any]:
        """The maps as bytes in base64, row by row: a weight is (byte / 255)^2, at most 1 being told; `negative` has the
        signs of weights that are not from a softmax, a bit each (`numpy.unpackbits`). Of large maps each is the largest
        weight of a square of `block` by `block`."""
        maps = []
        block, drawn = shrink(self.maps)
        for call, heads, weights in zip(self.calls, self.heads, drawn, strict=True):
            written = base64.b64encode(levels(weights).tobytes()).decode()
            signs = base64.b64encode(np.packbits(weights < 0).tobytes()).decode() if (weights < 0).any() else ""
            shape = list(weights.shape)
            maps.append(
                {"place": call.place, "heads": list(heads), "shape": shape, "bytes": written, "negative": signs}
            )
        labels = {name: list(pieces) for name, pieces in self.labels.items()}
        return {"look": "attention", "rows": self.rows, "heads": list(map(dict, self.summary)), "labels": labels,
                "block": block, "maps": maps, "notes": list(self.notes)}  # fmt: skip

    def __repr__(self) -> str:
        def cell(value: float | None, name: str) -> str:
            if value is None:
                return "-"
            return f"{value:.2f}" if name == "entropy" else f"{value:.1f}" if name == "distance" else f"{value:.0%}"

        rows = [["place", "head", *MEASURES]]
        for row in self.summary:
            rows.append([row["place"], str(row["head"]), *(cell(row[name], name) for name in MEASURES)])
        return "\n".join([*table(rows), *self.notes])

    @cached_property
    def figure(self) -> Any:
        """One row of maps a call, one map a head: queries downward, keys to the right. Blue, orange below 0."""
        most = max(map(len, self.heads))
        one = len(self.calls) == most == 1
        size = 5.0 if one else min(1.6, 9.0 / most)
        block, drawn = shrink(self.maps)
        steps = steps_that_fit(drawn)
        with new_figure(size * most + 1.5, size * len(self.calls) + 0.6) as (figure, axes):
            for number, weights in enumerate(drawn):
                for place, weighed in enumerate(weights):
                    extent = (place - 0.46, place + 0.46, number + 0.46, number - 0.46)
                    draw_shades(axes, levels(weighed, steps) / 255 * np.where(weighed < 0, -1, 1), extent)
            axes.set_xlim(-0.5, most - 0.5)
            axes.set_ylim(len(self.calls) - 0.5, -0.5)
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0, labelsize=8)
            axes.xaxis.tick_top()
            axes.set_yticks(range(len(self.calls)), [call.place for call in self.calls])
            widest = self.heads[[len(each) for each in self.heads].index(most)]
            axes.set_xticks(range(most), [f"head {head}" if most < 9 else str(head) for head in widest])
            if block > 1:
                axes.set_xlabel(f"each point is the largest of {block} x {block} weights", fontsize=8)
            if one:
                self._label(axes)
        return figure

    def _label(self, axes: Any) -> None:
        """The tokens along a single map, where they can be read."""
        (call,), (queries, keys) = self.calls, self.maps[0].shape[1:]
        pieces = self.labels.get(call.ids, ())
        if call.own and len(pieces) == keys == queries <= 64:
            middles = (np.arange(keys) + 0.5) / keys * 0.92 - 0.46
            axes.set_xticks(middles, pieces, rotation=90)
            axes.set_yticks(middles, pieces)

    @cached_property
    def svg(self) -> str:
        """The picture as SVG, its maps as images of one channel of 8 bits; lighter where the page is dark."""
        svg: str = super().svg
        return re.sub(r"(?<=data:image/png;base64,)[^\"]+", lambda image: of_one_channel(image[0]), svg)


def of_one_channel(png: str) -> str:
    """A PNG of one color and many opacities, in base64, with one byte a point in place of four; of two as it is."""
    from PIL import Image

    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(png))).convert("RGBA"))
    if (image[..., :3] != image[0, 0, :3]).any():
        return png
    small = Image.fromarray(image[..., 3].copy(), "L").convert("P")
    small.putpalette(image[0, 0, :3].tolist() * 256)
    file = io.BytesIO()
    small.save(file, format="png", transparency=bytes(range(256)), optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def levels(weights: np.ndarray, steps: int = 255) -> np.ndarray:
    """Weights as bytes, 255 sqrt(|w|), so that small ones are seen, too; of so many steps."""
    root = np.sqrt(np.clip(np.abs(weights), 0, 1))
    bytes_: np.ndarray = np.round(np.round(root * steps) * (255 / steps)).astype(np.uint8)
    return bytes_


def shrink(maps: Sequence[np.ndarray]) -> tuple[int, list[np.ndarray]]:
    """How many weights, in each direction, become one point, so that no picture has more than MAX_POINTS; and the maps
    of these, each the largest of a square."""
    block = math.ceil(math.sqrt(sum(each.size for each in maps) / MAX_POINTS))
    if block <= 1:
        return 1, list(maps)
    edges = [[np.arange(0, size, block) for size in each.shape[1:]] for each in maps]
    rows = [largest(each, first, 1) for each, (first, _) in zip(maps, edges, strict=True)]
    return block, [largest(each, first, 2) for each, (_, first) in zip(rows, edges, strict=True)]


def largest(weights: np.ndarray, first: np.ndarray, axis: int) -> np.ndarray:
    """The largest of each part along an axis, by its size, with its sign."""
    high, low = np.maximum.reduceat(weights, first, axis), np.minimum.reduceat(weights, first, axis)
    return np.where(-low > high, low, high)


def steps_that_fit(maps: Sequence[np.ndarray]) -> int:
    """How many steps of opacity a picture's maps get, so that a notebook can hold it: 255, or fewer."""
    import zlib

    steps = 255
    while steps > 3 and sum(len(zlib.compress(levels(each, steps).tobytes())) for each in maps) > MAX_MAP_BYTES:
        steps = steps // 2
    return steps


def attention(
    model: Transformer, rows: Sequence[Row], *, at: Sequence[str] = (), head: int | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
) -> AttentionMaps:  # fmt: skip
    """The attention maps of a model over some rows: the maps of the first, and what kind of head each is over all.

    at    names of places, of which those are shown that begin so: "layers.3"; all where none is given
    head  the number of the one head that is shown, from 1

    Raises InputError for a model without such maps, for unknown places and heads.
    """
    calls, notes = attention_calls(model.architecture)
    kept = select_places([call.place for call in calls], at)
    calls = [call for call in calls if call.place in kept]
    maps: list[np.ndarray] = []
    sums: list[list[Mapping[str, Tensor]]] = []
    for number, row in enumerate(rows):
        weights = weights_in(model, row, kept)
        for place, (call, each) in enumerate(zip(calls, weights, strict=True)):
            ids = row.get(call.ids)
            if number == 0:
                maps.append(each.cpu().numpy())
                sums.append([])
            sums[place].append(measure_heads(each, call.own, None if ids is None else ids[0]))
    heads = [list(range(1, len(each) + 1)) for each in maps]
    if head is not None:
        if not any(head in each for each in heads):
            raise InputError(f"head {head}: these places have heads 1 to {max(map(len, heads))}")
        chosen = [place for place, each in enumerate(heads) if head in each]
        calls, sums = [calls[place] for place in chosen], [sums[place] for place in chosen]
        maps, heads = [maps[place][head - 1 : head] for place in chosen], [[head] for _ in chosen]
    summary = [
        {"place": call.place, "head": number, **mean_of(over, number - 1)}
        for call, numbers, over in zip(calls, heads, sums, strict=True)
        for number in numbers
    ]
    return AttentionMaps(calls, heads, maps, summary, labels or {}, len(rows), notes)


def attention_calls(architecture: Architecture) -> tuple[list[AttentionCall], list[str]]:
    """The calls that have a map, in order of evaluation, and notes of those words that have none. Raises InputError
    where no call has one."""
    names = {sequence: inputs for sequence, inputs in input_sequences(architecture).items()}
    calls, without = [], []
    for place, value in named_calls(architecture):
        if has_weights(value):
            ids = [name for name in names.get(value.sequence, ()) if name in IDS]
            calls.append(AttentionCall(place, not across(value), ids[0] if ids else ""))
        elif value.word_kind == "positions":
            without.append(value.called.word.name)
    others = ", ".join(dict.fromkeys(without))
    if not calls:
        known = [name for name, record in vocabulary().items() if record.built and hasattr(word_class(record), METHOD)]
        mixes = f"; what mixes its positions is {others}" if others else ""
        raise InputError(f"this model has no attention maps{mixes}. Words that have them: {', '.join(sorted(known))}")
    return calls, [f"note: without maps: {others}"] if others else []


def has_weights(value: Value) -> bool:
    return hasattr(word_class(value.called.word), METHOD)


@contextmanager
def listening(model: nn.Module, hook: Any) -> Iterator[None]:
    """Call a forward hook after each module that has attention maps, and after its faces, which share its hooks."""
    modules = [module for module in model.modules() if hasattr(module, METHOD)]
    handles = [module.register_forward_hook(hook, with_kwargs=True) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def weights_in(model: Transformer, row: Mapping[str, Tensor], kept: Sequence[str]) -> list[Tensor]:
    """The weights (heads, queries, keys) of each call in `kept`, over one row."""
    view = evaluating(model)
    places = [place for place, value in named_calls(model.architecture) if has_weights(value)]
    weights: list[Tensor] = []
    seen = 0

    def look(module: Any, arguments: Any, named: Mapping[str, Any], _: Any) -> None:
        nonlocal seen
        if seen < len(places) and places[seen] in kept:
            given = {name: value for name, value in named.items() if name not in ("taps", "state", "at")}
            weights.append(getattr(module, METHOD)(*arguments, **given)[0])
        seen += 1

    with listening(view, look):
        view(**row)
    if seen != len(places):
        raise InputError(
            f"{len(places)} calls have attention maps, and {seen} were seen: a hook of this model runs its layers in"
            " another order, or two words share one module"
        )
    return weights


def measure_heads(weights: Tensor, own: bool, ids: Tensor | None) -> dict[str, Tensor]:
    """MEASURES of one row, each (2, heads): the sum over queries, and how many there were."""
    heads, queries, keys = weights.shape
    shares = weights.abs()
    shares = shares / shares.sum(-1, keepdim=True).clamp(min=1e-30)

    def sum_of(values: Tensor) -> Tensor:
        return torch.stack([values.sum(-1), torch.full((heads,), values.shape[-1], device=values.device)])

    sums = {"entropy": sum_of(-torch.special.xlogy(shares, shares).sum(-1) / np.log(2))}
    sums["first"] = sum_of(shares[:, 1:, 0])
    if not own or queries != keys:
        return sums
    place = torch.arange(keys, device=weights.device)
    sums["distance"] = sum_of((shares * (place[:, None] - place).abs()).sum(-1))
    sums["previous"] = sum_of(shares.diagonal(-1, 1, 2))
    sums["itself"] = sum_of(shares.diagonal(0, 1, 2)[:, 1:])
    if ids is not None and len(ids) == keys:
        again = torch.zeros(queries, keys, dtype=torch.bool, device=weights.device)
        again[:, 1:] = (ids[:, None] == ids[None, :-1]) & (place[1:] <= place[:, None])
        sums["induction"] = sum_of((shares * again).sum(-1)[:, again.any(-1)])
    return sums


def mean_of(sums: Sequence[Mapping[str, Tensor]], head: int) -> dict[str, float | None]:
    """The means of one head over all rows."""
    means: dict[str, float | None] = {}
    for name in MEASURES:
        parts = [each[name][:, head] for each in sums if name in each]
        total, count = torch.stack(parts).sum(0).tolist() if parts else (0.0, 0.0)
        means[name] = total / count if count else None
    return means
