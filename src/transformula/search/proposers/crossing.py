"""Parents crossed with entries of the gallery: what differs between two graphs is taken over, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from ...analysis.canonical import formula_hash
from ...gallery import load, names
from ...language.check import check
from ...language.graph import Architecture
from ...language.inherited import name_of, names_in, with_names
from ...language.messages import FormulaError
from ...language.model_text import ModelText, StackText
from ...language.model_writing import write_text
from ..proposer import Proposer, proposers
from ..records import Leaderboard, ProposedModel
from ..sketch import Formula, Sketch

TRIES = 200  # pairs that are looked at for a proposal


@proposers.register("crossing")
class Crossing(Proposer):
    """A parent with one part of another wiring: the line that holds the same sublayer, or one that the parent has not,
    its definitions, how it norms, what stands before and after the layers."""

    def propose(
        self, board: Leaderboard, parents: dict[str, Architecture], known: set[str], count: int, chance: Random
    ) -> Sequence[ProposedModel]:
        proposals: list[ProposedModel] = []
        seen, entries = set(known), list(names())
        for _ in range(TRIES * count):
            if len(proposals) == count:
                break
            own = chance.choice([*parents])
            other = chance.choice(entries)
            crossed = [*crossings(Sketch(parents[own], self.vocabulary), self.sketch_of(other))]
            if not crossed:
                continue
            text, part = chance.choice(crossed)
            try:
                hashed = formula_hash(check(text, self.vocabulary))
            except FormulaError:
                continue
            if hashed not in seen:
                seen.add(hashed)
                proposals.append(ProposedModel(write_text(text), f"{part} of {other}", "crossing", own))
        return proposals

    def sketch_of(self, name: str) -> Sketch:
        return Sketch(check(load(name), self.vocabulary), self.vocabulary)


def crossings(own: Sketch, other: Sketch) -> Iterator[tuple[ModelText, str]]:
    """The text of `own` with one part of `other`, and which part that is."""
    if len(own.text.stacks) != 1 or len(other.text.stacks) != 1:
        return
    mine, theirs = own.text.stacks[0], other.text.stacks[0]
    for part in ("before", "after"):
        if getattr(theirs, part) is not None and getattr(theirs, part) != getattr(mine, part):
            yield taken(own, other, replace(mine, **{part: getattr(theirs, part)})), f"what stands {part} the layers"
    if len(own.formulas) == len(other.formulas) == 1:
        yield from crossed_lines(own, other, own.formulas[0], other.formulas[0])
    read = {*names_in(own.text), "norm"}
    for header, body in other.text.words.items():
        if name_of(header) in read and own.text.words.get(header) != body:
            kept = {key: text for key, text in own.text.words.items() if name_of(key) != name_of(header)}
            own_words = Sketch(
                replace(own.architecture, text=replace(own.text, words={header: body, **kept})), own.vocabulary
            )
            yield taken(own_words, other, mine), f"the definition of {name_of(header)}"


def crossed_lines(own: Sketch, other: Sketch, mine: Formula, theirs: Formula) -> Iterator[tuple[ModelText, str]]:
    """A line for the line that holds the same sublayer; and one with a sublayer that no line holds, before the others
    or after them."""
    lines = [(line.name, line.value) for line in mine.lines]
    own_words = {mine.called(line.value) for line in mine.lines}
    for foreign in theirs.lines:
        word = theirs.called(foreign.value)
        if theirs.known.has_sublayer(foreign.value) and word not in own_words:
            added = (foreign.name, foreign.value)
            for rows, place in (([added, *lines], "before"), ([*lines, added], "after")):
                yield taken(own, other, mine.with_lines(rows).stacks[0]), f"the line of {word}, {place} the others,"
    for number, line in enumerate(mine.lines):
        word = mine.called(line.value)
        for foreign in theirs.lines:
            if mine.known.has_sublayer(line.value) and theirs.called(foreign.value) == word:
                rows = [*lines[:number], (foreign.name, foreign.value), *lines[number + 1 :]]
                text = mine.with_lines(rows)
                yield taken(own, other, text.stacks[0]), f"the line of {word}"


def taken(own: Sketch, other: Sketch, stack: StackText) -> ModelText:
    """A text with a stack that may call the other's definitions and read its numbers, without what nothing reads."""
    text = with_names(replace(own.text, stacks=(stack,)), other.text, (), ())
    while True:
        read = names_in(text)
        words = {header: body for header, body in text.words.items() if name_of(header) in (*read, "norm")}
        numbers = {key: number for key, number in text.numbers.items() if key in (*read, *own.text.numbers)}
        if (words, numbers) == (text.words, text.numbers):
            return text
        text = replace(text, words=words, numbers=numbers)
