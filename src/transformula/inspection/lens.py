"""The lens: what a model would say if it stopped after a layer.

The layers behind are skipped: the names that they would set go on as they are, to `after`, to the output, and to what
else reads them, such as another stack. For a decoder with `after: x = norm(x)` that is the final norm and the head,
applied to the stream (the logit lens: nostalgebraist 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..analysis.places import SectionPlaces, prefix_of, through
from ..cost.words import table
from ..errors import InputError
from ..figure import GROUND, INK, new_panels
from ..language.graph import Architecture, Section, Stack, Value
from ..model.transformer import Transformer, evaluating
from ..model.watched import Watch, watched
from .places import Row
from .shown import Shown, cell, draw_by_depth, draw_shades

TOP_TOKENS = 5  # that are kept for each position
TABLE_POSITIONS = 12  # of the first row, in a table
DRAWN_POSITIONS = 24  # in a picture


@dataclass(frozen=True)
class LensDepth:
    """What a model says that stops after one layer; means over all positions of all rows.

    layer      after which it stops: "before" for none
    kl         KL(whole model || this), nats; agreement: share of positions whose first choice is the whole model's
    loss       of the targets, nats, where they are known
    tokens     of the first row, for each position the TOP_TOKENS most probable ids and their probabilities
    """

    layer: str
    kl: float
    agreement: float
    loss: float | None
    tokens: Sequence[Sequence[tuple[int, float]]] = field(repr=False)


@dataclass(frozen=True, repr=False)
class Lens(Shown):
    """What `inspect(run, "lens")` returns.

    stack   the stack whose layers are skipped; depths: from none of its layers to all
    pieces  of all ids that are shown, as a person reads them
    inputs  the pieces of the first row, where the output has a position for each
    """

    stack: str
    depths: Sequence[LensDepth]
    pieces: Mapping[int, str]
    inputs: Sequence[str] = ()
    rows: int = 1
    notes: Sequence[str] = ()
    look = "lens"
    title = "what the model would say after each layer"

    def first_choices(self, most: int) -> list[tuple[str, list[tuple[str, float]]]]:
        """For each depth the first choice at the last `most` positions of the first row."""
        return [(d.layer, [(self.pieces[row[0][0]], row[0][1]) for row in d.tokens[-most:]]) for d in self.depths]

    def __repr__(self) -> str:
        rows = [["after", "KL", "agreement", "loss"]]
        for each in self.depths:
            rows.append([each.layer, cell(each.kl), f"{each.agreement:.0%}", cell(each.loss, ".4f")])
        parts = table(rows)
        choices = self.first_choices(TABLE_POSITIONS)
        if choices:
            above = [["read", *self.inputs[-len(choices[0][1]) :]]] if self.inputs else []
            parts += ["", *table([*above, *([layer, *(piece for piece, _ in row)] for layer, row in choices)], 99)]
        return "\n".join([*parts, *self.notes])

    @cached_property
    def figure(self) -> Any:
        """The first choices at each depth and position, darker for more probable ones, beside KL and loss by depth."""
        choices = self.first_choices(DRAWN_POSITIONS)
        count = len(choices[0][1])
        with new_panels([max(4.0, 0.55 * count), 3.6], max(3.0, 0.32 * len(choices) + 1)) as (figure, (left, right)):
            draw_shades(left, [[share for _, share in row] for _, row in choices])
            for depth, (_, row) in enumerate(choices):
                for place, (piece, share) in enumerate(row):
                    color = GROUND if share > 0.55 else INK
                    left.text(place + 0.5, depth + 0.5, piece[:8], ha="center", va="center", fontsize=7, color=color)
            left.set_yticks([n + 0.5 for n in range(len(choices))], [layer for layer, _ in choices])
            read = [piece[:8] for piece in self.inputs[-count:]] or [str(n) for n in range(count)]
            left.set_xticks([n + 0.5 for n in range(count)], read)
            left.tick_params(length=0, labelsize=7)
            left.set_title("first choice after each layer, by position", fontsize=9, loc="left")
            lines: dict[str, list[float | None]] = {"KL to the whole model": [each.kl for each in self.depths]}
            if self.depths[0].loss is not None:
                lines["loss"] = [each.loss for each in self.depths]
            draw_by_depth(right, "nats", lines, first=0)
        return figure


def lens(
    model: Transformer, rows: Sequence[Row], *, stack: str = "", loss: Callable[[nn.Module], float] | None = None,
    pieces: Callable[[int], str] = str, inputs: Sequence[str] = (),
) -> Lens:  # fmt: skip
    """What a model says that stops after each of a stack's layers, over some rows.

    stack  its name; by default the last one
    loss   the loss of a model; by default that of the next token, for a causal model of tokens

    Raises InputError for an unknown stack.
    """
    architecture = model.architecture
    chosen = next((s for s in architecture.stacks if s.name == stack), None) if stack else architecture.main
    if chosen is None:
        known = ", ".join(s.name for s in architecture.stacks if s.name) or "it has one stack without a name"
        raise InputError(f"this model has no stack {stack!r}: {known}")
    view = evaluating(model)
    with torch.no_grad():
        whole = [log_shares(view(**row)) for row in rows]
        depths = []
        for depth in range(chosen.depth + 1):
            twin = stop_after(view, chosen, depth)
            here = [log_shares(twin(**row)) for row in rows]
            label = prefix_of(chosen.layers[depth - 1]) if depth else "before"
            nats = loss(twin) if loss is not None else next_loss(here, rows) if architecture.main.causal else None
            depths.append(compare_depth(label, whole, here, nats))
    positions = len(depths[0].tokens)
    shown = {number: pieces(number) for depth in depths for row in depth.tokens for number, _ in row}
    return Lens(chosen.name, depths, shown, inputs if len(inputs) == positions else (), len(rows))


def log_shares(output: Any) -> Tensor:
    """Log probabilities (positions, classes) of one row's output; of several outputs those of the first."""
    logits: Tensor = next(iter(output.values())) if isinstance(output, Mapping) else output
    return logits[0].reshape(-1, logits.shape[-1]).double().log_softmax(-1)


