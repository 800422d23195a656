"""How far back a position sees (the receptive field of a stack), and what tells positions apart (encodings)."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from ..language.context import ROTARY
from ..language.graph import Call, ScoreFormula, Stack, Value
from ..language.numbers import evaluate_text
from ..language.vocabulary import REACHES
from ..plain import keys
from .initial_scale import sources
from .lines import spans


@dataclass(frozen=True)
class ReceptiveField:
    """What of its own sequence a position sees, through all layers of a stack.

    reach   "token": itself; "past": what stands before it too; "all": every position
    back    how many positions back through the whole stack; None: as far as the sequence goes
    layer   the furthest back that one layer sees; None: as far as the sequence goes
    others  other sequences that the stack reads
    """

    reach: str
    back: int | None
    layer: int | None
    others: tuple[str, ...] = ()

    data = keys("reach back back_a_layer=layer others")

    def __str__(self) -> str:
        far = f"{self.layer:,}" if self.layer is not None else ""
        if self.reach == "token":
            text = "only itself: nothing mixes positions"
        elif self.reach == "all":
            text = "all positions of its sequence"
        elif self.back is None:
            text = f"itself and all positions before it{f' ({far} back in one layer)' if far else ''}"
        else:
            text = f"itself and {self.back:,} positions before it through the whole stack"
            text += f", {far} in one layer" if far else ""
        return text + (f"; and all of {', '.join(self.others)}" if self.others else "")


def back_of(call: Call) -> float:
    """How many positions back one call sees; infinite where nothing bounds it."""
    if call.word.reach == "token":
        return 0
    if not call.word.back or call.word.reach == "all":
        return math.inf
    back = float(evaluate_text(call.word.back, {"length": math.inf, **call.numbers, **call.options}))
    return max(0.0, back)


def looks_ahead(call: Call) -> bool:
    """Whether an option makes a call see as far ahead as back."""
    return bool(call.word.ahead) and bool(evaluate_text(call.word.ahead, call.options))


def looks_around(call: Call) -> bool:
    """Whether a call reads positions other than its own. One that makes a stream does where it says how far back."""
    word = call.word
    return word.reach != "token" and word.kind != "scores" and (word.kind != "input" or word.back != "")


def receptive_field(stack: Stack) -> ReceptiveField:
    """That of a whole stack: the longest way back through the graph of `before`, its layers and `after`."""
    reach, widest = "token", 0.0
    others: dict[str, None] = {}
    seen: dict[Value, float] = {}
    standing_for = sources(stack.sections())
    for value in (value for section in stack.sections() for value in section.values):
        arguments = (standing_for[value],) if value in standing_for else value.args
        far = max((seen.get(a, 0.0) for a in arguments), default=0.0)
        call = value.call
        if call is not None and looks_around(call):
            sequences = {a.sequence for a in value.args[: len(call.streams)] if a.sequence}
            others.update(dict.fromkeys(sorted(sequences - {value.sequence, ""})))
            if len(sequences) == 1 and (value.sequence in sequences or not value.sequence):
                here = back_of(call)
                # a window or a shift sees only what stands before it in a stack that sees all, too
                looks_back = stack.causal or (math.isfinite(here) and not (call.word.centered or looks_ahead(call)))
                past_only = call.word.reach == "past" and looks_back
                reach = max(reach, "past" if past_only else "all", key=[*REACHES].index)
                widest = max(widest, here)
                far += here
        seen[value] = far
    back, layer = (int(far) if math.isfinite(far) else None for far in (max(seen.values(), default=0.0), widest))
    # a sequence is named as a person knows it: that of the input, or of the word that made it
    return ReceptiveField(reach, back, layer, tuple(name.split(".")[0] for name in others))


@dataclass(frozen=True)
class PositionalEncoding:
    """One thing that tells positions apart.

    kind   "learned", "sinusoids", "rotary", "scores" (relative ones, or a formula over i and j), "recurrent" (also
           convolutions and shifts)
    where  the sections in which it stands: "before", "layers 1-12"
    words  as a person reads it: "rotary, base 10,000"
    """

    kind: str
    words: str
    where: str

    @property
    def absolute(self) -> bool:
        """Whether it says which position, not how far apart two are."""
        return self.kind in ("learned", "sinusoids")

    data = keys("kind words where")

    def __str__(self) -> str:
        return f"{self.words} in {'`before`' if self.where == 'before' else self.where}"


def positional_encodings(stack: Stack) -> list[PositionalEncoding]:
    """What tells the positions of a stack's sequence apart, in order of the text; equal ones once."""
    places: dict[tuple[str, str], list[int]] = {}
    leaves = sorted(stack.before.leaves.items(), key=lambda item: item[0] != "x")
    main = next((value.sequence for _, value in leaves if value.sequence), "")
    for section in stack.sections():
        for value in section.calls():
            kind, words = _tells(value, value.called, main)
            if kind:
                at = -1 if section.where == "after" else section.number
                places.setdefault((kind, words), []).append(at)

    def where(at: Collection[int]) -> str:
        layers = sorted({number for number in at if number > 0})
        inside = "every layer" if len(layers) == stack.depth > 1 else f"layers {spans(layers)}" if layers else ""
        return " and ".join(filter(None, ("before" if 0 in at else "", inside, "after" if -1 in at else "")))

    return [PositionalEncoding(kind, words, where(at)) for (kind, words), at in places.items()]


def _tells(value: Value, call: Call, main: str) -> tuple[str, str]:
    """The kind of encoding that a call is and its words; ("", "") for none."""
    word, options = call.word, call.options
    base = evaluate_text(word.rotary, options) if word.rotary else 0
    if base:
        formulas = [o for o in options.values() if isinstance(o, ScoreFormula) and o.option in ROTARY]
        return "rotary", ", ".join([f"rotary, base {base:,}", *(f"{o.option} {o.name}" for o in formulas)])
    score = next((o for o in options.values() if isinstance(o, ScoreFormula) and o.option == "score"), None)
    if score is not None and score.ordered:
        return "scores", f"the score formula {score.name}"
    kind = evaluate_text(word.order, options) if word.order else ""
    if not kind and word.ordered:
        kind = "scores" if word.kind == "scores" else "recurrent"
    match kind:
        case "learned" | "sinusoids" if main and value.sequence != main:
            return "", ""  # a table of a sequence of its own (of distances) says nothing of the stream's positions
        case "learned":
            return kind, f"learned {call.name}"
        case "scores":
            return kind, f"relative scores ({call.name})"
        case "recurrent" if call.name != word.name:
            return kind, f"{call.name} ({word.name})"
    return kind, call.name if kind else ""
