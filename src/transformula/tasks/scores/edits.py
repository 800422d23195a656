"""Error rates: by how many insertions, deletions and substitutions what was written differs from what is right.

    error rate = 100 (insertions + deletions + substitutions) / words, or characters, of the references

of all rows together, as jiwer and sclite have it: a long row counts for more than a short one, and where much is
inserted it is above 100. Words are what stands between blanks, and a blank between words is a character.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...cost.words import table
from .measured import Measured, Numbers, ReportPart, check_as_many, of_sums, ratio

LISTED_SPEAKERS = 12  # of a table, those with the most errors


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """How many insertions, deletions and substitutions make one sequence the other (Levenshtein), at least."""
    numbers = {item: number for number, item in enumerate(dict.fromkeys([*one, *other]))}
    columns = np.array([numbers[item] for item in other], dtype=np.int64)
    places = np.arange(len(columns) + 1)
    row = places.copy()
    for number, item in enumerate(one, 1):
        best = np.minimum(row[1:] + 1, row[:-1] + (columns != numbers[item]))
        # what is inserted costs one each: the minimum over all places before
        row = np.minimum.accumulate(np.concatenate([[number], best]) - places) + places
    return int(row[-1])


def word_error_rate(predictions: Sequence[str], references: Sequence[str]) -> Measured:
    """Raises InputError."""
    return error_rate("word error rate", [text.split() for text in predictions], [text.split() for text in references])


def character_error_rate(predictions: Sequence[str], references: Sequence[str]) -> Measured:
    """Raises InputError."""
    one, other = ([" ".join(text.split()) for text in texts] for texts in (predictions, references))
    return error_rate("character error rate", one, other)


def error_rate(
    name: str, predictions: Sequence[Sequence[Hashable]], references: Sequence[Sequence[Hashable]]
) -> Measured:
    check_as_many(predictions, references)
    pairs = zip(predictions, references, strict=True)
    counts = np.array([[edit_distance(one, other), len(other)] for one, other in pairs], dtype=np.float64)

    def value(sums: Numbers) -> Numbers:
        return 100 * ratio(sums[:, 0], sums[:, 1])

    return of_sums(name, f"edits, {int(counts[:, 1].sum())} in the references", counts, value, value(counts),
                   digits=2, higher=False)  # fmt: skip


@dataclass(frozen=True)
class BySpeaker(ReportPart):
    """rows  of each speaker: rows, words of the references, and errors; most errors per word first"""

    rows: dict[str, tuple[int, int, int]]

    name = "by_speaker"

    @property
    def data(self) -> list[dict[str, Any]]:
        return [
            {"speaker": speaker, "rows": rows, "words": words, "errors": errors,
             "word_error_rate": 100 * errors / max(words, 1)}
            for speaker, (rows, words, errors) in self.rows.items()
        ]  # fmt: skip

    def __str__(self) -> str:
        shown = self.data[:LISTED_SPEAKERS]
        more = f", the {len(shown)} with the most errors" if len(self.rows) > len(shown) else ""
        lines = [["speaker", "word error rate", "errors", "words", "rows"]]
        for each in shown:
            counts = (f"{each[key]:,}" for key in ("errors", "words", "rows"))
            lines.append([each["speaker"], f"{each['word_error_rate']:.2f}", *counts])
        return "\n".join([f"by speaker: {len(self.rows):,} of them{more}", *table(lines)])


def by_speaker_table(predictions: Sequence[str], references: Sequence[str], speakers: Sequence[str]) -> BySpeaker:
    """The word error rate of each speaker's rows."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for text, right, speaker in zip(predictions, references, speakers, strict=True):
        words = right.split()
        for place, count in enumerate((1, len(words), edit_distance(text.split(), words))):
            sums[speaker][place] += count
    ordered = sorted(sums, key=lambda speaker: (-sums[speaker][2] / max(sums[speaker][1], 1), speaker))
    return BySpeaker({speaker: (sums[speaker][0], sums[speaker][1], sums[speaker][2]) for speaker in ordered})
