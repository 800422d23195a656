"""Transcripts of sounds: what a model with CTC says of a sound, in one piece or in windows, with the times of words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ..errors import CheckpointError
from ..language.graph import Architecture
from ..model.dataflow import description
from ..structured import load_json
from .base import Progress
from .ctc import BLANK, Favor, align, best_path, positions_of_samples, search
from .ngram import favor_of
from .predictor import Answer, OfOthers, predictor
from .row_predictor import EncodedRow, RowPredictor
from .sounds import OfSounds, SoundRow, heard_by_others
from .text_guide import TextGuide
from .verb import TranscribeSettings
from .whisper_folders import check_language

VOCABULARY, DELIMITER = "vocab.json", "|"  # of folders of transformers, and what stands there between words
OTHERS_SECONDS = 30.0  # of a sound that a model of others reads at once
MAX_OVERLAP = 4.0  # seconds that two windows share, where nothing else is said


@dataclass(frozen=True)
class SpokenWord:
    """A word of a transcript, from `start` to `end`, in seconds."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Transcript(Answer):
    """What is said in a sound, and when each word is; the score is the logarithm of the probability, a position."""

    words: tuple[SpokenWord, ...] = ()

    @property
    def brief(self) -> dict[str, Any]:
        return {"text": self.text, "words": [vars(word) for word in self.words]}


