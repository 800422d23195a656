"""Activation patching: which values of a clean run, put into a corrupted one, bring the clean answer back.

    recovered = (m(patched) - m(corrupted)) / (m(clean) - m(corrupted)),   m = log P(clean answer) - log P(other answer)

at the last position (Meng et al. 2022; Zhang and Nanda 2024). 1: the place carries all that tells the two apart; 0:
nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..analysis.by_depth import by_depth
from ..cost.words import table
from ..errors import InputError
from ..figure import new_panels
from ..model.transformer import Transformer, evaluating
from ..model.watched import watched
from .lens import log_shares
from .places import Row, recorder, select_places
from .shown import Shown, draw_shades

TABLE_POSITIONS = 12  # the last ones of a row, in a table


@dataclass(frozen=True)
class PatchedRole:
    """The places of one kind, by depth: a stream, or what one kind of sublayer adds.

    recovered  for each place, the share at each position; whole: with all positions at once
    """

    stack: str
    role: str
    places: Sequence[str]
    recovered: Sequence[Sequence[float]]
    whole: Sequence[float]
    labels: Sequence[str]

    @property
    def title(self) -> str:
        return f"{self.stack}, {self.role}" if self.stack else self.role


@dataclass(frozen=True, repr=False)
class Patching(Shown):
    """What `inspect(run, "patch")` returns.

    answers  the clean answer and the corrupted one, as a person reads them; equal where the two runs have one answer,
             whose log probability alone is then measured
    clean, corrupted  m of the two runs
    """

    roles: Sequence[PatchedRole]
    answers: tuple[str, str]
    clean: float
    corrupted: float
    notes: Sequence[str] = ()
    look = "patch"
    title = "share of the clean answer that each place brings back"

    @property
    def measure(self) -> str:
        clean, other = self.answers
        return f"log P({clean!r})" + ("" if clean == other else f" - log P({other!r})")

    @property
    def data(self) -> dict[str, Any]:
        return {**super().data, "measure": self.measure}

    def __repr__(self) -> str:
        parts = []
        for role in self.roles:
            head = [role.title, *role.labels[-TABLE_POSITIONS:], "all"]
            values = [[*row[-TABLE_POSITIONS:], whole] for row, whole in zip(role.recovered, role.whole, strict=True)]
            rows = [[place, *(f"{n:z.2f}" for n in row)] for place, row in zip(role.places, values, strict=True)]
            parts.append("\n".join([*table([head, *rows]), ""]))
        last = (
            f"recovered of {self.measure}: {self.clean:.3f} in the clean run, {self.corrupted:.3f} in the corrupted one"
        )
        return "\n".join([*parts, last, *self.notes])

    @cached_property
    def figure(self) -> Any:
        """A heat map for each role: positions to the right, depth downward."""
        longest = max(len(role.labels) for role in self.roles)
        depth = max(len(role.places) for role in self.roles)
        width, height = max(3.6, 0.3 * longest + 1.6), max(2.4, 0.28 * depth + 1.2)
        with new_panels([width] * len(self.roles), height) as (figure, panels):
            for axes, role in zip(panels, self.roles, strict=True):
                draw_shades(axes, role.recovered)
                axes.set_yticks([n + 0.5 for n in range(len(role.places))], map(layer_label, role.places))
                axes.set_xticks([n + 0.5 for n in range(len(role.labels))], role.labels, rotation=90)
                axes.tick_params(length=0, labelsize=7)
                axes.set_title(role.title, fontsize=9, loc="left")
            figure.suptitle("recovered: full blue 1, none 0, orange below", fontsize=9)
        return figure


def layer_label(place: str) -> str:
    """'layer 3' of layers.3.line1.add.right; 'in' of what enters the layers."""
    layer = re.search(r"layers\.(\d+)\.(?!entering)", place)
    return f"layer {layer[1]}" if layer else "in"


def patch(
    model: Transformer, clean: Row, corrupted: Row, *, at: Sequence[str] = (),
    labels: Mapping[str, Sequence[str]] | None = None, pieces: Callable[[int], str] = str,
    progress: Callable[[int, int], None] | None = None,
) -> Patching:  # fmt: skip
    """Put each value of a clean run, one place and position at a time, into a corrupted run.

    clean, corrupted  two rows of equal lengths
    at                names of places, or what they begin with: of streams and of what sublayers add; all by default
    labels            the pieces of the clean row, by input
    pieces            an id of the output as a person reads it

    Raises InputError for rows that differ in length, and for runs that cannot be told apart.
    """
    for name, tensor in clean.items():
        if tensor.shape != corrupted[name].shape:
            sizes = f"{tensor.shape[1]:,} positions of {name}, the corrupted one {corrupted[name].shape[1]:,}"
            raise InputError(
                f"the clean text has {sizes}: patching needs two of equal length; change words, not their number"
            )
    view = evaluating(model)
    with torch.no_grad():
        whole, other = log_shares(view(**clean))[-1], log_shares(view(**corrupted))[-1]
    answer, rival = int(whole.argmax()), int(other.argmax())

    def measure(shares: Tensor) -> float:
        return float(shares[answer] - (shares[rival] if rival != answer else 0))

    best, worst = measure(whole), measure(other)
    if abs(best - worst) < 1e-6:
        raise InputError("the two runs end alike, so that there is nothing to recover; take texts that differ in more")
    roles = roles_of(model, at)
    kept = recorder(model, [place for _, _, places in roles for place in places])(clean)
    total, done, patched = sum(len(places) for *_, places in roles), 0, []
    for stack, role, places in roles:
        shares, size = [], 0
        for place in places:
            size = kept[place].shape[1]
            ends = patched_ends(view, corrupted, place, kept[place])
            shares.append([(measure(each) - worst) / (best - worst) for each in ends])
            done += 1
            if progress is not None:
                progress(done, total)
        names = next(
            (list(each) for each in (labels or {}).values() if len(each) == size), [str(n) for n in range(size)]
        )
        positions, whole_ = [row[:-1] for row in shares], [row[-1] for row in shares]
        patched.append(PatchedRole(stack, role, places, positions, whole_, names))
    alike = ["note: both texts end in the same answer; texts whose answers differ say more"] if answer == rival else []
    return Patching(patched, (pieces(answer), pieces(rival)), best, worst, alike)


def roles_of(model: Transformer, at: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """(stack, role, places by depth) of each stream and of each kind of write."""
    roles: list[tuple[str, str, list[str]]] = []
    for stack in by_depth(model.architecture):
        roles += [(stack.stack, f"stream {name}", [p for p in ps if p]) for name, ps in stack.streams.items()]
        roles += [(stack.stack, role, [write.branch for write in ws if write]) for role, ws in stack.writes.items()]
    kept = set(select_places([place for *_, places in roles for place in places], at))
    chosen = [(stack, role, [place for place in places if place in kept]) for stack, role, places in roles]
    return [row for row in chosen if row[2]]


@torch.no_grad()
def patched_ends(view: Transformer, corrupted: Row, place: str, clean: Tensor) -> Tensor:
    """Log probabilities (positions + 1, classes) at the end of the corrupted run, where the clean value stands at one
    position of a place: a row for each position, and one where it stands at all."""
    count = clean.shape[1]
    which = torch.arange(count, device=clean.device)

    def put(_: str, tensor: Tensor) -> Tensor:
        rows = tensor.clone()
        rows[which, which] = rows[count] = clean[0].to(rows.dtype)
        return rows

    batch = {name: tensor.expand(count + 1, *tensor.shape[1:]) for name, tensor in corrupted.items()}
    output: Any = watched(view, {place: put})(**batch)
    logits: Tensor = next(iter(output.values())) if isinstance(output, dict) else output
    return logits.reshape(count + 1, -1, logits.shape[-1])[:, -1].double().log_softmax(-1)
