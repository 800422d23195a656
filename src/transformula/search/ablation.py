"""Which of a found wiring's changes carried its gain: each part in which it differs from the base is put back alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..analysis.canonical import formula_hash
from ..api.reading import check_model
from ..errors import TransformulaError
from ..language.model_text import ModelText
from ..language.model_writing import write_text
from ..language.source import Source
from .race import Race
from .records import Contender

SEED = 2000  # the first of an ablation's seeds, above those of races and of confirmations


@dataclass(frozen=True)
class PartWorth:
    """A wiring with one part put back.

    part  what was put back, in words; kept: what the wiring has there, base: what the base has
    lost  the gain that went with it, by seed
    """

    part: str
    kept: str
    base: str
    lost: Mapping[int, float]

    @property
    def mean(self) -> float:
        return sum(self.lost.values()) / len(self.lost)


def ablate(race: Race, found: Contender, seeds: int = 3) -> list[PartWorth]:
    """What each part of a wiring is worth, at the steps of the last rung, on seeds of its own."""
    own, base = (race.admission.read(model) for model in (found.model, race.base.model))
    rows = list(reverted(own, base, race.admission.use))
    names = {f"{found.name} without {part}": part for part, *_ in rows}
    candidates = [
        Contender(name, write_text(replace(text, name=name)), part, "ablation", found.name)
        for (name, part), (_, _, _, text) in zip(names.items(), rows, strict=True)
    ]
    if not candidates:
        return []
    chosen = list(range(race.plan.settings.seed + SEED, race.plan.settings.seed + SEED + seeds))
    gains = race.measure([found, *candidates], race.plan.steps[-1], chosen)
    return [
        PartWorth(part, kept, was, {seed: gains[found.name][seed] - gains[one.name][seed] for seed in chosen})
        for one, (part, kept, was, _) in zip(candidates, rows, strict=True)
    ]


def reverted(own: ModelText, base: ModelText, use: tuple[str, ...]) -> Iterator[tuple[str, str, str, ModelText]]:
    """(part, the wiring's, the base's, the text with the base's part), for parts that can be put back alone."""
    known = {formula_hash(check_model(text, use=use)) for text in (own, base)}
    for part, kept, was, text in parts(own, base):
        try:
            hashed = formula_hash(check_model(text, use=use))
        except TransformulaError:  # such as a line that calls a definition which is put back
            continue
        if hashed not in known:
            known.add(hashed)
            yield part, kept, was, text


def parts(own: ModelText, base: ModelText) -> Iterator[tuple[str, str, str, ModelText]]:
    """Everything in which two texts of one stack differ: formulas around the layers, lines of layers, definitions."""
    if not (own.single and base.single):
        return
    (mine,), (theirs,) = own.stacks, base.stacks
    for key in ("before", "after", "share"):
        one, two = getattr(mine, key), getattr(theirs, key)
        if said(one) != said(two):
            yield key, said(one), said(two), replace(own, stacks=(replace(mine, **{key: two}),))
    if mine.layers.keys() == theirs.layers.keys() == {"layer"}:
        lines, others = (stack.layers["layer"].text.strip().splitlines() for stack in (mine, theirs))
        if len(lines) == len(others):
            for number, (line, other) in enumerate(zip(lines, others, strict=True)):
                if line.strip() != other.strip():
                    mixed = "\n".join([*lines[:number], other, *lines[number + 1 :]])
                    layers = {"layer": Source("layer", mixed)}
                    text = replace(own, stacks=(replace(mine, layers=layers),))
                    yield f"line {number + 1}", line.strip(), other.strip(), text
        else:
            for number, line in enumerate(lines):
                if line not in others:
                    kept = "\n".join([*lines[:number], *lines[number + 1 :]])
                    text = replace(own, stacks=(replace(mine, layers={"layer": Source("layer", kept)}),))
                    yield f"line {number + 1}", line.strip(), "none", text
    for header in {**own.words, **base.words}:
        one, two = own.words.get(header), base.words.get(header)
        if said(one) != said(two):
            words = {key: body for key, body in own.words.items() if key != header}
            words |= {} if two is None else {header: two}
            yield f"definition {header}", said(one), said(two), replace(own, words=words)


def said(source: Source | None) -> str:
    return "none" if source is None else source.text.strip()
