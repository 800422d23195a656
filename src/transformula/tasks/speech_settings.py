"""The settings of sounds with their transcripts, and how transcripts are spelled."""

from __future__ import annotations

import unicodedata

import regex
from pydantic import Field, field_validator

from .sounds import SoundSettings

PUNCTUATION = regex.compile(r"(?!(?<=\p{L})['’](?=\p{L}))\p{P}")  # but apostrophes within words


class SpeechSettings(SoundSettings):
    """Sounds with their transcripts, and how those of training are varied."""

    text: str | None = Field(None, description="the column of the transcript; by default one with a usual name")
    lower: bool = Field(False, description="lowercase the transcripts")
    punctuation: bool = Field(True, description="keep what is no letter, digit or blank in the transcripts")
    tokenizer: str = Field(
        "auto", min_length=1, description="of an encoder and a decoder: characters (as auto), bytes, bpe, unigram, or a"
        " folder that holds a tokenizer",
    )  # fmt: skip
    language: str | None = Field(
        None, min_length=1, description="of the transcripts, where the tokenizer has a token for each language, as"
        " Whisper's has: en",
    )  # fmt: skip

    @field_validator("tokenizer")
    @classmethod
    def _has_no_tokens(cls, value: str) -> str:
        return value  # a decoder has some; `fits` refuses them for CTC


def spelled(text: str, settings: SpeechSettings) -> str:
    """A transcript as it is learned: composed characters, single blanks, and what the settings say."""
    text = unicodedata.normalize("NFC", text.lower() if settings.lower else text)
    return " ".join((text if settings.punctuation else PUNCTUATION.sub(" ", text)).split())
