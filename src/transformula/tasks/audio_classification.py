"""Classification of sounds: which word, which voice. A waveform becomes log-mel frames, which an encoder reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from pydantic import Field

from ..data.records import Record
from ..data.settings import KeptLabels, StratifiedSettings
from ..data.sound import RATE
from ..data.splits import SplitRows
from ..language.graph import Architecture
from ..words.audio import LogMel
from .base import EVALUATION_COST, Batch, task
from .class_weights import ClassWeights
from .label_spelling import strip_labels
from .labels import LabelPredictor, LabelReader, LabelTask, by_baseline, classes_of
from .predictor import OfOthers, predictor
from .rows import evaluation_of
from .scores.baselines import most_frequent_label
from .scores.linear import nearest_mean, spread_places
from .sounds import (
    OfSounds,
    SoundRow,
    SoundSettings,
    by_speaker,
    check_reads_sound,
    heard_by_others,
    read_sounds,
    shared_speakers,
)
from .varied_sounds import vary

LABELS = ("label", "class", "category", "command", "keyword", "word", "intent")  # usual names of columns
EARS, FRAME, HOP = 40, 0.025, 0.01  # of the baseline: bands, and seconds of a frame and between two
MAX_LEARNED = 2_000  # sounds that the baseline learns from


class AudioSettings(SoundSettings, KeptLabels, StratifiedSettings):
    """Sounds with their labels, and how those of training are varied."""

    label: str | None = Field(None, description="the column of the label; by default one with a usual name")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of each label spread over all labels")
    class_weights: ClassWeights = None


@predictor("audio-classifier")
@dataclass(frozen=True)
class AudioClassifier(OfSounds, LabelPredictor):
    """rate: samples a second of what it reads; normalized: whether each sound has the mean 0 and the variance 1."""

    rate: int
    normalized: bool = field(default=False, kw_only=True)

    @classmethod
    def of_others(cls, model: OfOthers) -> Self:
        """The predictor of a model that others trained. Raises CheckpointError."""
        rate, normalized = heard_by_others(model.folder)
        return cls(None, list(model.architecture.inputs), 0, False, model.labels, False, rate, normalized=normalized)

    def alike(self) -> tuple[Any, ...]:
        return (*super().alike(), self.rate, self.normalized)


class LabeledSounds(LabelReader):
    """Records with the fields `audio`, `label` and, where it is known, `speaker`."""

    compared = ("audio",)

    def read(self, sources: Any, settings: Any, key: str, notes: list[str]) -> list[Record]:
        records = strip_labels(read_sounds(sources, settings, key, notes, {"label": LABELS}), key, False, notes)
        return by_speaker(records, notes) if key == "data" else records

    def shown(self, record: Record) -> tuple[str, list[str]]:
        """Where the sound lies: the row that names it."""
        return record.place, [str(record["label"])]

    def learn(
        self, rows: SplitRows, tokenizer: Any, sizes: dict[str, int], settings: Any, inputs: Sequence[str]
    ) -> AudioClassifier:
        labels = classes_of(rows.training, False, settings.kept_labels)
        sizes["classes"] = len(labels)
        normalized = bool(settings.normalize)
        return AudioClassifier(None, list(inputs), 0, False, labels, False, settings.rate, normalized=normalized)

    def remarks(self, kind: Any, rows: SplitRows) -> list[str]:
        return [*super().remarks(kind, rows), *shared_speakers(rows)]


def nearest_centroid(learned: Sequence[Record], records: Sequence[Record]) -> Any:
    """The label of which the mean of `mean_and_spread` is nearest, learned from at most `MAX_LEARNED` sounds."""
    some = [learned[place] for place in spread_places(len(learned), MAX_LEARNED)]

    def heard(rows: Sequence[Record]) -> list[Record]:
        features = [torch.from_numpy(mean_and_spread(row.held("audio")))[None, None] for row in rows]
        return [Record({"audio": each, "label": row["label"]}) for each, row in zip(features, rows, strict=True)]

    return by_baseline(nearest_mean, "audio")(heard(some), heard(records))


@task("audio-classification")
class AudioClassification(LabelTask):
    """Sounds with labels. Those of training may be played faster or slower and masked: a function of the step."""

    unit = "sounds"
    sequences = 32
    settings = AudioSettings
    evaluation = evaluation_of(AudioSettings, "audio", "label", "speaker")
    reader = LabeledSounds()
    others = AudioClassifier.of_others
    trivial = {
        "most frequent label": by_baseline(most_frequent_label, "label"),
        "nearest centroid": nearest_centroid,
    }
    model = {
        "family": "encoder",
        "before": "x = gelu(conv.two(gelu(conv.one(logmel(audio, 40), 3, width)), 3, stride=4)); x = x + sinusoids(x)",
        "output": "logits = linear(mean(x), classes)",
        "classes": "2",
    }

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        check_reads_sound(cls.name, architecture)
        super().check(architecture)

    @classmethod
    def numbers_of(cls, architecture: Architecture, stated: Collection[str]) -> dict[str, int]:
        return {}

    def cost_of(self, rows: int) -> float:
        return EVALUATION_COST * rows

    def batch(self, step: int, micro: int = 0) -> Batch:
        return vary(super().batch(step, micro), self.data.settings, self.seed, step, micro)


def mean_and_spread(sound: Any, rate: int = RATE) -> np.ndarray:
    """The mean and the standard deviation over frames of the log-mel spectrogram of a sound, (2 bands,) float64: what
    a sound is like, whatever its length."""
    wave = SoundRow(sound, rate)["audio"]
    ears = LogMel(EARS, int(FRAME * rate), int(HOP * rate), rate, rate / 2, 8.0, 0)
    frames = ears(wave[None])[0].numpy().astype(np.float64)
    return np.concatenate([frames.mean(0), frames.std(0)])
