"""Settings of pairs: which rows, which of their columns are the source and the target, and how they become batches."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from ..errors import ConfigError
from ..settings import Settings
from .settings import QUOTED

Rows = str | list[str] | None


class RowSettings(Settings):
    """Which rows there are, and how they become tokens."""

    data: Rows = Field(
        None,
        description="rows to learn from: parallel files as 'train.{de,en}', a .tsv, .csv, .jsonl or .parquet file, a"
        " folder of pictures with captions, hub:NAME, or a built-in set",
    )
    validation: Rows = Field(None, description="rows that measure while training; by default a part of `data`")
    test: Rows = Field(
        None,
        description="rows that `evaluate` scores; by default those of `validation`, or another part of `data`",
    )
    held_out: float = Field(0.05, gt=0, le=0.5, description="the share of `data` that is such a part")
    source: str | None = Field(None, description="the column of the source; by default 'source', or the first of two")
    target: str | None = Field(None, description="the column of the target; by default 'target', or the second of two")
    references: str | None = Field(
        None, description="a column with a list of texts, all of which a score takes for right; by default the target"
    )
    join: str | None = Field(None, description="what the texts of a list in one column are joined by")
    quoted: bool | None = Field(None, description=QUOTED)
    overlap: Literal["refuse", "drop", "keep"] = Field(
        "refuse", description="rows that measure and are learned from: an error, left out of training, or kept"
    )

    split_names: bool = Field(
        False, description="names of programs in the sources, such as read_all or readAll, are read as their words"
    )
    lower: Literal["nothing", "first", "all"] = Field(
        "nothing", description="what of texts is put into lower case for the model: the first word, as inside a"
        " sentence, or all; what is written then begins with a capital"
    )  # fmt: skip
    tokenizer: str = Field(
        "auto", min_length=1, description="characters, bytes, bpe, unigram, or a folder that holds one; auto: bpe"
    )
    joint: bool = Field(
        True, description="one tokenizer for both sides; else the model's text reads `source_vocab` for the source's"
    )
    max_source: int | None = Field(None, ge=1, description="most tokens of a source, its end included")
    max_target: int | None = Field(None, ge=1, description="most tokens of a target, its end included")
    too_long: Literal["refuse", "drop", "cut"] = Field(
        "drop", description="rows above these: an error, left out of training, or cut off; of rows that measure, a"
        " source is cut and a target is whole"
    )  # fmt: skip

    @field_validator("data", "validation", "test")
    @classmethod
    def _named(cls, value: Rows) -> Rows:
        if value is not None and (not value or any(not str(one).strip() for one in value)):
            raise ValueError("a source without a name; expected files, a folder or a built-in set")
        return value

    def need(self) -> None:
        from .sources import need_sources, need_tokenizer

        for sources in (self.data, self.validation, self.test):
            need_sources(sources)
        need_tokenizer(self.tokenizer)


OF_TEXTS = ("split_names", "joint", "max_source")
"""What is said of sources that are texts."""


def check_of_texts(settings: RowSettings, task: str) -> None:
    """Raise ConfigError where settings of a task whose sources are pictures say something of texts."""
    for key in OF_TEXTS:
        if getattr(settings, key) != RowSettings.model_fields[key].default:
            raise ConfigError(
                f"{key}: is said of sources that are texts, and those of {task} are pictures; leave it out"
            )


class BatchSettings(Settings):
    """How rows become batches, and what of them is learned and written."""

    batch_tokens: int = Field(4096, ge=1, description="tokens in a batch")
    batch_side: Literal["longest", "source", "target", "all"] = Field(
        "longest", description="which tokens these are: of the longer side of each row, of one side, or of both"
    )
    batch_counted: Literal["padded", "filled"] = Field(
        "padded", description="padded: rows times the longest; filled: real tokens alone"
    )
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="share of each target spread over all tokens")
    written: int | None = Field(
        None, ge=0, description="validation rows whose targets are written (greedily) and scored; by default all"
    )


class PairSettings(BatchSettings, RowSettings):
    """From which rows a model learns to write a target for a source."""
