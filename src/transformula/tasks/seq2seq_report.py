"""The test of a model that writes targets: which rows are scored, and what it writes for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from ..data.overlap import find_overlap
from ..data.record import Record
from ..data.settings import Named, Seq2SeqSettings
from ..data.source_target import SourceTargetRows, read_rows, references_of
from ..errors import ConfigError, DataError
from ..generation.settings import SearchSettings
from ..settings import Settings
from .evaluation import Trained
from .predictor import Progress
from .scores.baselines import Baseline, texts_by
from .scores.report import Measure, ScoreReport, report
from .seq2seq_data import RowSource
from .writing import Writing


class Seq2SeqEvaluation(SearchSettings):
    """How targets are searched for; and the columns of the rows of --data."""

    source: str | None = Field(None, description="the column of the source in --data; by default as in training")
    target: str | None = Field(None, description="the column of the target in --data; by default as in training")
    references: str | None = Field(None, description="a column of --data with a list of texts, each of them right")
    join: str | None = Field(None, description="what joins the texts of a list in one column of --data")
    overlap: Literal["refuse", "keep"] = Field(
        "refuse", description="rows of --data that are also in the training set: refuse them, or keep and score them"
    )


COLUMNS = ("source", "target", "references", "join")


def rows_to_score(
    source: RowSource, kind: type[Settings], trained: Trained, data: Named, given: Mapping[str, Any]
) -> tuple[Sequence[Record], Sequence[Record], list[str]]:
    """The rows to be scored, those of training as far as the run is known, and notes on the rows.

    source, kind  the task's, and its settings

    Raises InputError: a model alone, and no rows named; columns of rows that are not named. DataError: rows of `data`
    that are also training rows.
    """
    typed = {key: value for key, value in given.items() if key in COLUMNS and value is not None}
    recorded, notes = trained.recorded, trained.notes
    rows: SourceTargetRows | None = None
    if recorded and not trained.lost:
        rows = source.read(kind.read(trained.settings_of(kind)))
    if data is None:
        unread = [key for key in (*typed, "overlap") if key in given]
        if unread:
            raise ConfigError(
                [
                    f"{key}: is for the rows of --data, and none are named there; add --data, or leave it out"
                    for key in unread
                ]
            )
        if rows is not None:
            split = "test" if recorded.get("test") else "validation"
            return rows.test, rows.training, [note for note in rows.notes if note.startswith(f"{split}: ")]
        if not trained.lost:
            raise trained.unknown("--data ROWS, for instance 'test.{de,en}'")
        named = recorded.get("test") or recorded.get("validation")
        if named is None:
            raise trained.held_back()
        settings = Seq2SeqSettings.read(trained.settings_of(Seq2SeqSettings))
        return read_rows(named, settings, source.pictures, "test", []), [], notes
    known = {key: recorded[key] for key in COLUMNS if key in recorded}
    records = read_rows(data, Seq2SeqSettings.read({**known, **typed}), source.pictures, "data", notes)
    if rows is None:
        return records, [], notes
    overlap = find_overlap(rows.training, records, "--data", ("source", "target"))
    if overlap.rows and Seq2SeqEvaluation.read({"overlap": given.get("overlap", "refuse")}).overlap == "refuse":
        raise DataError(f"{overlap}\nscores on rows that were trained on say nothing; if that is meant: --overlap keep")
    return records, rows.training, notes


def scored(
    measure: Measure,
    baselines: Mapping[str, Baseline],
    models: Sequence[Any],
    writing: Writing,
    records: Sequence[Record],
    learned: Sequence[Record],
    search: SearchSettings,
    progress: Progress | None = None,
    notes: Sequence[str] = (),
) -> ScoreReport:
    """Write the targets of rows and score them beside the baselines.

    measure    what scores texts, the headline first
    baselines  what trivial models write for the rows, by name
    learned    the training rows, for baselines that need them
    """
    sources = [row["source"] for row in records]
    texts = [answers[0].text for answers in writing.predict(models, sources, search, progress=progress)]
    shown = [s if isinstance(s, str) else row.place for s, row in zip(sources, records, strict=True)]
    beside, how = texts_by(baselines, records, learned), how_of(search, writing, len(models))
    return report(measure, texts, references_of(records), beside, shown, how, notes)


def how_of(settings: SearchSettings, writing: Writing, models: int) -> str:
    """A search in words."""
    most = f"{settings.max_length or writing.usual} tokens"
    if settings.max_ratio is not None:
        most = f"{settings.max_ratio:g} times the source" + (f", {most}" if settings.max_length else "")
    said = [f"beam {settings.beam}", f"score {settings.formula}", f"at most {most}"]
    said += [f"at least {settings.min_length} tokens"] if settings.min_length else []
    said += [f"no {settings.block_ngrams} tokens in a row twice"] if settings.block_ngrams else []
    said += [f"{models} models, their {settings.ensemble} averaged"] if models > 1 else []
    return ", ".join(said)
