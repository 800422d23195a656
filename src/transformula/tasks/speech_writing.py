"""Speech recognition by an encoder and a decoder: the encoder hears a sound, the decoder writes its transcript token by
token (Chan et al. 2015; Whisper, Radford et al. 2022).

    loss = mean over the tokens of transcripts, each end included, of -log P(token | sound, tokens before)

A model that has learned positions of its sound, as Whisper has, hears sounds that are padded with zeros to all of
these; any other hears a sound as long as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from ..errors import CheckpointError, InputError, setting
from ..generation.settings import SearchSettings
from ..language.graph import Architecture
from ..model.dataflow import description, made_of, positions_learned
from .base import IGNORED, Batch, Progress
from .predictor import OfOthers, predictor
from .row_predictor import RowEncoder, collated, like_lengths
from .seq2seq_data import padded_batch
from .sounds import LEAST_SECONDS, POSITIONS, OfSounds, SoundRow
from .speech_windows import SpokenText, joined_windows, quiet_windows
from .transcripts import OTHERS_SECONDS, samples_of
from .verb import TranscribeSettings
from .whisper_folders import START, check_features, check_language, opening_of, spectrum_of, without_times
from .writing import end_of

WRITTEN_AT_ONCE = 1 << 30  # tokens of a batch of a search: how many sounds it has is said by their lengths


@predictor("speech-writer")
@dataclass(frozen=True)
class SpeechWriter(OfSounds, RowEncoder):
    """
    rate         samples a second of what it reads
    longest      seconds of the longest sound of training
    written      tokens of the longest transcript of training, its end included
    padded       samples to which a sound is padded with zeros; 0: none is
    begin        tokens before a transcript, but for that of the language, which stands behind the first
    languages    the token of each, by its code; none where it is not said
    language     the code of that of the transcripts; "": the most likely one
    never        tokens that are not written; never_first: those with which no transcript begins
    blank        whether the tokens of a transcript begin with a blank
    spectrum     what Whisper's log-mel spectrogram is made by, where the model has one
    """

    rate: int
    longest: float
    written: int
    padded: int = field(default=0, kw_only=True)
    begin: list[int] = field(default_factory=list, kw_only=True)
    languages: dict[str, int] = field(default_factory=dict, kw_only=True)
    language: str = field(default="", kw_only=True)
    never: list[int] = field(default_factory=list, kw_only=True)
    never_first: list[int] = field(default_factory=list, kw_only=True)
    blank: bool = field(default=False, kw_only=True)
    spectrum: dict[str, int] = field(default_factory=dict, kw_only=True)
    normalized: bool = field(default=False, kw_only=True)

    settings = TranscribeSettings
    verb = "transcribe"

    @classmethod
    def of_others(cls, model: OfOthers) -> Self:
        """The predictor of a model that others trained. Raises CheckpointError."""
        padded, opening = padded_samples(model.architecture), opening_of(model.tokenizer, model.config)
        if not padded:
            raise CheckpointError("its sounds have no length to which they are padded, as Whisper's have: not read")
        if opening is None:
            raise CheckpointError(f"its tokenizer has no {START}, with which a transcript of Whisper begins")
        rate = check_features(model.folder, model.architecture, padded)
        most = int(model.architecture.numbers["context"])
        begun = cls(model.tokenizer, list(model.architecture.inputs), most, False, rate, OTHERS_SECONDS, most)
        spectrum = spectrum_of(model.architecture)
        return replace(begun, longest=padded / rate, padded=padded, spectrum=spectrum, **vars(opening))

    @property
    def end(self) -> int:
        """The token that ends a transcript."""
        assert self.tokenizer is not None
        return end_of(self.tokenizer)

    def alike(self) -> tuple[Any, ...]:
        own = (self.rate, self.padded, self.begin, self.languages, self.never, self.never_first, self.normalized)
        return (*super().alike(), *own)

    # What the model is given.

    def opening(self, language: str = "") -> list[int]:
        """The tokens before a transcript in a language, by default that of the transcripts of training."""
        first, *rest = self.begin
        return [first, *([self.languages[language or self.language]] if self.languages else []), *rest]

    def ids(self, text: str) -> list[int]:
        """The tokens of a transcript, with its end."""
        assert self.tokenizer is not None
        return [*self.tokenizer.encode(" " * self.blank + text), self.end]

    def lengths(self, rows: Sequence[Any]) -> np.ndarray:
        sizes: np.ndarray = np.maximum(super().lengths(rows), self.padded * POSITIONS // self.rate)
        return sizes

    def batch(self, rows: Sequence[Any], targets: Sequence[Tensor]) -> Batch:
        """Sounds and transcripts as a batch, in which no sound is padded yet."""
        begin = self.opening()
        ids = [target.numpy() for target in targets]
        tokens = [np.array([*begin, *each[:-1]], dtype=np.int64) for each in ids]
        learned = [np.array([*[IGNORED] * (len(begin) - 1), *each], dtype=np.int64) for each in ids]
        sounds, lengths = collated(rows)
        made = padded_batch({"tokens": tokens}, learned, audio=sounds["audio"])
        return replace(made, lengths={**made.lengths, **lengths})

    def filled(self, batch: Batch) -> Batch:
        """The batch with its sounds padded with zeros, where the model hears them so."""
        if not self.padded:
            return batch
        lengths = {name: each for name, each in batch.lengths.items() if name != "audio"}
        return replace(batch, inputs={**batch.inputs, "audio": self.fill(batch.inputs["audio"])}, lengths=lengths)

    def fill(self, wave: Tensor) -> Tensor:
        """Samples (..., samples), padded with zeros, or cut, to those that the model hears."""
        return F.pad(wave, (0, self.padded - wave.shape[-1])) if self.padded else wave

    # What it writes.

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: Any, *, progress: Progress | None = None
    ) -> list[list[SpokenText]]:
        """What is said in each sound, by greedy or by beam search; a long one is read in windows, whose texts are
        joined. Raises InputError for what only models with CTC have."""
        check_asked(self, settings)
        rows = [row for row in self.encode(inputs) if isinstance(row, SoundRow)]
        spans = [self.windows(row, settings) for row in rows]
        long = [len(each) > 1 for each in spans]  # whose file is read once
        rows = [SoundRow(row["audio"], self.rate) if held else row for row, held in zip(rows, long, strict=True)]
        owners = [(row, span) for row, each in enumerate(spans) for span in each]
        found: dict[tuple[int, tuple[int, int]], list[SpokenText]] = {}
        languages = heard_languages(self, models, rows, spans, settings)
        sizes = np.array([max(1, (end - start) * POSITIONS // self.rate) for _, (start, end) in owners], dtype=np.int64)
        sizes, done = np.maximum(sizes, self.padded * POSITIONS // self.rate), 0
        for places in like_lengths(sizes):
            some = [owners[place] for place in places]
            prompts = [self.opening(languages[row]) if self.languages else list(self.begin) for row, _ in some]
            for owner, texts in zip(some, write(self, models, prompts, cut(self, rows, some), settings), strict=True):
                found[owner] = texts
            done += len(some)
            if progress is not None:
                progress(done * len(rows) // len(owners), len(rows))
        answers = [[found[row, span] for span in each] for row, each in enumerate(spans)]
        return [joined_windows(each, spans[row], self.rate, settings.n_best) for row, each in enumerate(answers)]

    def windows(self, row: SoundRow, settings: TranscribeSettings) -> list[tuple[int, int]]:
        """The windows of a sound, as long as they may be: see `quiet_windows`."""
        heard = self.padded / self.rate if self.padded else self.longest
        return quiet_windows(row, int((settings.window or heard) * self.rate), self.rate)


def check_asked(kind: SpeechWriter, settings: TranscribeSettings) -> None:
    """Raise InputError for settings that another kind of model has, or another language than it knows."""
    for key in ("ngrams", "lm", "window_overlap"):
        if getattr(settings, key) is not None:
            what = "this one writes token by token, and reads windows that meet where it is quietest"
            raise InputError(f"{setting(key)}: is for models that say a symbol at each position (CTC); {what}")
    check_language(settings.language, kind.languages)
    if settings.window and kind.padded and settings.window * kind.rate > kind.padded:
        heard = f"the model hears {kind.padded / kind.rate:g} s at once"
        raise InputError(f"{setting('window', f'{settings.window:g}')}: {heard}; say no more, or leave it out")


def cut(kind: SpeechWriter, rows: Sequence[SoundRow], owners: Sequence[tuple[int, tuple[int, int]]]) -> list[Tensor]:
    """Windows of sounds, as the model hears them."""
    least = int(LEAST_SECONDS * kind.rate)
    waves = [rows[row]["audio"][start:end] for row, (start, end) in owners]
    return [kind.fill(F.pad(wave, (0, max(0, least - len(wave))))) for wave in waves]


def heard_languages(
    kind: SpeechWriter, models: Sequence[Any], rows: Sequence[SoundRow], spans: Sequence[Sequence[tuple[int, int]]],
    settings: TranscribeSettings,
) -> list[str]:  # fmt: skip
    """The language of each sound: as it is said, or as it was learned, or the most likely one of its first window."""
    said = settings.language or kind.language
    if said or not kind.languages:
        return [said] * len(rows)
    names, languages = {number: name for name, number in kind.languages.items()}, [""] * len(rows)
    never = [number for number in range(vocab_of(models[0])) if number not in names]
    for places in like_lengths(kind.lengths(rows)):
        waves = cut(kind, rows, [(row, spans[row][0]) for row in places])
        prompts, one = [kind.begin[:1]] * len(places), SearchSettings(beam=1, max_length=1)
        best = searched(models, prompts, waves, one, (), never)
        for row, hypotheses in zip(places, best, strict=True):
            languages[row] = names[hypotheses[0].tokens[0]]
    return languages


def write(
    kind: SpeechWriter, models: Sequence[Any], prompts: Sequence[list[int]], waves: Sequence[Tensor],
    settings: TranscribeSettings,
) -> Iterator[list[SpokenText]]:  # fmt: skip
    """The best texts of each window."""
    assert kind.tokenizer is not None
    how = SearchSettings(
        beam=settings.beam, n_best=settings.n_best, penalty="average", alpha=1.0, batch_tokens=WRITTEN_AT_ONCE
    )
    ends = sorted(kind.tokenizer.ends) or [kind.end]
    for best in searched(models, prompts, waves, how, ends, kind.never, kind.never_first, 2 * kind.written):
        texts = [kind.tokenizer.decode(n for n in each.tokens if n < kind.tokenizer.vocab) for each in best]
        texts = [" ".join((without_times(text) if kind.blank else text).split()) for text in texts]
        yield [SpokenText(text, each.score) for text, each in zip(texts, best, strict=True)]


def searched(
    models: Sequence[Any], prompts: Sequence[list[int]], waves: Sequence[Tensor], settings: SearchSettings,
    ends: Sequence[int], never: Sequence[int] = (), never_first: Sequence[int] = (), usual: int = 1,
) -> list[Any]:  # fmt: skip
    """The best hypotheses of sounds, in the numbers of the models."""
    from ..generation.beam import search

    dtype = next(models[0].parameters()).dtype
    return search(
        list(models), prompts, settings, end=ends or None, inputs={"audio": [wave.to(dtype) for wave in waves]},
        usual=usual, never=never, never_first=never_first,
    )  # fmt: skip


def vocab_of(model: Any) -> int:
    """How many tokens a model writes."""
    return int(model.architecture.numbers["vocab"])


def padded_samples(architecture: Architecture) -> int:
    """The samples of which a model has learned positions; 0: any number may be heard."""
    sequences = made_of(architecture, "audio")
    for value in (value for section in architecture.sections() for value in section.calls()):
        rows = positions_learned(value, sequences)
        placed = rows and samples_of(description(value.sequence, architecture))
        if rows and placed:
            return rows * placed[1]
    return 0
