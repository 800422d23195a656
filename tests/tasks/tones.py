"""Sounds that can be told apart without a voice: a letter is a tone of its own, and a text its letters in order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

LETTERS = "abcd"
HERTZ = dict(zip(LETTERS, (400, 800, 1500, 2800), strict=True))
SECONDS = 0.12  # of a tone


def tones(text: str, seed: int = 0, rate: int = 16_000) -> np.ndarray:
    """(samples,) float32: the tones of a text, a little silence between them, and noise."""
    random = np.random.default_rng(seed)
    times = np.arange(int(SECONDS * rate * random.uniform(0.8, 1.2))) / rate
    gap = np.zeros(int(0.03 * rate))
    parts = [np.concatenate([0.3 * np.sin(2 * np.pi * HERTZ[letter] * times), gap]) for letter in text if letter != " "]
    wave = np.concatenate([gap, *parts])
    return (wave + random.normal(0, 0.003, len(wave))).astype(np.float32)


def write_tones(folder: Path, rows: int, longest: int = 1, speakers: int = 6, ending: str = "wav") -> list[str]:
    """Write files of sound and `tones.tsv`, with the columns path, label (the first letter), text and speaker; what
    they say, in order."""
    soundfile = pytest.importorskip("soundfile", reason="needs soundfile: pip install 'transformula[sound]'")
    random = np.random.default_rng(1)
    lines, said = ["path\tlabel\ttext\tspeaker"], []
    for number in range(rows):
        text = "".join(random.choice(list(LETTERS), random.integers(1, longest + 1)))
        soundfile.write(folder / f"{number}.{ending}", tones(text, number), 16_000)
        lines.append(f"{number}.{ending}\t{text[0]}\t{text}\ts{number % speakers}")
        said.append(text)
    (folder / "tones.tsv").write_text("\n".join(lines) + "\n")
    return said


def write_sound(path: Path, wave: np.ndarray | Sequence[float], rate: int = 16_000) -> Path:
    import soundfile

    soundfile.write(path, wave, rate)
    return path