@predictor("speech-recognizer")
@dataclass(frozen=True)
class SpeechRecognizer(OfSounds, RowPredictor):
    """
    symbols      the characters of transcripts, in the order of the logits, from 1 on; 0 is the blank
    rate         samples a second of what it reads
    first, step  position k of its output stands at sample first + k step
    longest      seconds of the longest sound of training
    normalized   whether each sound has the mean 0 and the variance 1
    """

    symbols: list[str]
    rate: int
    first: int
    step: int
    longest: float
    normalized: bool = field(default=False, kw_only=True)

    settings = TranscribeSettings
    guides = ("lm",)
    verb = "transcribe"
    named = {"vocab": "symbols"}

    @classmethod
    def of_others(cls, model: OfOthers) -> Self:
        """The predictor of a model that others trained. Raises CheckpointError."""
        places = places_of(model.architecture)
        if places is None:
            raise CheckpointError("its output does not say a letter at each position")
        rate, normalized = heard_by_others(model.folder)
        symbols = symbols_of_others(model.folder, model.config)
        inputs = list(model.architecture.inputs)
        return cls(None, inputs, 0, False, symbols, rate, *places, OTHERS_SECONDS, normalized=normalized)

    def alike(self) -> tuple[Any, ...]:
        return (*super().alike(), list(self.symbols), self.rate, self.first, self.step, self.normalized)

    def ids(self, text: str) -> list[int]:
        """The numbers of the symbols of a transcript; those that are not known are left out."""
        return [self.symbols.index(sign) + 1 for sign in text if sign in self.symbols]

    def positions(self, samples: int) -> int:
        return positions_of_samples(samples, self.first, self.step)

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: Any, *, progress: Progress | None = None
    ) -> Sequence[Sequence[Answer]]:
        """Several models answer by the mean of their logits. Of a long sound each window says the positions in its
        middle."""
        check_language(settings.language, {})
        return self.answers(inputs, self.heard(models, inputs, settings, progress), settings)

    def heard(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: TranscribeSettings,
        progress: Progress | None = None,
    ) -> list[Tensor]:  # fmt: skip
        """The mean logits of the models for each sound, (positions, symbols), joined where it is read in windows."""
        rows = [row for row in self.encode(inputs) if isinstance(row, SoundRow)]
        spans = [self.windows(row.samples, settings) for row in rows]
        pieces: list[EncodedRow] = []
        for row, windows in zip(rows, spans, strict=True):
            whole = row["audio"] if len(windows) > 1 else None
            for start, end, _, _ in windows:
                last = end * self.step + max(0, self.first + 1 - self.step)  # the end of what position end - 1 reads
                cut = row if whole is None else SoundRow(whole[start * self.step : last], self.rate)
                pieces.append(cut)
        made = iter(self.outputs(models, pieces, progress))
        return [
            torch.cat([next(made)[kept - start : last - start] for start, _, kept, last in windows])
            for windows in spans
        ]

    def windows(self, samples: int, settings: TranscribeSettings) -> list[tuple[int, int, int, int]]:
        """Windows of a sound of so many samples, each from one position to before another, with those that it says."""
        window, shared = settings.window or self.longest, settings.window_overlap
        shared = min(window / 3, MAX_OVERLAP) if shared is None else min(shared, window / 2)
        count, size = self.positions(samples), max(2, math.ceil(window * self.rate / self.step))
        if count <= size:
            return [(0, count, 0, count)]
        overlap = min(round(shared * self.rate / self.step), size // 2)
        starts = range(0, count - overlap, size - overlap)
        spans = [(start, min(start + size, count)) for start in starts]
        edges = [0, *(start + overlap // 2 for start in starts[1:]), count]
        ends = [end for _, end in spans[:-1]] + [-(-samples // self.step)]  # the last one has all samples that are left
        return [(start, end, *said) for (start, _), end, said in zip(spans, ends, pairwise(edges), strict=True)]

    def answers(self, inputs: Sequence[Any], outputs: Sequence[Tensor], settings: Any) -> list[list[Transcript]]:
        favor: Favor | None = None
        if settings.ngrams is not None:
            favor = favor_of(settings.ngrams, self.symbols, settings.ngram_weight)
        if settings.lm is not None:
            favor = TextGuide(settings.lm, self.symbols, settings.lm_weight)
        found = []
        for row, output in zip(self.encode(inputs), outputs, strict=True):
            real = self.positions(row.samples) if isinstance(row, SoundRow) else len(output)
            logs = output[:real, : len(self.symbols) + 1].float().log_softmax(-1).double().numpy()
            if settings.beam == 1:
                texts = [(tuple(best_path(logs)), float(logs.max(1).sum()))]
            else:
                texts = search(logs, settings.beam, favor)[: settings.n_best]
            found.append([self.transcript(logs, ids, score / max(len(logs), 1)) for ids, score in texts])
        return found

    def transcript(self, logs: np.ndarray, ids: Sequence[int], score: float) -> Transcript:
        """A text with the times of its words: those of its symbols in the most probable path."""
        spans, signs, seconds = align(logs, ids), [self.symbols[n - 1] for n in ids], self.step / self.rate
        words: list[SpokenWord] = []
        begun = False
        for sign, (first, last) in zip(signs, spans, strict=True):
            if sign.isspace():
                begun = False
            if sign.isspace() or len(sign) != 1:  # <unk> and the like, of a model of others, are no letters
                continue
            start, end = round(first * seconds, 3), round((last + 1) * seconds, 3)
            if begun:
                start, sign = words[-1].start, words.pop().text + sign
            words.append(SpokenWord(sign, start, end))
            begun = True
        return Transcript(" ".join(word.text for word in words), score, tuple(words))


def symbols_of_others(folder: Path, config: Mapping[str, Any]) -> list[str]:
    """The symbols that the numbers of a model's output stand for, from 1 on, by vocab.json in a folder of transformers,
    with a blank for the mark between words. Raises CheckpointError."""
    path = folder / VOCABULARY
    if not path.is_file():
        raise CheckpointError(f"its letters are not said: {VOCABULARY} is not there; copy it, too")
    numbers, blank = load_json(path), config.get("pad_token_id", BLANK)
    if blank != BLANK:
        raise CheckpointError(f"config.json: pad_token_id is {blank}, and the blank is read as number {BLANK}")
    named = {int(number): sign for sign, number in numbers.items()}
    signs = [named.get(number, "") for number in range(1, max(named) + 1)]
    return [" " if sign == DELIMITER else sign for sign in signs]


def places_of(architecture: Architecture) -> tuple[int, int] | None:
    """The sample of the first position of a model's output, and how many there are from one to the next; None where it
    has no positions, or they do not follow from the samples."""
    values = list(architecture.output.leaves.values())
    made = len(values) == 1 and values[0].sequence
    return samples_of(description(made, architecture)) if made else None


def samples_of(described: Any) -> tuple[int, int] | None:
    """The same of a sequence, as `description` has it."""
    strides = []
    while described is not None and described[0] == "every":
        _, first, step, described = described
        strides.append((first, step))
    if described is None or described[0] != "input":
        return None
    place, apart = 0, 1
    for first, step in reversed(strides):
        place, apart = place + first * apart, apart * step
    return place, apart
