"""Spoken words: speech that espeak-ng makes of our own texts, in many voices, at many speeds and pitches, with noise.

    spoken-words      a word, its label                      "seven"            by the speaker f3
    spoken-commands   one to four words, their transcript    "left two stop"    by the speaker m5
    spoken-sentences  see spoken_sentences.py

A row is a function of its number alone, and of the version of espeak-ng. All rows of a speaker stay on one side of a
split: the voices of a test are heard nowhere in training. The sounds are kept in the cache, as flac.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...cost.machine import cores
from ...errors import DataError, MissingExtra
from ...extras import need
from ..built_in import Rows, built_in
from ..cache import cached_entry
from ..sound import RATE, SoundFile
from .digits import NAMES

PROGRAM = "espeak-ng"
WORD_ROWS, COMMAND_ROWS = 3_000, 4_000
COMMANDS = "yes no up down left right on off stop go".split()
MAX_WORDS = 4
SPEAKERS = (
    *(f"m{number}" for number in range(1, 9)),
    *(f"f{number}" for number in range(1, 6)),
    *"adam Alex Alicia Andrea Andy Annie anika antonio aunty belinda benjamin boris caleb david Denis ed".split(),
    *"edward Gene Henrique Hugo Jacky john Lee linda marcelo Mario max Michael michel miguel norbert pablo".split(),
    *"paul pedro rob robert sandro shelby steph travis victor zac".split(),
)  # variants of voices
ACCENTS = ("en-us", "en-gb", "en-gb-x-rp", "en-gb-scotland", "en-gb-x-gbclan")
SPEEDS, PITCHES = (120, 200), (30, 75)  # words a minute, and espeak-ng's own scale
SIGNAL, PAUSE = (15, 40), 0.25  # decibels above the noise, and seconds of silence before and after at most
LOUDEST = (0.2, 0.9)


@dataclass(frozen=True)
class Spoken:
    """What is said in a row, and how."""

    text: str
    speaker: str
    accent: str
    speed: int
    pitch: int


Say = Callable[[int], tuple[Spoken, np.random.Generator]]
"""What a row of this number says, and what decides all that is left to chance in it."""


def said(number: int, most: int) -> tuple[Spoken, np.random.Generator]:
    """What a row says, of up to `most` words, and what decides all that is left to chance in it."""
    random = np.random.default_rng([number, most, 11])
    words = [str(word) for word in random.choice([*NAMES, *COMMANDS], random.integers(1, most + 1))]
    return voiced(" ".join(words), random), random


def voiced(text: str, random: np.random.Generator) -> Spoken:
    """A text, by a voice that is drawn."""
    speaker, accent = str(random.choice(SPEAKERS)), str(random.choice(ACCENTS))
    speed, pitch = (int(random.integers(*ends)) for ends in (SPEEDS, PITCHES))
    return Spoken(text, speaker, accent, speed, pitch)


@built_in("spoken-words", ("audio", "label", "speaker"), needs=["soundfile"], grouped=True, sounds=True)
def read_words(variant: str) -> Rows:
    """Sounds of a digit or a command each, with its name."""
    return spoken_rows("spoken-words", variant, WORD_ROWS, 1, partial(said, most=1))


@built_in("spoken-commands", ("audio", "text", "speaker"), needs=["soundfile"], grouped=True, sounds=True)
def read_commands(variant: str) -> Rows:
    """Sounds of one to four digits and commands, with what is said."""
    return spoken_rows("spoken-commands", variant, COMMAND_ROWS, MAX_WORDS, partial(said, most=MAX_WORDS))


def spoken_rows(name: str, variant: str, rows: int, what: object, say: Say) -> Rows:
    """The rows of a set; behind the colon of its name may stand how many. `what` tells it from others. Raises
    DataError, MissingExtra."""
    if variant and not (variant.isdecimal() and 1 <= int(variant) <= rows):
        raise DataError(f"{name}:{variant}: expected a number of rows from 1 to {rows:,}, or nothing: all of them")
    plan = [say(number)[0] for number in range(int(variant or rows))]
    folder = spoken_folder(name, len(plan), what, say)
    return Rows(
        (place, SoundFile(folder / f"{number}.flac", place), each.text, each.speaker)
        for number, each in enumerate(plan)
        for place in [f"{name}, {each.speaker}:{number + 1}"]
    )


def spoken_folder(name: str, rows: int, what: object, say: Say) -> Path:
    """Where the sounds lie, made if they are not there."""
    version = version_of(PROGRAM)
    key = hashlib.sha256(repr((1, version, rows, what, SPEAKERS, ACCENTS)).encode()).hexdigest()[:32]

    def make(folder: Path) -> dict[str, Any]:
        library = need("soundfile", "reading sound")
        with ThreadPoolExecutor(cores()) as workers:
            spoken = workers.map(lambda number: recorded(*say(number)), range(rows))
            for number, wave in enumerate(spoken):
                library.write(folder / f"{number}.flac", wave, RATE, subtype="PCM_16")
        return {"set": name, "rows": rows, "made_by": version}

    return cached_entry("builtin", key, make)


def version_of(program: str) -> str:
    """What a program says of its version. Raises MissingExtra where it is not installed."""
    if shutil.which(program) is None:
        raise MissingExtra(f"spoken words need the program {program}; install it with: apt-get install {program}")
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def recorded(row: Spoken, random: np.random.Generator) -> np.ndarray:
    """(samples,) float32: the sound of a row."""
    import torch

    from ..sound import resampled

    how = ["-v", f"{row.accent}+{row.speaker}", "-s", str(row.speed), "-p", str(row.pitch)]
    made = subprocess.run([PROGRAM, *how, "--stdout", row.text], capture_output=True)
    if made.returncode or not made.stdout:
        raise DataError(f"{PROGRAM} {' '.join(how)}: {made.stderr.decode(errors='replace').strip()[:200]}")
    values, own = need("soundfile", "reading sound").read(io.BytesIO(made.stdout), dtype="float32")
    wave = resampled(torch.from_numpy(values), own, RATE).numpy()
    return with_noise(wave, random)


def with_noise(wave: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A sound between pauses, louder or quieter, with noise whose power falls with the frequency, or does not."""
    before, after = (int(RATE * PAUSE * share) for share in random.random(2))
    wave = np.pad(wave, (before, after)) * random.uniform(*LOUDEST) / max(float(np.abs(wave).max()), 1e-4)
    spectrum = np.fft.rfft(random.standard_normal(len(wave)))
    spectrum /= np.maximum(np.arange(len(spectrum)), 1) ** random.choice([0.0, 0.5])
    noise = np.fft.irfft(spectrum, len(wave))
    loudness = np.sqrt((wave**2).mean() / max((noise**2).mean(), 1e-12)) * 10 ** (-random.uniform(*SIGNAL) / 20)
    noisy: np.ndarray = np.clip(wave + loudness * noise, -1, 1).astype(np.float32)
    return noisy
