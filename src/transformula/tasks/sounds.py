"""Sounds as rows: which columns hold them, who speaks, how those of training are varied, and what a model reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor

from ..data.records import Record, columns_of, read_records, unknown_column
from ..data.settings import TestedSettings
from ..data.sound import RATE, SoundFile, resampled, samples_of, wave_of
from ..data.sources import need_sources
from ..data.splits import SplitRows
from ..errors import CheckpointError, DataError, InputError
from ..language.graph import Architecture
from ..structured import load_json
from ..words.audio import LogMel, hertz
from .base import Batch
from .row_predictor import EncodedRow, collated

AUDIO = ("audio", "sound", "recording", "path", "file", "file_name", "wav", "clip")  # usual names of columns
SPEAKERS = ("speaker", "speaker_id", "client_id")
NO_SPEAKER = "none"
FEWEST_SPEAKERS = 4  # of these on, all rows of a speaker stay on one side of a split
LEAST_SECONDS = 0.1  # a shorter sound is followed by silence
POSITIONS = 100  # of a second of sound, where the cost of a batch is counted
VARIATION = 7  # of the seeds of chance: how sounds are varied
STRETCHES = 2  # of time, and of frequency, that are masked
EVEN = 1024  # samples: a Fourier transform of a multiple of so many is quick
PREPROCESSING, SAMPLES = "preprocessor_config.json", "Wav2Vec2FeatureExtractor"  # of folders of transformers
SPECTRUM = "WhisperFeatureExtractor"  # there, of what a text makes of samples by `logmel`
LEAST_POWER = 1e-7  # added to the variance, as there
EARS, FRAME, HOP = 40, 0.025, 0.01  # of the baseline: bands, and seconds of a frame and between two


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
    """What a model reads of a sound, which is loaded when it is asked for: samples, with silence after a very short
    one."""

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


# Variations of training, each a function of the seed, the step and the micro-batch.


def vary(batch: Batch, settings: Any, *chance: int) -> Batch:
    """A batch whose sounds are played faster or slower, and of which stretches of time and bands are masked."""
    if not (settings.speed or settings.mask_time or settings.mask_bands):
        return batch
    random = np.random.default_rng((*chance, VARIATION))
    waves = batch.inputs["audio"]
    sizes = batch.lengths["audio"].tolist() if "audio" in batch.lengths else [waves.shape[1]] * len(waves)
    varied = [{"audio": vary_one(wave[:size], settings, random)} for wave, size in zip(waves, sizes, strict=True)]
    inputs, lengths = collated(varied)
    others = {name: each for name, each in batch.lengths.items() if name != "audio"}
    return Batch({**batch.inputs, **inputs}, batch.targets, {**others, **lengths})


def vary_one(wave: Tensor, settings: Any, random: np.random.Generator) -> Tensor:
    """A waveform (samples,) as it is in one step of training. Bands are taken out of it as a whole: of its Fourier
    transform, which does for every frame of every spectrogram what SpecAugment does for one (1904.08779)."""
    if settings.speed:
        percent = round(100 * (1 + random.uniform(-settings.speed, settings.speed)))
        wave = resampled(wave, max(percent, 1), 100)
        wave = torch.nn.functional.pad(wave, (0, max(0, int(LEAST_SECONDS * settings.rate) - len(wave))))
    if settings.mask_bands:
        size = -(-len(wave) // EVEN) * EVEN
        spectrum, limits = torch.fft.rfft(wave, size), mel_limits(settings.rate)
        for first, last in stretches(settings.mask_bands, random):
            ends = [float(np.interp(end, limits[0], limits[1])) for end in (first, last)]
            low, high = (round(end * size / settings.rate) for end in ends)
            spectrum[low:high] = 0
        wave = torch.fft.irfft(spectrum, size)[: len(wave)]
    if settings.mask_time:
        wave = wave.clone()
        for first, last in stretches(settings.mask_time, random):
            wave[round(first * len(wave)) : round(last * len(wave))] = 0
    return wave


def stretches(most: float, random: np.random.Generator) -> list[tuple[float, float]]:
    """Where masked parts of a whole of length 1 begin and end, each of a length up to `most`."""
    lengths = random.uniform(0, most, STRETCHES)
    return [(start, start + length) for start, length in zip(random.uniform(0, 1 - lengths), lengths, strict=True)]


@lru_cache(maxsize=4)
def mel_limits(rate: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the mel scale up to half the rate, and their frequencies in hertz: what `np.interp` reads."""
    mels = torch.linspace(0, 100, 4001, dtype=torch.float64)
    frequencies = hertz(mels).numpy()
    inside = frequencies <= rate / 2
    return mels.numpy()[inside] / mels.numpy()[inside][-1], frequencies[inside]


# The baseline of classes.


def mean_and_spread(sound: Any, rate: int = RATE) -> np.ndarray:
    """The mean and the standard deviation over frames of the log-mel spectrogram of a sound, (2 bands,) float64: what
    a sound is like, whatever its length."""
    wave = SoundRow(sound, rate)["audio"]
    ears = LogMel(EARS, int(FRAME * rate), int(HOP * rate), rate, rate / 2, 8.0, 0)
    frames = ears(wave[None])[0].numpy().astype(np.float64)
    return np.concatenate([frames.mean(0), frames.std(0)])
