"""The label of a sound, and its transcript."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ...extras import need
from ..audio_classification import AudioClassifier
from ..pipeline import SCRIPTS, Pipeline, pipeline
from ..sounds import LEAST_SECONDS
from ..speech_writing import SpeechWriter
from ..transcripts import SpeechRecognizer
from ..whisper_folders import write_companions
from .texts import decoding

TRIED_SECONDS, CHANNELS = (0.4, 0.03), (1, 2)


def draw_sounds(folder: Path, rate: int) -> list[str]:
    """The names of sounds that are written into a folder: of the rate and of others, of one channel and of two, one of
    them shorter than the model reads."""
    library, names = need("soundfile", "reading sound"), []
    for other in (rate, 3 * rate, 22_050):
        for seconds, channels in zip(TRIED_SECONDS, CHANNELS, strict=True):
            times = np.arange(int(seconds * other)) / other
            wave = np.sin(2 * np.pi * rate / 16 * times * (1 + times)) * 0.4
            names.append(str(folder / f"{other}-{channels}.wav"))
            library.write(names[-1], np.stack([wave] * channels, -1) * np.linspace(1, 0.5, channels), other)
    return names


H = TypeVar("H", AudioClassifier, SpeechRecognizer, SpeechWriter)


class SoundPipeline(Pipeline[H]):
    """A pipeline that reads sounds."""

    def plain(self) -> dict[str, Any]:
        kind = self.predictor
        return {
            "inputs": list(kind.inputs),
            "rate": kind.rate,
            "normalized": kind.normalized,
            "least": int(LEAST_SECONDS * kind.rate),
            "samples": "one channel, the mean of all; zeros behind a sound that is shorter than `least`",
        }

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        return draw_sounds(folder, self.predictor.rate)


@pipeline("audio-classifier")
class SoundLabelPipeline(SoundPipeline[AudioClassifier]):
    scored = True
    script = SCRIPTS / "classifier.py"

    def plain(self) -> dict[str, Any]:
        kind = self.predictor
        about = {"labels": list(kind.labels), "several": kind.several, "decoding": "softmax; the highest"}
        return {**super().plain(), **about}


@pipeline("speech-recognizer")
class TranscriptPipeline(SoundPipeline[SpeechRecognizer]):
    settings = {"window": 3600.0}

    def plain(self) -> dict[str, Any]:
        kind = self.predictor
        places = {"first": kind.first, "step": kind.step}
        decoding = "the best path: repeats are merged, and blanks (0) left out; symbols count from 1"
        return {**super().plain(), "symbols": list(kind.symbols), **places, "decoding": decoding}


@pipeline("speech-writer")
class SpeechWritingPipeline(SoundPipeline[SpeechWriter]):
    def plain(self) -> dict[str, Any]:
        kind, tokenizer = self.predictor, self.predictor.tokenizer
        assert tokenizer is not None
        opening = {"begin": list(kind.begin) if self.asks else kind.opening(), "languages": dict(kind.languages)}
        ends = {"ends": sorted(tokenizer.ends) or [kind.end], "max_tokens": 2 * kind.written}
        ruled = {"never": list(kind.never), "never_first": list(kind.never_first), "padded": kind.padded}
        how = "greedy: the most likely token each time, after `begin`, until one of `ends`; times are left out"
        return {**super().plain(), **opening, **ends, **ruled, **decoding(tokenizer), "decoding": how}

    @property
    def asks(self) -> bool:
        """Whether the language is to be found before a transcript is written."""
        return bool(self.predictor.languages) and not self.predictor.language

    @property
    def unscripted(self) -> str:
        return "the language of a sound is found, or said, before it is read" if self.asks else super().unscripted

    def companions(self, folder: Path) -> None:
        """How Whisper's spectrogram is made, and the language, where the model hears sounds of one length."""
        kind = self.predictor
        if kind.padded and kind.spectrum:
            write_companions(folder, kind.spectrum, kind.padded, kind.language)
        else:
            what = "transformers pads sounds to one length, and this model has learned them as long as they are"
            warnings.warn(f"{what}: what it writes there may differ", stacklevel=2)
