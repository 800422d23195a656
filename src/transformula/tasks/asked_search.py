"""What an evaluation of a speech recognizer says of the settings of its verb: a search with a beam, n-grams or a
language model, and windows, beside the best path of whole sounds, which the scores are of."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..cost.words import table
from ..errors import ConfigError
from .base import Progress
from .scores.measured import Measured, ReportPart
from .spoken_scores import rates_of
from .trained import Trained
from .transcripts import SpeechRecognizer
from .verb import TranscribeSettings
from .window_report import error_rates, windows_beside_whole
from .writing import load_predictor

WINDOWS = ("window", "window_overlap")
ASKED = [name for name in TranscribeSettings.model_fields if name != "n_best"]
ASKED_FIELDS: dict[str, Any] = {
    name: (TranscribeSettings.model_fields[name].annotation, copy.copy(TranscribeSettings.model_fields[name]))
    for name in ASKED
}  # of an evaluation


@dataclass(frozen=True)
class SearchReport(ReportPart):
    """
    asked  the settings of the search, by name
    rates  the error rates, by name: of the best path, of what is found
    """

    asked: dict[str, Any]
    rates: dict[str, tuple[float, float]]

    name = "asked_search"

    @property
    def data(self) -> dict[str, Any]:
        rates = {name.replace(" ", "_"): {"best_path": a, "searched": b} for name, (a, b) in self.rates.items()}
        return {"settings": self.asked, **rates}

    def __str__(self) -> str:
        head = "searched with " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.asked.items())
        lines = [[name, f"{one:.2f}", f"{other:.2f}"] for name, (one, other) in self.rates.items()]
        return "\n".join([head, *table([["", "best path", "searched"], *lines])])


def asked_of(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of the verb among those of an evaluation, checked, and the others. Raises ConfigError."""
    asked = {key: given[key] for key in ASKED if given.get(key) is not None}
    if "window_overlap" in asked and "window" not in asked:
        raise ConfigError(["window_overlap: is of windows, and none are chosen; add window, or leave it out"])
    if asked:
        TranscribeSettings.read(asked)
    return asked, {key: value for key, value in given.items() if key not in ASKED}


def reports_of(
    task: Any, trained: Trained, data: Any, evaluation: Any, asked: Mapping[str, Any], progress: Progress | None
) -> Sequence[ReportPart]:
    """What the settings change for the rows that a task's evaluation scores."""
    settings = task.settings.read(trained.settings_of(task.settings))
    records, _, _ = trained.rows_to_score(task.reader, settings, data, evaluation.model_dump(exclude_unset=True))
    kind: Any = trained.kind or load_predictor(trained.folder)
    if not isinstance(kind, SpeechRecognizer):  # it writes token by token: windows are a part of its search
        hows, sounds = (TranscribeSettings(), TranscribeSettings.read(asked)), [kind.input_of(row) for row in records]
        answers = [kind.predict(trained.modules, sounds, how, progress=progress) for how in hows]
        return [search_report(asked, [rates_of(records, [best[0].text for best in each]) for each in answers])]
    windows = {key: asked[key] for key in WINDOWS if key in asked}
    search = {key: value for key, value in asked.items() if key not in windows}
    parts: list[ReportPart] = []
    if windows:
        chosen = TranscribeSettings.read(windows)
        parts.append(windows_beside_whole(kind, trained.modules, records, chosen, progress))
    if search:
        how = trained.guided(kind, TranscribeSettings.read(search))
        heard = kind.heard(trained.modules, records, how, progress)
        scores = [error_rates(kind, records, heard, each) for each in (TranscribeSettings(), how)]
        parts.append(search_report(search, scores))
    return parts


def search_report(asked: Mapping[str, Any], scores: Sequence[Sequence[Measured]]) -> SearchReport:
    """The report of two lists of scores: of the best path, and of what is found."""
    return SearchReport(dict(asked), {one.name: (one.score, other.score) for one, other in zip(*scores, strict=True)})
