"""A trained model that is to be scored: what its run recorded, and the rows on which it is scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from pydantic import Field
from torch import nn

from ..data.records import Record
from ..data.settings import FileSettings, Named
from ..data.sources import absolute_names
from ..data.splits import Overlap, SplitRows, find_overlap
from ..errors import ConfigError, DataError, InputError, setting
from ..language.graph import Architecture
from ..plain import several
from ..settings import Settings


class ScoredRowSettings(FileSettings):
    """How the rows of --data are read: by default as in training."""

    overlap: Literal["refuse", "keep"] = Field(
        "refuse", description="rows of --data that are also in the training set: refuse them, or keep and score them;"
        " by default the training data itself is scored, and a note says so",
    )  # fmt: skip


class RowOrigin(Protocol):
    """Where rows come from; `compared` are the fields by which an evaluation row is also a training row."""

    compared: tuple[str, ...]

    def split(self, settings: Any) -> SplitRows:
        """The rows that the settings name."""

    def read(self, sources: Named, settings: Any, key: str, notes: list[str]) -> Sequence[Record]:
        """The records of some sources; `key` names these in errors. What a person is told is added to `notes`."""


@dataclass(frozen=True)
class Trained:
    """A trained model that is to be scored.

    name      as a person named it
    folder    that of the model, with its tokenizer
    modules   the model, and the other models of its ensemble
    numbers   what its text says: vocab, context, ...
    recorded  the configuration of its run; {} where only the model is known
    lost      the training data of its run, where that is missing
    told      what is to be known of what is scored
    kind      its predictor; None: the folder holds it
    refer     opens a frozen model to compare with, by what a person calls it
    guided    (predictor, settings of its verb) -> these, with the models that they name opened
    """

    name: str
    folder: Path
    architecture: Architecture
    modules: Sequence[nn.Module]
    numbers: Mapping[str, int]
    recorded: Mapping[str, Any]
    lost: Sequence[str] = ()
    told: list[str] = field(default_factory=list)
    kind: Any = None
    refer: Any = None
    guided: Any = None

    seen: ClassVar[str] = (
        "the scores say how well it is known, and nothing of other data; the baselines have learned it, too"
    )

    def was_trained_on(self, data: Named) -> bool:
        """Whether these sources are those that the run was trained on."""
        own = {absolute_names(name) for name in several(self.recorded.get("data"))}
        return {absolute_names(name) for name in several(data)} <= own

    def check_seen(self, data: Named, overlap: Overlap, stated: str | None) -> None:
        """Raise DataError for rows of `data` that are also training rows, unless it is the training data itself, which
        is scored with a note; `stated` is what was said of such rows: "refuse" or "keep"."""
        if not overlap.rows or stated == "keep":
            return
        if stated == "refuse" or not (overlap.rows == overlap.of or self.was_trained_on(data)):
            remedy = "scores on rows that were trained on say nothing; if that is meant: --overlap keep"
            raise DataError(f"{overlap}\n{remedy}")
        self.told.append(f"{overlap.rows:,} of the {overlap.of:,} rows are training rows: {self.seen}")

    @property
    def notes(self) -> list[str]:
        note = (
            f"the training data ({', '.join(self.lost)}) is missing: there are no baselines, and no search for"
            " evaluation examples that are also in the training set"
        )
        return [*([note] if self.lost else []), *self.told]

    def check_alone(self) -> None:
        """Raise InputError where there are several models."""
        if len(self.modules) > 1:
            raise InputError(f"{self.name}: models that write no target for a source are scored one by one")

    @property
    def alone(self) -> nn.Module:
        """The one model. Raises InputError where there are several."""
        self.check_alone()
        return self.modules[0]

    def settings_of(self, kind: type[Settings]) -> dict[str, Any]:
        """What its run recorded of settings of a kind, and what those were that it does not know."""
        recorded = kind.of_run(self.recorded) if self.recorded else {}
        return {key: value for key, value in recorded.items() if key in kind.model_fields}

    def unknown_data(self, key: str) -> InputError:
        """The error for a model of which no data is known."""
        return InputError(f"{self.name}: a model's folder knows no data; say which: {key}")

    def rows_to_score(
        self, origin: RowOrigin, settings: Any, data: Named, stated: Mapping[str, Any], such: str = ""
    ) -> tuple[Sequence[Record], Sequence[Record], list[str]]:
        """The rows to be scored, those of training as far as they are there, and notes.

        origin    where the rows come from
        settings  those of the run's data
        data      sources of other rows than those of the run
        stated    what was said of how these are read, and of `overlap`
        such      what comes behind `--data ROWS` in a message

        Raises ConfigError for what is stated of rows that are not named, InputError where nothing says which rows,
        DataError for rows of `data` that are also training rows.
        """
        if data is None and stated:
            remedy = "is for the rows of --data, and none are named there; add --data, or leave it out"
            raise ConfigError([f"{key}: {remedy}" for key in sorted(stated)])
        notes, key = self.notes, "data"
        rows = origin.split(settings) if self.recorded and not self.lost else None
        if data is None:
            key = "test" if self.recorded.get("test") else "validation"
            if rows is not None:
                return rows.test, rows.training, [note for note in rows.notes if note.startswith(f"{key}: ")]
            if not self.lost:
                raise self.unknown_data(f"--data ROWS{such}")
            data = self.recorded.get(key)
            if data is None:
                raise self.missing_data()
        reading = {name: value for name, value in stated.items() if name != "overlap"}
        records = origin.read(data, settings.model_copy(update=reading), key, notes)
        if rows is None:
            return records, [], notes
        self.check_seen(data, find_overlap(rows.training, records, "--data", origin.compared), stated.get("overlap"))
        return records, rows.training, [*notes, *self.told]

    def missing_data(self) -> DataError:
        """The error where what is scored was a part of training data that is lost."""
        return DataError(
            f"{self.name}: what is scored by default is a part of its training data, {', '.join(self.lost)}, which is"
            f" not there; put it back, or say what is scored: {setting('data', 'FILE')}"
        )
