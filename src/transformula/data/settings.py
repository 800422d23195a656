"""Settings of data: the sources, their columns, the split, and how they become tokens and batches."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from ..errors import ConfigError
from ..plain import between_commas, several
from ..settings import Facts, Settings

Named = str | list[str] | None  # a source, several, or none
OF_STREAMS = Facts(reader="stream")
LONGEST_WINDOW = 1 << 20  # tokens of a window that is asked for
Contexts = Annotated[list[Annotated[int, Field(ge=1, le=LONGEST_WINDOW)]], BeforeValidator(between_commas)]
"""Lengths of windows."""
FRACTION = 0.1  # default fraction of a text that is held out


class FileSettings(Settings):
    """How files are read."""

    quoted: bool | None = Field(
        None, description="whether fields of a table may stand in quotes; by default in .csv, not in .tsv"
    )
    delimiter: str | None = Field(
        None,
        description="what parts the columns of a table: comma, semicolon, tab, pipe, blanks, first-blank (a word, and"
        " the text after it), or any text; by default what its name and its first rows say",
    )
    ragged: Literal["refuse", "pad", "fit", "skip"] | None = Field(
        None,
        description="rows of a table with more or fewer fields than its first: refuse them (the default), pad short"
        " ones with empty fields, fit (pad, and cut long ones), or skip both",
    )
    sheet: str | None = Field(
        None, description="the sheet of a spreadsheet, by its name; by default the first that holds something"
    )
    encoding: str | None = Field(None, description="of the files' text, such as latin-1 or cp1252; by default UTF-8")
    file_format: str | None = Field(
        None, description="the format of the files, by its extension, such as tsv: for files whose names do not say it"
    )

    where: str | None = Field(
        None, description="which rows are kept, by their columns, such as 'int_score >= 3 and language == en'"
    )

    @field_validator("where", "delimiter", "encoding")
    @classmethod
    def _understood(cls, value: Any, info: ValidationInfo) -> Any:
        from .format import Options

        try:
            Options(**{str(info.field_name): value})
        except ConfigError as error:
            raise ValueError(error.mistakes[0].removeprefix(f"{info.field_name}: ")) from None
        return value

    @field_validator("file_format")
    @classmethod
    def _known_format(cls, value: str | None) -> str | None:
        from .format import formats

        if value is not None and value not in formats:
            raise ValueError(f"no such format; expected one of: {', '.join(formats.names())}")
        return value

    @property
    def reading(self) -> dict[str, Any]:
        """These settings as keywords of `read_records`, `columns_of` and `read_corpus`."""
        return {key: getattr(self, key) for key in FileSettings.model_fields}


class SourceSettings(FileSettings):
    """What every task on data from files says of it."""

    tokens: ClassVar[bool] = True
    """Whether its data become tokens, by `tokenizer`."""

    data: Annotated[Named, Facts(basic=True)] = Field(
        None, description="a file, a folder, a pattern such as 'texts/*.md', parallel files as 'train.{de,en}', a class"
        " of lines as good=reviews.txt, hf:OWNER/NAME, a built-in set, or a list of these",
    )  # fmt: skip
    validation: Named = Field(None, description="the validation set; by default a part of `data` is held out")
    split: float = Field(FRACTION, gt=0, le=0.5, description="fraction of the data held out for validation")
    fold: int = Field(
        0, ge=0, description="which part of the data that is, counted from 0: of folds of `split` each, as in"
        " cross-validation",
    )  # fmt: skip
    overlap: Literal["refuse", "drop", "keep"] = Field(
        "refuse", description="evaluation examples that are also in the training set: refuse them, drop them from"
        " training, or keep them",
    )  # fmt: skip
    tokenizer: str = Field(
        "auto",
        min_length=1,
        description="characters, bytes, bpe, unigram, or a folder that holds a tokenizer; auto: characters for a single"
        " text of at most 128 distinct ones and 2 million in all, else bpe",
    )

    @field_validator("data", "validation", "test", check_fields=False)
    @classmethod
    def _named(cls, value: Named) -> Named:
        if value is not None and (not value or not all(name.strip() for name in several(value))):
            raise ValueError("a source without a name; expected a file, a folder, a pattern or a built-in set")
        return value

    @field_validator("fold")
    @classmethod
    def _is_in_the_data(cls, value: int, info: ValidationInfo) -> int:
        folds = 1 / info.data.get("split", 0.5)
        if value + 1 > folds + 1e-9:
            raise ValueError(f"the data has {int(folds + 1e-9)} folds of that size, counted from 0")
        return value

    @property
    def sources(self) -> list[Named]:
        """All data that is named."""
        return [value for key, value in self if key in ("data", "validation", "test")]

    def need(self) -> None:
        from ..tokenizers.base import tokenizers
        from .sources import need_sources

        for sources in self.sources:
            need_sources(sources, texts=isinstance(self, TextSettings))
        if self.tokenizer in tokenizers:
            tokenizers.need(self.tokenizer)


class TextSettings(SourceSettings):
    """Which text a model learns from."""

    data: Annotated[Named, Facts(basic=True)] = Field(
        "python-docs",
        description="a file, a folder, a pattern such as 'texts/*.md', hf:OWNER/NAME:CONFIG, a list of these, or"
        " python-docs or python-code",
    )
    column: str | None = Field(
        None,
        description="which column holds the text; by default 'text', or the only one of strings; of several,"
        " 'title + body'",
    )
    split: float = Field(
        FRACTION, gt=0, le=0.5, description="fraction of the data held out for validation: of documents, or of a single"
        " text",
    )  # fmt: skip
    overlap: Literal["refuse", "drop", "keep"] = Field(
        "drop", description="validation documents that are also in the training set: refuse them, drop them from"
        " training, or keep them",
    )  # fmt: skip


class DataSettings(TextSettings):
    """Which text a language model learns from, and how it is evaluated."""

    stride: int = Field(
        0,
        ge=0,
        description="in evaluation, how many tokens a window is moved on; 0: `context`, so that windows do not overlap;"
        " less gives each token more context and takes longer",
    )
    stream: bool = Field(
        False, description="read the data while training, for more than fits in memory: files are shards of rows, and"
        " sources may have weights, as in web=0.7:'pages/*.parquet'",
    )  # fmt: skip
    bad_shards: Annotated[Literal["stop", "skip"], OF_STREAMS] = Field(
        "stop", description="what a stream does with a shard that is missing or damaged: stop, or leave it out and"
        " count it",
    )  # fmt: skip

    shuffle: Annotated[int, OF_STREAMS] = Field(
        1, ge=1, description="rows of a shard that a stream holds and reads in an order of the seed's; 1: each shard is"
        " read from its first row to its last",
    )  # fmt: skip

    def need(self) -> None:
        if self.stream and self.overlap == "refuse":
            raise ConfigError("overlap: a stream is not read ahead, so that none can be refused; expected drop or keep")
        super().need()


class LanguageScoring(DataSettings):
    """How a language model is evaluated: its text, and what is shown beside the scores."""

    contexts: Contexts = Field(
        [],
        description="score the same text in windows of these lengths, too, such as 64,128,256, which may be longer than"
        " those of training",
    )
    by: Annotated[list[Literal["position", "frequency"]], BeforeValidator(between_commas)] = Field(
        [],
        description="show where the loss lies: by position (how many tokens of the window were read before) or by"
        " frequency (how often the training text has the token), or both, as position,frequency",
    )


class PrepareSettings(Settings):
    """Where token shards go, and who makes them."""

    out: str = Field("tokens", min_length=1, description="the folder that is written")
    workers: int = Field(0, ge=0, description="processes; 0: as many as there are CPU cores")
    part: str | None = Field(
        None, pattern=r"^\d+/\d+$", description="make one part of the shards, such as 3/64, on one of many machines"
    )
    merge: bool = Field(False, description="make nothing: check the shards of all parts and write the index")

    @field_validator("part")
    @classmethod
    def _of_all(cls, value: str | None) -> str | None:
        number, of = map(int, (value or "1/1").split("/"))
        if not 1 <= number <= of:
            raise ValueError("expected K/N with K from 1 to N, such as 3/64")
        return value

    @property
    def part_of_all(self) -> tuple[int, int]:
        """(which, of how many), the first of them 0."""
        number, of = map(int, (self.part or "1/1").split("/"))
        return number - 1, of


class TestedSettings(SourceSettings):
    """Data of rows, with a test set beside the validation set."""

    test: Named = Field(
        None, description="the test set, which `evaluate` scores; by default the validation set if one is named, or"
        " another part of `data`",
    )  # fmt: skip
    split: float = Field(
        0.05, gt=0, le=0.5, description="fraction of the data held out for validation, and as much again for test"
    )


class PreferenceColumns(SourceSettings):
    """Pairs of replies, or replies with ratings."""

    data: Annotated[Named, Facts(basic=True)] = Field(
        None, description="files of rows with prompt, chosen and rejected, with two conversations as chosen and"
        " rejected, or with prompt, reply and rating; a built-in set; or a list of these",
    )  # fmt: skip
    prompt: str | None = Field(
        None, description="the column of the prompt, a text or messages; by default a known name"
    )
    chosen: str | None = Field(None, description="the column of the preferred reply; by default 'chosen'")
    rejected: str | None = Field(None, description="the column of the other reply; by default 'rejected'")
    reply: str | None = Field(None, description="the column of rated replies, one or a list; by default a known name")
    rating: str | None = Field(None, description="the column of their ratings: numbers, higher for a better reply")
    pairing: Literal["best-worst", "all"] = Field(
        "best-worst", description="which rated replies to a prompt become pairs: the best and the worst, or all of"
        " different ratings",
    )  # fmt: skip


class StratifiedSettings(TestedSettings):
    """Data whose rows have labels."""

    stratify: bool = Field(
        True, description="held-out rows have each label as often as all rows have it; else a row's own hash decides"
    )
    former: ClassVar = {"stratify": False}


class KeptLabels(Settings):
    """What becomes of labels of a model that is trained further."""

    labels: Literal["drop", "keep"] = Field(
        "drop", description="labels of the model of --init-from that no training row has: drop or keep them; the others"
        " are matched by name",
    )  # fmt: skip
    kept_labels: Annotated[list[str], BeforeValidator(several)] = Field(
        [], description="a label that the model has though no training row may; --labels keep finds these"
    )


class RowSettings(TestedSettings):
    """Which rows there are, which of their columns are the source and the target, and how they become tokens."""

    source: str | None = Field(None, description="the column of the source; by default 'source', or the first of two")
    target: str | None = Field(None, description="the column of the target; by default 'target', or the second of two")
    references: str | None = Field(
        None, description="a column with a list of texts, each of which scores accept as right; by default the target"
    )
    join: str | None = Field(None, description="what joins the texts of a list in one column")

    split_names: bool = Field(
        False, description="split names of programs in the sources, such as read_all or readAll, into their words"
    )
    lower: Literal["none", "first", "all"] = Field(
        "none", description="lowercasing: none, the first word, or all; texts that the model writes then begin with a"
        " capital",
    )  # fmt: skip
    joint: bool = Field(
        True, description="one tokenizer for source and target; else the source's vocabulary is `source_vocab`"
    )
    max_source: int | None = Field(None, ge=1, description="most tokens of a source, its end included")
    max_target: int | None = Field(None, ge=1, description="most tokens of a target, its end included")
    too_long: Literal["refuse", "drop", "cut"] = Field(
        "drop", description="training rows above these limits: refuse, drop or cut them; of evaluation rows, sources"
        " are cut and targets kept whole",
    )  # fmt: skip


def check_pictures(settings: RowSettings) -> None:
    """Raise ConfigError where settings of a task whose sources are pictures say something of texts."""
    for key in ("split_names", "joint", "max_source"):
        if getattr(settings, key) != RowSettings.model_fields[key].default:
            raise ConfigError(f"{key}: is for sources that are texts, and these are pictures; leave it out")


class BatchSettings(Settings):
    """How rows become batches, and how many of the validation rows are generated."""

    batch_tokens: int = Field(4096, ge=1, description="tokens in a batch")
    batch_side: Literal["longest", "source", "target", "all"] = Field(
        "longest", description="which tokens count: of the longer side of each row, of one side, or of both"
    )
    batch_counted: Literal["padded", "filled"] = Field(
        "padded", description="padded: rows times the longest; filled: real tokens alone"
    )
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="share of each target spread over all tokens")
    written: int | None = Field(
        None, ge=0, description="validation rows for which targets are generated (greedily) and scored; by default all"
    )


class Seq2SeqSettings(BatchSettings, RowSettings):
    """From which rows a model learns to write a target for a source."""


class WholeRowSettings(TestedSettings):
    """Rows that a model reads whole."""

    overlap: Literal["refuse", "drop", "keep"] = Field(
        "drop", description="evaluation rows that are also in the training set: refuse them, drop them from training,"
        " or keep them",
    )  # fmt: skip
    max_tokens: int = Field(
        512, ge=1, description="most tokens of a row, in training and when the model is used; longer rows are cut, and"
        " that is said (learned positions reach no further than the longest training row, or --context)",
    )  # fmt: skip
    lower: bool = Field(False, description="lowercase the texts")


class LabeledSettings(WholeRowSettings):
    """Rows that a model reads, each with what it should say of them."""

    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of each label spread over all labels")
