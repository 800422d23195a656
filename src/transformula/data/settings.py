"""Settings of data: which text, how it is split, how it becomes tokens."""

from __future__ import annotations

from pydantic import Field, field_validator

from ..settings import Settings

FRACTION = 0.1
"""Of a text, what is held back where nothing is said."""


QUOTED = "whether fields of a table may stand in quotes; by default in .csv, not in .tsv"


class TextSettings(Settings):
    """Which text a model learns from."""

    data: str | list[str] | None = Field(
        "python-docs",
        description="a file, a folder, a pattern such as 'texts/*.md', a list of these, or python-docs or python-code",
    )
    column: str | None = Field(
        None, description="which column holds the text; by default 'text', or the only one of strings"
    )
    quoted: bool | None = Field(None, description=QUOTED)
    validation: str | list[str] | None = Field(
        None, description="data that measures; by default a part of `data` is held back"
    )
    split: float = Field(
        FRACTION, gt=0, le=0.5, description="the share of `data` that is held back: of documents, or of a single text"
    )
    tokenizer: str = Field(
        "auto",
        min_length=1,
        description="characters, bytes, bpe, unigram, or a folder that holds a tokenizer; auto: characters for a single"
        " text of at most 128 distinct ones and 2 million in all, else bpe",
    )

    @field_validator("data", "validation")
    @classmethod
    def _named(cls, value: str | list[str] | None) -> str | list[str] | None:
        if value is not None and (not value or any(not str(one).strip() for one in value)):
            raise ValueError("a source without a name; expected a file, a folder, a pattern or a built-in set")
        return value

    def need(self) -> None:
        from .sources import need_sources, need_tokenizer

        for sources in (self.data, self.validation):
            need_sources(sources, texts=True)
        need_tokenizer(self.tokenizer)


class DataSettings(TextSettings):
    """Which text a language model learns from, and how it is measured."""

    stride: int = Field(
        0,
        ge=0,
        description="in evaluation, how many tokens a window is moved on; 0: `context`, so that windows do not overlap;"
        " less gives each token more context and takes longer",
    )
