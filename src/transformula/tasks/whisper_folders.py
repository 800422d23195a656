"""What a folder of Whisper says beside its weights: the tokens that a transcript begins with, those that are never
written, and how a sound becomes numbers.

    <|startoftranscript|> [<|en|> <|transcribe|>] <|notimestamps|>    then the transcript, then <|endoftext|>

Where the tokenizer has a token for each language, the language is given, or else the most likely one (Radford et al.
2022).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, InputError, setting
from ..language.graph import Architecture
from ..structured import load_json
from ..tokenizers.base import Tokenizer
from ..tokenizers.published import GENERATION
from .sounds import PREPROCESSING, SPECTRUM, heard_by_others

START, TRANSCRIBE, WITHOUT_TIMES = "<|startoftranscript|>", "<|transcribe|>", "<|notimestamps|>"
LANGUAGE, TIME = re.compile(r"<\|([a-z]{2,3})\|>"), re.compile(r"<\|\d+\.\d\d\|>")  # <|en|>, <|yue|>; <|12.34|>


@dataclass(frozen=True)
class Opening:
    """How a transcript begins, and what is not written.

    begin        the tokens before it, but for that of the language, which stands behind the first
    languages    the token of each, by its code; none where it is not said
    language     the code of that of all transcripts; "": any
    never        tokens that no transcript has; never_first: those with which none begins
    blank        whether a transcript begins with a blank
    """

    begin: list[int]
    languages: dict[str, int] = field(default_factory=dict)
    language: str = ""
    never: list[int] = field(default_factory=list)
    never_first: list[int] = field(default_factory=list)
    blank: bool = True


def opening_of(tokenizer: Tokenizer, config: Mapping[str, Any] | None = None) -> Opening | None:
    """That of a tokenizer of Whisper, with what its folder says of writing; None for any other.

    config  that of the model's folder, in which older ones say what is not written
    """
    named = {name: number for number, name in enumerate(tokenizer.names) if isinstance(name, str)}
    if START not in named:
        return None
    said: Mapping[str, Any] = getattr(getattr(tokenizer, "files", None), "generation", {})
    found = {match[1]: number for name, number in named.items() if (match := LANGUAGE.fullmatch(name))}
    stated = {str(name).strip("<|>"): int(number) for name, number in (said.get("lang_to_id") or {}).items()}
    many = said.get("is_multilingual")
    languages = {} if many is False else stated or found
    task = [named[TRANSCRIBE]] if languages and TRANSCRIBE in named else []
    begin = [named[START], *task, *([named[WITHOUT_TIMES]] if WITHOUT_TIMES in named else [])]
    language = str(said.get("language") or "").strip("<|>")
    never, first = (
        [int(n) for n in said.get(key) or (config or {}).get(key) or () if 0 <= int(n)]
        for key in ("suppress_tokens", "begin_suppress_tokens")
    )
    return Opening(begin, languages, language if language in languages else "", never, first)


def without_times(text: str) -> str:
    """A text without the times that Whisper may write into it."""
    return TIME.sub("", text)


def spectrum_of(architecture: Architecture) -> dict[str, int]:
    """The numbers of the log-mel spectrogram that a model makes of sound; {} for one that makes none."""
    calls = (value.call for section in architecture.sections() for value in section.calls())
    for call in calls:
        if call is not None and call.word.name == "logmel":
            return {key: int(call.options[key]) for key in ("size", "frame", "hop", "rate")}
    return {}


def features_of(spectrum: Mapping[str, int], padded: int) -> dict[str, Any]:
    """What preprocessor_config.json says of a spectrogram of sounds that are padded to so many samples."""
    rate, hop = spectrum["rate"], spectrum["hop"]
    return {
        "feature_extractor_type": SPECTRUM,
        "processor_class": "WhisperProcessor",
        "feature_size": spectrum["size"],
        "n_fft": spectrum["frame"],
        "hop_length": hop,
        "sampling_rate": rate,
        "chunk_length": padded // rate,
        "n_samples": padded,
        "nb_max_frames": padded // hop,
        "padding_side": "right",
        "padding_value": 0.0,
        "dither": 0.0,
        "return_attention_mask": False,
    }


def check_features(folder: Path, architecture: Architecture, padded: int) -> int:
    """The samples a second that the model in a folder hears. Raises CheckpointError where the folder says that its
    sounds become other numbers than those that its text makes."""
    spectrum, (rate, _) = spectrum_of(architecture), heard_by_others(folder, spectrum=True)
    said, expected = load_json(folder / PREPROCESSING), features_of(spectrum, padded) if spectrum else {}
    keys = ("feature_extractor_type", "feature_size", "n_fft", "hop_length", "sampling_rate", "chunk_length")
    for key in keys:
        if key in said and said[key] != expected.get(key):
            here = repr(expected[key]) if spectrum else "samples"
            raise CheckpointError(f"{PREPROCESSING}: {key} is {said[key]!r}, and the model's text reads {here}")
    if said.get("do_normalize") or said.get("dither"):
        raise CheckpointError(f"{PREPROCESSING}: do_normalize and dither change a sound, which is not read here")
    return rate


def write_companions(folder: Path, spectrum: Mapping[str, int], padded: int, language: str) -> None:
    """Write preprocessor_config.json, and the language of transcripts into generation_config.json, where there is
    one."""
    path = folder / PREPROCESSING
    if not path.is_file():
        path.write_text(json.dumps(features_of(spectrum, padded), indent=2) + "\n", encoding="utf-8")
    path = folder / GENERATION
    if language and path.is_file():
        said = {**load_json(path), "language": language, "task": "transcribe"}
        path.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")


def check_language(language: str | None, known: Mapping[str, int], training: bool = False) -> None:
    """Raise InputError for a language that a tokenizer does not name, or where one must be said in training."""
    listed = ", ".join(sorted(known))
    if language is not None and not known:
        what = "the tokens of this model's transcripts name no language"
        raise InputError(f"{setting('language', language)}: {what}; leave it out")
    if language is not None and language not in known:
        raise InputError(f"{setting('language', language)}: the tokens of transcripts name others: {listed}")
    if training and known and language is None:
        what = "each transcript begins with the token of its language; say which it is"
        raise InputError(f"{setting('language')}: {what}, one of: {listed}")
