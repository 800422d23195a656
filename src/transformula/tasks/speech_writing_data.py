"""What an encoder and a decoder learn of sounds with transcripts: the tokenizer, the tokens that stand before a
transcript, how long sounds and transcripts may be, and the scores of what is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from ..data.records import Record
from ..data.splits import SplitRows
from ..data.tokenizing import choose_tokenizers
from ..errors import ConfigError, DataError, InputError, setting
from ..language.graph import Architecture
from .base import Progress, Scores, check_causal, check_logits
from .losses import target_scores
from .predictor import OfOthers
from .sounds import SoundRow
from .speech_writing import SpeechWriter, padded_samples
from .transcripts import SpeechRecognizer
from .whisper_folders import check_language, opening_of, spectrum_of
from .writing import end_of

READS = {"audio", "tokens"}
CONTEXT, FREE, VOCAB = "most_tokens", "any_context", "vocab_stated"  # among a task's numbers: what the text says
PADDED, SPECTRUM = "padded_samples", "spectrum_"  # the same: of what it hears; how the numbers of a spectrum begin


def check_writes(name: str, architecture: Architecture) -> None:
    """Raise InputError for a model that reads sound and tokens, and writes no transcript."""
    check_causal(name, architecture)
    check_logits(name, architecture)


def writer_numbers(architecture: Architecture, stated: Collection[str]) -> dict[str, int]:
    """What a model's text says of the tokens that it writes and of the sound that it hears."""
    padded, numbers = padded_samples(architecture), architecture.numbers
    said = {key: int(numbers[name]) for key, name in ((CONTEXT, "context"), (VOCAB, "vocab"))}
    said |= {FREE: int("context" not in stated and not padded), PADDED: padded}
    spectrum = spectrum_of(architecture)
    return said | ({VOCAB: 0} if "vocab" not in stated else {}) | {SPECTRUM + key: n for key, n in spectrum.items()}


def writer_of(
    rows: SplitRows, inputs: Sequence[str], sizes: dict[str, int], settings: Any, longest: float
) -> SpeechWriter:
    """The predictor of records, and the numbers that the model takes from them. Raises ConfigError, InputError.

    sizes    the numbers of `writer_numbers`, in whose place those are put that the model takes
    longest  seconds of the longest sound of training
    """
    said = {key: sizes.pop(key) for key in list(sizes)}
    records = [*rows.training, *rows.validation, *rows.test]
    texts, count = [str(row["text"]) for row in records], len(rows.training)
    name = "characters" if settings.tokenizer == "auto" else settings.tokenizer
    chosen, _ = choose_tokenizers(name, True, {"text": texts[:count]}, {"text": texts[count:]}, {})
    tokenizer = chosen["text"]
    opening, padded = opening_of(tokenizer), said[PADDED]
    spectrum = {key.removeprefix(SPECTRUM): n for key, n in said.items() if key.startswith(SPECTRUM)}
    kind = SpeechWriter(
        tokenizer, list(inputs), 0, settings.lower, settings.rate, longest, 1, padded=padded, spectrum=spectrum,
        begin=[*tokenizer.marks.target] or [end_of(tokenizer)], normalized=bool(settings.normalize),
    )  # fmt: skip
    kind = kind if opening is None else replace(kind, **vars(opening))
    kind = replace(kind, language=settings.language or kind.language)
    check_language(kind.language or None, kind.languages, training=True)
    sizes_of = [len(kind.ids(text)) for text in texts]
    most, written = max(sizes_of) + len(kind.opening()) - 1, max(sizes_of[:count])
    if most > said[CONTEXT] and not said[FREE]:
        where = records[sizes_of.index(max(sizes_of))].place
        raise ConfigError(
            f"context: the model says {said[CONTEXT]}, and the longest transcript has {most} tokens, those before it"
            f" and its end included ({where}): say {setting('context', str(most))}, or take such rows out"
        )
    if said[VOCAB] and tokenizer.vocab > said[VOCAB]:
        raise ConfigError(f"vocab: the model says {said[VOCAB]}, and the tokenizer has {tokenizer.vocab}")
    sizes["vocab"] = max(tokenizer.vocab, said[VOCAB])
    sizes["context"] = most if said[FREE] else said[CONTEXT]
    return replace(kind, most=sizes["context"], written=written)


def about(kind: SpeechWriter) -> str:
    """What it writes and hears, in words."""
    assert kind.tokenizer is not None
    heard = f"; sounds are padded to {kind.padded / kind.rate:g} s" if kind.padded else ""
    return f"{kind.tokenizer.kind}, {kind.tokenizer.vocab:,} tokens{heard}"


def check_heard(kind: SpeechWriter, rows: Mapping[str, Sequence[Record]]) -> None:
    """Raise DataError for sounds that are longer than a model hears, by the names of their sets."""
    for name, records in rows.items():
        long = [each.place for each in records if SoundRow(each.held("audio"), kind.rate).samples > kind.padded]
        if kind.padded and long:
            seconds = f"{kind.padded / kind.rate:g}"
            what = f"{len(long):,} of {len(records):,} {name} sounds are longer than the {seconds} s that it hears"
            raise DataError(f"{what}, the first of them {long[0]}: leave them out, {setting('longest', seconds)}")


def recognizer_of_others(model: OfOthers) -> SpeechRecognizer | SpeechWriter:
    """The predictor of a model that others trained. Raises CheckpointError."""
    writes = READS == set(model.architecture.inputs)
    return SpeechWriter.of_others(model) if writes else SpeechRecognizer.of_others(model)


def check_tokens(architecture: Architecture, settings: Any) -> None:
    """Raise InputError for settings of tokens where a model writes none."""
    said = {"tokenizer": None if settings.tokenizer == "auto" else settings.tokenizer, "language": settings.language}
    for key, value in said.items():
        if value is not None and READS != set(architecture.inputs):
            what = "is for an encoder and a decoder that writes tokens; this model says a letter at each position (CTC)"
            raise InputError(f"{setting(key, value)}: {what}; leave it out")


def scores_of(task: Any, model: nn.Module, progress: Progress | None = None) -> Scores:
    """Scores of what a model writes for the validation rows of a task, greedily, and its loss."""
    kind, side = task.data.kind, task.data.validation
    scores = target_scores(model, map(kind.filled, side.batches()))
    answers, _ = task.reader.answers_to(side.records, [model], kind, progress)
    del scores["perplexity"], scores["tokens"]
    return scores.measure(task.measure(answers, side.records))
