"""Sounds that can be told apart without a voice: a letter is a tone of its own, and a text its letters in order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transformula import train
from transformula.interop.folder import WEIGHTS
from transformula.interop.weights import load_tensors

LETTERS = "abcd"
HERTZ = dict(zip(LETTERS, (400, 800, 1500, 2800), strict=True))
SECONDS, PAUSE = 0.12, 0.2  # of a tone, and of a blank


def tones(text: str, seed: int = 0, rate: int = 16_000) -> np.ndarray:
    """(samples,) float32: the tones of a text, a little silence between them, and noise."""
    random = np.random.default_rng(seed)
    times = np.arange(int(SECONDS * rate * random.uniform(0.8, 1.2))) / rate
    gap = np.zeros(int(0.03 * rate))
    pause = np.zeros(int(PAUSE * rate))
    parts = [
        pause if letter == " " else np.concatenate([0.3 * np.sin(2 * np.pi * HERTZ[letter] * times), gap])
        for letter in text
    ]
    wave = np.concatenate([gap, *parts])
    return (wave + random.normal(0, 0.003, len(wave))).astype(np.float32)


def write_tones(
    folder: Path, rows: int, longest: int = 1, speakers: int = 6, ending: str = "wav", blanks: float = 0
) -> list[str]:
    """Write files of sound and `tones.tsv`, with the columns path, label (the first letter), text and speaker; what
    they say, in order. Before a letter stands a blank, `blanks` of the time."""
    soundfile = pytest.importorskip("soundfile", reason="needs soundfile: pip install 'transformula[sound]'")
    random = np.random.default_rng(1)
    lines, said = ["path\tlabel\ttext\tspeaker"], []
    for number in range(rows):
        letters = random.choice(list(LETTERS), random.integers(1, longest + 1))
        text = letters[0] + "".join(" " * (random.random() < blanks) + letter for letter in letters[1:])
        soundfile.write(folder / f"{number}.{ending}", tones(text, number), 16_000)
        lines.append(f"{number}.{ending}\t{text[0]}\t{text}\ts{number % speakers}")
        said.append(text)
    (folder / "tones.tsv").write_text("\n".join(lines) + "\n")
    return said


def write_sound(path: Path, wave: np.ndarray | Sequence[float], rate: int = 16_000) -> Path:
    import soundfile

    soundfile.write(path, wave, rate)
    return path


SMALL: dict[str, Any] = {"depth": 1, "width": 16, "heads": 2, "threads": 1, "precision": "float32"}


def goes_on_bit_for_bit(folder: Path, model: str = "pre-norm", **how: Any) -> None:
    """Hold a run that is stopped and goes on to one that is not: every weight is the same."""
    given = {**SMALL, "batch": 8, "split": 0.2, "speed": 0.1, "mask_time": 0.2, "mask_bands": 0.2, **how}
    train(model, steps=3, schedule="constant", out=str(folder / "half"), **given)
    train(model, steps=6, schedule="constant", out=str(folder / "whole"), **given)
    train(resume=str(folder / "half"), steps=6)
    ours, theirs = (load_tensors(folder / name / "last" / WEIGHTS) for name in ("half", "whole"))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)
