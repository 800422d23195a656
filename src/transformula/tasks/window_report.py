"""How much windows change what a model hears, beside sounds that are read whole.

    differ = positions whose best symbol is another in windows, in percent of those of the sounds that were cut

0 for a model that sees no further than half of what two windows share: it does the same numbers either way. Of a model
that attends nothing bounds it but a measurement, such as this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..cost.words import table
from ..data.records import Record
from .base import Progress
from .scores.measured import Measured, ReportPart
from .sounds import sound_rows
from .spoken_scores import rates_of
from .transcripts import SpeechRecognizer
from .verb import TranscribeSettings


@dataclass(frozen=True)
class WindowReport(ReportPart):
    """
    settings   the windows
    sounds     how many sounds were cut, of how many
    positions  of those that were cut
    differ     how many of these have another best symbol in windows
    rates      the error rates of all sounds, by name: whole, in windows
    """

    settings: TranscribeSettings
    sounds: tuple[int, int]
    positions: int
    differ: int
    rates: dict[str, tuple[float, float]]

    name = "windows"

    @property
    def data(self) -> dict[str, Any]:
        return {
            "window": self.settings.window, "window_overlap": self.settings.window_overlap,
            "sounds": self.sounds[0], "of": self.sounds[1], "positions": self.positions, "differ": self.share,
            **{name.replace(" ", "_"): {"whole": one, "windows": two} for name, (one, two) in self.rates.items()},
        }  # fmt: skip

    @property
    def share(self) -> float:
        """In percent."""
        return 100 * self.differ / max(self.positions, 1)

    def __str__(self) -> str:
        cut, count = self.sounds
        head = f"windows of {self.settings.window:g} s: {cut:,} of {count:,} sounds are longer"
        if not cut:
            return f"{head}; nothing to compare"
        said = f"of their {self.positions:,} positions {self.share:.2f} % have another best symbol than in one piece"
        lines = [["", "whole", "in windows"], *([name, f"{a:.2f}", f"{b:.2f}"] for name, (a, b) in self.rates.items())]
        return "\n".join([f"{head}; {said}", *table(lines)])


def windows_beside_whole(
    kind: SpeechRecognizer, models: Sequence[Any], records: Sequence[Record], settings: TranscribeSettings,
    progress: Progress | None = None,
) -> WindowReport:  # fmt: skip
    """What is heard in records whole, and in windows."""
    samples = [row.samples for row in sound_rows(records, kind.rate)]
    whole = settings.model_copy(update={"window": max(samples) / kind.rate + 1.0, "window_overlap": None})
    cut = [place for place, size in enumerate(samples) if len(kind.windows(size, settings)) > 1]
    heard = [kind.heard(models, records, how, progress) for how in (whole, settings)]
    differ = positions = 0
    for place in cut:
        one, other = (best_symbols(kind, each[place], samples[place]) for each in heard)
        differ, positions = differ + int((one != other).sum()), positions + len(one)
    scores = [error_rates(kind, records, each, TranscribeSettings()) for each in heard]
    rates = {one.name: (one.score, other.score) for one, other in zip(*scores, strict=True)}
    return WindowReport(settings, (len(cut), len(records)), positions, differ, rates)


def best_symbols(kind: SpeechRecognizer, output: Tensor, samples: int) -> Tensor:
    """(positions,) int64, those behind the sound left out."""
    return output[: kind.positions(samples), : len(kind.symbols) + 1].argmax(-1)


def error_rates(
    kind: SpeechRecognizer, records: Sequence[Record], outputs: Sequence[Tensor], settings: Any
) -> list[Measured]:
    return rates_of(records, [best[0].text for best in kind.answers(records, outputs, settings)])
