"""Sounds as rows: which columns hold them, who speaks, and what a model reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor

from ..data.records import Record, columns_of, read_records, unknown_column
from ..data.settings import TestedSettings
from ..data.sound import RATE, SoundFile, samples_of, wave_of
from ..data.sources import need_sources
from ..data.splits import SplitRows
from ..errors import CheckpointError, DataError, InputError
from ..language.graph import Architecture
from ..structured import load_json
from .row_predictor import EncodedRow

AUDIO = ("audio", "sound", "recording", "path", "file", "file_name", "wav", "clip")  # usual names of columns
SPEAKERS = ("speaker", "speaker_id", "client_id")
NO_SPEAKER = "none"
FEWEST_SPEAKERS = 4  # of these on, all rows of a speaker stay on one side of a split
LEAST_SECONDS = 0.1  # a shorter sound is followed by silence
POSITIONS = 100  # of a second of sound, where the cost of a batch is counted
PREPROCESSING = "preprocessor_config.json"  # of folders of transformers; the classes that it may name:
SAMPLES, SPECTRUM = "Wav2Vec2FeatureExtractor", "WhisperFeatureExtractor"  # as they are, and by `logmel`
LEAST_POWER = 1e-7  # added to the variance, as there


class SoundSettings(TestedSettings):
    """Sounds, and how those of training are varied."""

    tokens = False

    audio: str | None = Field(None, description="the column of the sound; by default one with a usual name")
    speaker: str | None = Field(
        None, description="the column of the speaker, all of whose rows stay on one side of a split; by default one"
        " with a usual name; none: rows are split whoever speaks",
    )  # fmt: skip
    rate: int = Field(RATE, ge=1000, le=192_000, description="samples a second that the model reads")
    longest: float = Field(
        30.0, gt=0, le=3600, description="seconds of a sound of the data at most; longer ones are left out, and counted"
    )
    normalize: bool | None = Field(
        None, description="take its mean from each sound, and divide it by its standard deviation; by default as the"
        " model of --init-from reads sounds, else not",
    )  # fmt: skip
    speed: float = Field(0.0, ge=0, lt=1, description="in training, play sounds by up to this share faster or slower")
    mask_time: float = Field(
        0.0, ge=0, lt=1, description="in training, silence two stretches of each sound, of up to this share of it"
    )
    mask_bands: float = Field(
        0.0, ge=0, lt=1, description="in training, take two bands out of each sound, of up to this share of the mel"
        " scale",
    )  # fmt: skip

    @field_validator("tokenizer")
    @classmethod
    def _has_no_tokens(cls, value: str) -> str:
        if value != "auto":
            raise ValueError("sounds are no tokens; leave it out (transcripts are learned letter by letter)")
        return value

    def need(self) -> None:
        super().need()
        for sources in self.sources:
            need_sources(sources, sounds=True)


class SoundRow(Mapping[str, Tensor]):
    """What a model reads of a sound, loaded when it is asked for: samples, with silence after a very short one."""

    def __init__(self, sound: Any, rate: int, normalized: bool = False) -> None:
        self.normalized = normalized
        self.sound = replace(sound, rate=rate) if isinstance(sound, SoundFile) else sound
        self.least = int(LEAST_SECONDS * rate)

    @property
    def samples(self) -> int:
        return max(samples_of(self.sound), self.least)

    def __getitem__(self, name: str) -> Tensor:
        if name != "audio":
            raise KeyError(name)
        wave = wave_of(self.sound)
        if self.normalized:
            wave = (wave - wave.mean()) / (wave.var(unbiased=False) + LEAST_POWER).sqrt()
        return torch.nn.functional.pad(wave, (0, max(0, self.least - len(wave))))

    def __iter__(self) -> Iterator[str]:
        return iter(("audio",))

    def __len__(self) -> int:
        return 1


def sound_rows(inputs: Sequence[Any], rate: int, normalized: bool = False) -> list[SoundRow]:
    """Records with the field `audio`, or sounds, as a model reads them."""
    sounds = [each.held("audio") if isinstance(each, Record) else each for each in inputs]
    return [SoundRow(each, rate, normalized) for each in sounds]


def heard_by_others(folder: Path, spectrum: bool = False) -> tuple[int, bool]:
    """How a sound becomes numbers for the model in a folder of transformers: samples a second, and whether they are
    normalized; with `spectrum` also of one that is given Whisper's log-mel spectrogram. Raises CheckpointError where
    the folder does not say it, and for anything else than samples."""
    path = folder / PREPROCESSING
    if not path.is_file():
        raise CheckpointError(f"how sound becomes numbers is not said: {PREPROCESSING} is not there; copy it, too")
    said = load_json(path)
    kind = said.get("feature_extractor_type", SAMPLES)
    if spectrum and kind == SPECTRUM:
        return int(said.get("sampling_rate", RATE)), False
    if kind != SAMPLES or said.get("feature_size", 1) != 1:
        raise CheckpointError(f"{PREPROCESSING}: {kind} makes other numbers of sound than its samples: not read")
    return int(said.get("sampling_rate", RATE)), bool(said.get("do_normalize", True))


def lengths_of_sounds(rows: Sequence[Any], rate: int) -> np.ndarray:
    """About how many positions sounds have, (rows,) int64."""
    return np.array([max(1, row.samples * POSITIONS // rate) for row in rows], dtype=np.int64)


def opened_sounds(inputs: Sequence[Any], rate: int) -> list[Tensor]:
    """Sounds as a person gives them: tensors (samples,) of the model's rate, or the names of files. Raises InputError,
    DataError."""
    opened = []
    for number, each in enumerate(inputs, 1):
        if isinstance(each, (str, Path)) and str(each).strip():
            each = SoundFile(Path(each).expanduser(), "", rate).load()
        if not isinstance(each, Tensor) or not each.is_floating_point() or each.dim() != 1:
            raise InputError(
                f"source {number}: this model reads sounds: give the name of a file, or a tensor (samples,) of"
                f" floating-point numbers from -1 to 1, {rate:,} a second"
            )
        if not len(each):
            raise InputError(f"source {number}: the sound has no samples")
        opened.append(each)
    return opened


def check_reads_sound(name: str, architecture: Architecture) -> None:
    """Raise InputError for a model that does not read sound, and that alone."""
    if set(architecture.inputs) != {"audio"}:
        raise InputError(
            f"{name} gives a model `audio` alone; this one reads {', '.join(architecture.inputs) or 'nothing'}: write a"
            " `before` that makes frames of it: --before 'x = conv(logmel(audio, 40), 3, width, stride=4); x = x +"
            " sinusoids(x)'"
        )


class OfSounds:
    """What predictors share that read sounds, of `rate` samples a second."""

    reads: ClassVar[Literal["texts", "pictures", "both", "sounds"]] = "sounds"
    rate: int
    normalized: bool

    def input_of(self, record: Record) -> Any:
        return record

    def opened(self, inputs: Sequence[Any]) -> list[Any]:
        """Sounds: tensors (samples,), or the names of files."""
        return list(opened_sounds(inputs, self.rate))

    def encode(self, inputs: Sequence[Any]) -> list[EncodedRow]:
        return list(sound_rows(inputs, self.rate, self.normalized))

    def lengths(self, rows: Sequence[EncodedRow]) -> np.ndarray:
        return lengths_of_sounds(rows, self.rate)


# Reading.


def read_sounds(
    sources: Any, settings: Any, key: str, notes: list[str], beside: Mapping[str, Sequence[str]]
) -> list[Record]:
    """Records with the fields `audio`, `speaker` where it is known, and others, by the usual names of their columns in
    `beside`. Sounds without samples, and those that are too long, are left out and counted. Raises ConfigError,
    DataError."""
    columns = sound_columns(sources, settings, beside)
    reading = {"kinds": {"audio": "sound"}, "optional": ["speaker"], **settings.reading}
    known = read_records(sources, columns, **reading).read_all(key, notes)
    kept, left_out = [], Counter[str]()
    for row in known:
        seconds = seconds_of(row)
        if not seconds:
            left_out["have no samples"] += 1
        elif seconds > settings.longest:
            left_out[f"are longer than {settings.longest:g} s (--longest)"] += 1
        else:
            kept.append(row)
    notes += [f"{key}: {count:,} of {len(known):,} sounds {what}: left out" for what, count in left_out.items()]
    if not kept:
        raise DataError(f"{key}: no sound is left: {next(iter(left_out))}")
    return kept


def seconds_of(row: Record) -> float:
    """How long the sound of a record is."""
    sound: Any = row.held("audio")
    return samples_of(sound) / (sound.rate if isinstance(sound, SoundFile) else RATE)


def sound_columns(sources: Any, settings: Any, beside: Mapping[str, Sequence[str]]) -> dict[str, str | int]:
    """Which columns hold what: those that are named, or that have a usual name. Raises ConfigError where nothing says
    so."""
    names, _ = columns_of(sources, **settings.reading)
    chosen: dict[str, str | int] = {}
    for field, usual in {"audio": AUDIO, **beside}.items():
        column = getattr(settings, field) or next((name for name in usual if name in names), None)
        if column is None:
            raise unknown_column(field, sources, names, names[0 if field == "audio" else -1])
        chosen[field] = column
    speaker = settings.speaker or next((name for name in SPEAKERS if name in names), NO_SPEAKER)
    if speaker != NO_SPEAKER and speaker not in chosen.values():
        chosen["speaker"] = speaker
    return chosen


def by_speaker(rows: Sequence[Record], notes: list[str]) -> list[Record]:
    """The same records, each in the group of its speaker, unless there are too few of them."""
    speakers = {str(row["speaker"]) for row in rows if row.get("speaker")}
    if not speakers:
        return list(rows)
    if len(speakers) < FEWEST_SPEAKERS:
        few = f"{len(speakers)} speaker{'s' * (len(speakers) > 1)}: too few to hold some out"
        notes.append(f"{few}, so training has the speakers of the held-out rows, too")
        return list(rows)
    return [Record({name: row.held(name) for name in row}, row.place, f"speaker {row['speaker']}", row.row)
            if row["speaker"] else row for row in rows]  # fmt: skip


def shared_speakers(rows: SplitRows) -> list[str]:
    """Notes on held-out rows whose speakers are also in training."""
    known, notes = {row.get("speaker") for row in rows.training} - {None, ""}, []
    for name, held in (("validation", rows.validation), ("test", rows.test)):
        shared = {row["speaker"] for row in held if row.get("speaker") in known and row.get("speaker")}
        if shared and not (name == "test" and rows.test is rows.validation):
            whole = len({row["speaker"] for row in held if row.get("speaker")})
            notes.append(f"{len(shared):,} of the {whole:,} speakers of the {name} rows are also in training")
    return notes
