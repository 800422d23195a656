"""Sound: what soundfile reads (wav, flac, ogg, mp3, ...), as one channel of float32 at the rate that is asked for; and
folders of it with transcripts.

    SPEAKER/CHAPTER/*.flac with *.trans.txt     LibriSpeech: a line of the text file is a name and its transcript
    a.wav, a.txt                                a transcript beside each file of sound
    a table beside the folder clips             Common Voice: its column of files is seen from there, too
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..cost.words import duration
from ..errors import DataError, did_you_mean
from ..extras import need
from .lines import check_regular, lines_of, near_files

SOUNDS = frozenset(["wav", "flac", "ogg", "oga", "opus", "mp3", "aif", "aiff", "au", "caf"])  # extensions
RATE = 16_000  # samples a second, where nothing else is asked for
MAX_SECONDS = 6 * 3600  # of a sound: a small file can say that it is of any length
LOBES, ROLL_OFF = 24, 0.96  # of the filter of `resampled`: zero crossings on each side, and its limit
MOST_PHASES = 512  # places between samples, up to which all are filtered at once
CLIPS = "clips"  # where Common Voice has its sound
REMEDY = "copy it again, or take the row out"  # of damaged files
TRANSCRIPTS = ".trans.txt"  # the ending of LibriSpeech's transcripts


@dataclass(frozen=True)
class SoundFile:
    """A sound in a file or in bytes, decoded when it is asked for.

    place  the row that names it; "" for a file that a person names
    rate   samples a second of what is given
    """

    file: Path | bytes
    place: str
    rate: int = RATE

    def load(self) -> Tensor:
        """(samples,) float32, about from -1 to 1: the mean of its channels, resampled. Raises DataError."""

        def decode(library: Any, file: Any) -> Tensor:
            values, own = library.read(file, dtype="float32", always_2d=True)
            return resampled(torch.from_numpy(values.mean(axis=1)), int(own), self.rate)

        wave: Tensor = self._opened(decode)
        if not bool(torch.isfinite(wave).all()):
            raise DataError(f"{self.where}: holds numbers that are not finite; write the sound again")
        return wave

    @property
    def samples(self) -> int:
        """How many samples `load` gives, by what the head of the file says. Raises DataError."""

        def count(library: Any, file: Any) -> int:
            about = library.info(file)
            if about.frames > MAX_SECONDS * about.samplerate:
                what = f"{self.where}: its head says that it lasts {duration(about.frames / about.samplerate)}"
                raise DataError(f"{what}; at most {duration(MAX_SECONDS)} are read: cut it into parts")
            return length_at(about.frames, about.samplerate, self.rate)

        frames: int = self._opened(count)
        return frames

    @property
    def content(self) -> bytes:
        """The bytes of the file. Raises DataError."""
        if isinstance(self.file, bytes):
            return self.file
        self._check()
        return self.file.read_bytes()

    @property
    def where(self) -> str:
        """What an error calls it."""
        named = f", named at {self.place}" if self.place else ""
        return f"{self.file}{named}" if isinstance(self.file, Path) else self.place

    def _check(self) -> None:
        """Raise DataError for a file that is not there, is none, is empty, or ends before what its head says."""
        if isinstance(self.file, Path) and not self.file.exists():
            raise DataError(f"{self.where}: there is no such file of sound;{did_you_mean(near_files(self.file))}")
        size = check_regular(self.file) if isinstance(self.file, Path) else len(self.file)
        if size == 0:
            raise DataError(f"{self.where}: is empty, a file of 0 bytes; {REMEDY}")
        from .sound_heads import is_cut, sizes_said

        sizes = sizes_said(self.file)
        if sizes is not None and is_cut(*sizes):
            what = f"was cut: its head says {sizes[0]:,} bytes of sound, and {max(sizes[1], 0):,} are there"
            raise DataError(f"{self.where}: {what}; {REMEDY}")

    def _opened(self, read: Callable[[Any, Any], Any]) -> Any:
        """What `read(soundfile, file)` gives. Raises DataError, MissingExtra."""
        library = need("soundfile", "reading sound")
        self._check()
        try:
            return read(library, io.BytesIO(self.file) if isinstance(self.file, bytes) else str(self.file))
        except DataError:
            raise
        except Exception as error:  # libsndfile's readers of damaged files raise several kinds
            reason = str(error).rpartition(": ")[2].strip().rstrip(".")[:120]
            raise DataError(f"{self.where}: the sound cannot be decoded ({reason}); {REMEDY}") from None


def sound_of(value: Any, place: str, folder: Path) -> Tensor | SoundFile:
    """The sound that a column holds: a file's name, seen from `folder` or from its `clips`; bytes; or {"bytes": ...,
    "path": ...} as in hub data sets. Raises DataError."""
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, (SoundFile, Tensor)):
        return value
    if isinstance(value, bytes):
        return SoundFile(value, place)
    if isinstance(value, str) and value.strip():
        file = folder / value.strip()
        within = folder / CLIPS / value.strip()
        return SoundFile(within if not file.exists() and within.exists() else file, place)
    raise DataError(f"{place}: names no sound here: {value!r}"[:200])


def samples_of(sound: Tensor | SoundFile) -> int:
    """How many samples a sound has."""
    return sound.samples if isinstance(sound, SoundFile) else len(sound)


def wave_of(sound: Tensor | SoundFile) -> Tensor:
    """(samples,) float32 of a sound."""
    return sound.load() if isinstance(sound, SoundFile) else sound.float()


# Rates.


def length_at(samples: int, rate: int, to: int) -> int:
    """How many samples a sound has at another rate."""
    return math.ceil(samples * to / rate)


def resampled(wave: Tensor, rate: int, to: int) -> Tensor:
    """A waveform (samples,) at another rate: y_j = sum over n of x_n h(n - j rate / to), h(t) = c sinc(c t) times
    Hann's window over `LOBES` zero crossings on each side, c = `ROLL_OFF` min(1, to / rate). Outside of it are
    zeros."""
    if rate == to:
        return wave
    common = math.gcd(rate, to)
    up, down = to // common, rate // common
    weights, firsts = phases(up, down)
    count, taps = length_at(len(wave), rate, to), weights.shape[1]
    half = taps // 2
    padded = torch.nn.functional.pad(wave, (half, half + down + 1))
    if max(up, down) <= MOST_PHASES:
        made = torch.nn.functional.conv1d(padded[None, None], laid_out(up, down).to(wave.dtype), stride=down)
        return made[0].t().reshape(-1)[:count]
    parts = []
    windows = padded.unfold(0, taps, 1)
    for start in range(0, count, step := 1 << 16):
        places = torch.arange(start, min(start + step, count))
        own = places % up
        # where x begins for output j, counted in `padded`
        at = (places // up) * down + firsts[own]
        parts.append((windows[at] * weights[own].to(wave.dtype)).sum(1))
    return torch.cat(parts) if parts else wave


@lru_cache(maxsize=32)
def phases(up: int, down: int) -> tuple[Tensor, Tensor]:
    """The filter of `resampled` at each of `up` places between samples, (up, taps), and the sample at or before that
    place, (up,)."""
    limit = ROLL_OFF * min(1.0, up / down)
    half = math.ceil(LOBES / limit)
    exact = torch.arange(up, dtype=torch.float64) * down / up
    firsts = exact.floor().to(torch.int64)
    apart = torch.arange(-half, half + 1, dtype=torch.float64)[None] - (exact - firsts)[:, None]
    window = torch.where(apart.abs() < half, torch.cos(apart / half * math.pi / 2).square(), 0.0)
    return (limit * torch.sinc(limit * apart) * window).float(), firsts


@lru_cache(maxsize=32)
def laid_out(up: int, down: int) -> Tensor:
    """The filter at each place between samples, (up, 1, taps + down), all beginning at the same sample."""
    weights, firsts = phases(up, down)
    filters = weights.new_zeros(up, 1, weights.shape[1] + down)
    places = firsts[:, None] + torch.arange(weights.shape[1])
    return filters.scatter(2, places[:, None], weights[:, None])


# Folders.


def has_ending(file: Path, endings: frozenset[str] = SOUNDS) -> bool:
    return file.suffix.lower().removeprefix(".") in endings


def transcribed(folder: Path, files: Sequence[Path]) -> tuple[list[dict[str, str]], list[str]] | None:
    """Rows of the files in a folder, by column (`audio`, seen from it; `text`, and where it is known `speaker`), and
    notes on those that are none; None where no sound in it has a transcript. Raises DataError."""
    sounds = [file for file in files if has_ending(file)]
    lists = [file for file in files if file.name.endswith(TRANSCRIPTS)]
    if not sounds:
        return None
    rows = list(of_lists(folder, lists, sounds) if lists else of_neighbors(folder, sounds))
    if not rows:
        return None
    without = len(sounds) - len(rows)
    return rows, [f"{folder}: {without:,} of {len(sounds):,} sounds have no transcript: left out"] if without else []


def of_lists(folder: Path, lists: Sequence[Path], sounds: Sequence[Path]) -> Iterator[dict[str, str]]:
    """Rows of LibriSpeech's lists, 'SPEAKER-CHAPTER-NUMBER TRANSCRIPT' a line, beside the sounds they name."""
    known = {file.with_suffix(""): file for file in sounds}
    for path in lists:
        for line, text in lines_of(path):
            name, _, transcript = str(text).strip().partition(" ")
            if not name:
                continue
            file = known.get(path.parent / name)
            if file is None:
                raise DataError(f"names the sound {name}, and there is none beside it", path=path, line=line)
            yield {"audio": str(file.relative_to(folder)), "text": transcript, "speaker": name.partition("-")[0]}


def of_neighbors(folder: Path, sounds: Sequence[Path]) -> Iterator[dict[str, str]]:
    """Rows of sounds that have a text of the same name beside them."""
    for file in sounds:
        beside = file.with_suffix(".txt")
        if beside.is_file():
            text = " ".join(" ".join(str(line) for _, line in lines_of(beside)).split())
            yield {"audio": str(file.relative_to(folder)), "text": text}
