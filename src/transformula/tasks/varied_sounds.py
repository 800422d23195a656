"""How the sounds of training are varied: a function of the seed, the step and the micro-batch."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.sound import resampled
from ..words.audio import hertz
from .base import Batch
from .row_predictor import collated
from .sounds import LEAST_SECONDS

VARIATION = 7  # of the seeds of chance: how sounds are varied
STRETCHES = 2  # of time, and of frequency, that are masked
EVEN = 1024  # samples: a Fourier transform of a multiple of so many is quick


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