def compare_depth(layer: str, whole: Sequence[Tensor], here: Sequence[Tensor], loss: float | None) -> LensDepth:
    """The measures of one depth, whose outputs are `here`."""
    kl = torch.cat([(w.exp() * (w - h)).sum(-1) for w, h in zip(whole, here, strict=True)])
    same = torch.cat([w.argmax(-1) == h.argmax(-1) for w, h in zip(whole, here, strict=True)])
    best = here[0].exp().topk(min(TOP_TOKENS, here[0].shape[-1]))
    tokens = [
        list(zip(ids, shares, strict=True))
        for ids, shares in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    return LensDepth(layer, float(kl.mean()), float(same.double().mean()), loss, tokens)


def next_loss(shares: Sequence[Tensor], rows: Sequence[Row]) -> float | None:
    """The mean -log P of each row's next tokens; None where its tokens are not what the output stands for."""
    nats = []
    for each, row in zip(shares, rows, strict=True):
        tokens = row.get("tokens")
        if tokens is None or tokens.shape[1] != len(each) or len(each) < 2 or int(tokens.max()) >= each.shape[-1]:
            return None
        nats.append(-each[:-1].gather(1, tokens[0, 1:, None]))
    return float(torch.cat(nats).mean())


def stop_after(model: Transformer, stack: Stack, depth: int) -> Transformer:
    """The model as if the layers of a stack behind number `depth` were not there."""
    kept: dict[str, Tensor] = {}
    functions: dict[str, Watch] = {}

    def keep(place: str, tensor: Tensor) -> None:
        kept[place] = tensor

    for place, name, at_least in readings(model.architecture, stack):
        source = place_after(model.architecture, stack, name, depth)
        if at_least > depth and source is not None:
            functions[source] = keep
            functions[place] = lambda _, tensor, source=source: kept[source].expand_as(tensor)  # type: ignore[misc]
    if depth == stack.depth:
        return model
    return watched(model, functions)


def readings(architecture: Architecture, stack: Stack) -> list[tuple[str, str, int]]:
    """Where something outside a stack's layers reads what they left: (its place, the name, the layer that it reads)."""
    found = []
    for section in architecture.sections():
        named = SectionPlaces(section) if section not in stack.layers else None
        for value in named.names if named is not None else ():
            if value.op in ("name", "history") and leaves_layers(value, section, stack, architecture):
                layer = int(value.number) if value.op == "history" else stack.depth
                name = "x" if value.op == "name" and value.stack else value.name
                found.append((f"{prefix_of(section)}.{named.name(value)}", name, layer))  # type: ignore[union-attr]
    return found


def leaves_layers(value: Value, section: Section, stack: Stack, architecture: Architecture) -> bool:
    """Whether what a section reads is what the stack's layers left, and not what its `after` made of it."""
    if value.op == "history":
        return (value.stack or section.stack) == stack.name
    if value.stack or section is not stack.after:
        of_stack = (
            value.stack == stack.name if value.stack else section is architecture.output and stack is architecture.main
        )
        return of_stack and ("x" if value.stack else value.name) not in stack.after.leaves
    return True


def place_after(architecture: Architecture, stack: Stack, name: str, depth: int) -> str | None:
    """The place of a name's value behind layer `depth`: where it was last set. None where no layer sets it, or where
    nothing has set it so early."""
    if not any(name in section.leaves for section in stack.layers):
        return None
    for section in (*stack.layers[:depth][::-1], stack.before):
        if name in section.leaves:
            value, named = through(section.leaves[name]), SectionPlaces(section)
            return f"{prefix_of(section)}.{named.name(value)}" if value in named.names else None
    return None
