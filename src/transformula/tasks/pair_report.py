"""The test of a model of pairs: which rows, what it writes for them, and the page of scores and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from ..data.overlap import find_overlap
from ..data.record import Record, Value
from ..data.settings import Named, Seq2SeqSettings
from ..data.source_target import SourceTargetRows, read_rows, references_of
from ..errors import ConfigError, DataError
from ..generation.settings import SearchSettings
from ..settings import Settings
from .evaluation import Report, Trained
from .scores.examples import best_and_worst
from .scores.report import Measure, ScoreReport, report
from .writing import Writing


class PairEvaluation(SearchSettings):
    """How targets are searched for; and of rows that are named in an evaluation, their columns."""

    source: str | None = Field(None, description="the column of the source, of --data; by default as in training")
    target: str | None = Field(None, description="the column of the target, of --data; by default as in training")
    references: str | None = Field(None, description="a column of --data with a list of texts that are right")
    join: str | None = Field(None, description="what the texts of a list in one column of --data are joined by")
    overlap: Literal["refuse", "keep"] = Field(
        "refuse", description="rows of --data that were learned from: an error, or scored all the same"
    )


Baselines = Callable[[Sequence[Record], Sequence[Record]], Mapping[str, Sequence[str]]]
"""Rows, and those that were learned from -> what trivial models write for the former, by name."""

COLUMNS = ("source", "target", "references", "join")


@dataclass(frozen=True, repr=False)
class PairReport(Report):
    """Scores on rows, with the best and the worst of them.

    how      the search, in words
    written  what was written for each row
    notes    what is to be known of the rows
    """

    scores: ScoreReport
    examples: Any
    how: str
    written: Sequence[str]
    notes: Sequence[str] = ()

    @property
    def data(self) -> dict[str, Any]:
        return {**self.scores.data, "search": self.how, "notes": list(self.notes), "examples_shown": self.examples.data}

    def __repr__(self) -> str:
        notes = "".join(f"\nnote: {note}" for note in self.notes)
        return f"{self.scores}\nsearch: {self.how}{notes}\n\n{self.examples}"


def rows_to_score(
    read: Callable[[Any], SourceTargetRows],
    kind: type[Settings],
    pictures: bool,
    trained: Trained,
    data: Named,
    given: Mapping[str, Any],
) -> tuple[Sequence[Record], Sequence[Record], list[str]]:
    """The rows to be scored, those that were learned from, as far as the run is known, and notes on the rows.

    read, kind  the task's rows, from its settings; and these
    pictures    sources are pictures

    Raises InputError: a model alone, and no rows named; columns of rows that are not named. DataError: rows of `data`
    that were learned from.
    """
    typed = {key: value for key, value in given.items() if key in COLUMNS and value is not None}
    rows: SourceTargetRows | None = None
    if trained.recorded and not trained.lost:
        rows = read(kind.read(trained.settings_of(kind)))
    if data is None:
        lost = [key for key in (*typed, "overlap") if key in given]
        if lost:
            raise ConfigError([f"{key}: is said of --data, and no rows are named there" for key in lost])
        if trained.lost:
            return _held_alone(pictures, trained), [], trained.notes
        if rows is None:
            raise trained.unknown("--data ROWS, for instance 'test.{de,en}'")
        split = "test" if trained.recorded.get("test") else "validation"
        notes = [note for note in rows.notes if note.startswith(f"{split}: ")]
        return rows.test, rows.training, notes
    known = {key: trained.recorded[key] for key in COLUMNS if key in trained.recorded}
    notes = trained.notes
    records = read_rows(data, Seq2SeqSettings.read({**known, **typed}), pictures, "data", notes)
    if rows is None:
        return records, [], notes
    overlap = find_overlap(rows.training, records, "--data", ("source", "target"))
    if overlap.rows and PairEvaluation.read(given).overlap == "refuse":
        raise DataError(
            f"{overlap}\nscores on rows that were learned from say nothing; if that is meant: --overlap keep"
        )
    return records, rows.training, notes


def _held_alone(pictures: bool, trained: Trained) -> list[Record]:
    """The rows that a run scores, where what it learned from is lost. Raises DataError where they were among these."""
    rows = trained.recorded.get("test") or trained.recorded.get("validation")
    if rows is None:
        raise trained.held_back()
    return read_rows(rows, Seq2SeqSettings.read(trained.settings_of(Seq2SeqSettings)), pictures, "test", [])


def scored(
    measure: Measure,
    baselines: Baselines,
    models: Sequence[Any],
    writing: Writing,
    records: Sequence[Record],
    learned: Sequence[Record] = (),
    search: SearchSettings | None = None,
    progress: Callable[[int, int], None] | None = None,
    notes: Sequence[str] = (),
) -> PairReport:
    """Write the targets of rows and score them beside the baselines.

    measure    what scores texts, the headline first
    baselines  what trivial models write for the rows, by name
    learned    the rows that were learned from, for baselines that need them
    """
    settings = search or SearchSettings()
    sources: list[Value] = [row["source"] for row in records]
    found = writing.write(models, sources, settings, progress=progress)
    texts, asked = [one[0].text for one in found], references_of(records)
    scores = report(measure, texts, asked, baselines(records, learned))
    shown = [s if isinstance(s, str) else row.place for s, row in zip(sources, records, strict=True)]
    examples = best_and_worst(scores.measured[0], texts, asked, shown)
    return PairReport(scores, examples, how_of(settings, writing, len(models)), texts, notes)


def how_of(settings: SearchSettings, writing: Writing, models: int = 1) -> str:
    """A search in words."""
    most = f"{settings.max_length or writing.usual} tokens"
    if settings.max_ratio is not None:
        most = f"{settings.max_ratio:g} times the source" + (f", {most}" if settings.max_length else "")
    said = [f"beam {settings.beam}", f"score {settings.formula}", f"at most {most}"]
    said += [f"at least {settings.min_length} tokens"] if settings.min_length else []
    said += [f"no {settings.block_ngrams} tokens in a row twice"] if settings.block_ngrams else []
    said += [f"{models} models, their {settings.ensemble} averaged"] if models > 1 else []
    return ", ".join(said)
