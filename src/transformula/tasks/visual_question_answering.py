"""Visual question answering: a picture and a question to an answer (Antol et al. 2015), by a language model that reads
the picture among its tokens (LLaVA, Liu et al. 2023).

    loss = mean over the tokens of the answer and its end of -log P(token | picture, question, tokens before)

No picture is in two splits, by its pixels: an answer to a question about a picture that was learned says little. Beside
the scores stand what questions alone tell, and, in an evaluation, the same model with a gray picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from pydantic import Field

from ..data.conversations import COLUMNS as DIALOGUES
from ..data.pictures import NAMING
from ..data.records import Record, columns_of, read_records, unknown_column
from ..data.settings import Named, Seq2SeqSettings
from ..data.sources import need_sources
from ..data.spelling import Spelling
from ..data.splits import SplitRows, read_split
from ..data.tokenizing import folder_named
from ..errors import ConfigError
from ..language.graph import Architecture
from ..model.dataflow import description
from ..settings import Settings
from ..tokenizers.base import Tokenizer
from .answers import ANSWER
from .base import task
from .picture_answering import PictureAnswering
from .picture_dialogues import first_questions
from .picture_positions import positions_in, scattered
from .picture_rows import PictureReading, SharedPictures, each_of
from .scores.baselines import constant
from .scores.vqa import GivenAnswers, Rule, blind_answer, picture_answers, rule_for, usual_answer, words_of
from .seq2seq import COLUMNS, Seq2SeqEvaluation, SequenceToSequence
from .seq2seq_data import RowSource

IMAGES = ("image", "images", "picture", "pictures", "image_path", *NAMING)  # common names of columns
QUESTIONS = ("question", "source")
ANSWERS = ("answer", "multiple_choice_answer", "target")
KIND_WORDS = 2  # first words of a question that are its kind where nothing else says it


class AnswerAccuracy(Settings):
    """How answers are compared."""

    accuracy: Rule = Field(
        "auto", description="exact: an answer is right that is written as one of those given; vqa: by VQA's rule, one"
        " that three annotators gave; auto: vqa where a question has at least three answers, else exact",
    )  # fmt: skip


class PictureColumns(Settings):
    """Which columns hold the picture and the kind of the question."""

    image: str | None = Field(
        None, description="the column of the picture, or of a list of several: a file's name, or what a data set of the"
        " hub holds; by default 'image', or another usual name",
    )  # fmt: skip
    kind: str | None = Field(
        None, description="the column of the kind of a question, of which each has a score of its own; by default"
        " 'question_type', or else the question's first two words",
    )  # fmt: skip


class VisualQuestionSettings(AnswerAccuracy, PictureColumns, PictureReading, Seq2SeqSettings):
    """Pictures, questions and answers."""

    source: str | None = Field(None, description="the column of the question; by default 'question'")
    target: str | None = Field(
        None, description="the column of the answer; by default 'answer', or else what most annotators answered"
    )
    references: str | None = Field(
        None, description="the column of a list of all annotators' answers; by default 'answers' where there is one"
    )
    blind: bool = Field(False, description="show gray pictures in training, too: what questions alone can teach")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of each target spread over all tokens")


class VisualQuestionEvaluation(AnswerAccuracy, PictureColumns, Seq2SeqEvaluation):
    """How answers are searched for and compared, and how the rows of --data are read."""


class VisualQuestions(RowSource):
    """Records with the fields `image`, `source` (the question), `target` (its answer), `references` (all answers),
    `kind`, and `picture`, a hash of the pixels, the same of rows that share a picture."""

    compared = ("picture",)
    gallery = "llava"
    models: tuple[set[str], ...] = ({"image", "tokens"},)
    named = ("a table with a column of pictures, as in rows.jsonl", "questions")

    def split(self, settings: Any) -> SplitRows:
        shared = SharedPictures()
        read = partial(self.read, shared=shared)
        rows = read_split(settings, read, self.compared, self.compared, None)
        # what was read last may have joined pictures that stood apart before
        return read_split(settings, read, self.compared, self.compared, None) if shared.joined else rows

    def read(
        self, sources: Named, settings: Any, key: str, notes: list[str], shared: SharedPictures | None = None
    ) -> list[Record]:
        assert sources is not None
        columns = columns_for(sources, settings)
        kinds = {"image": "pictures", "references": "answers", "messages": "pictured"}
        kinds = {field: kind for field, kind in kinds.items() if field in columns}
        reading = {"join": settings.join, "like": settings.data, "optional": ("kind",), **settings.reading}
        records = read_records(sources, columns, kinds=kinds, **reading)
        shared, rows = shared or SharedPictures(), records.read_all(key, notes, "questions")
        rows = first_questions(rows, key, notes) if "messages" in columns else rows
        digests = [shared.of(row.held("image"), row.place) for row in rows]
        return [with_answer(row, shared.key(own[0])) for row, own in zip(rows, digests, strict=True)]

    def tokenizers(
        self, settings: Any, rows: SplitRows, reads: str, numbers: Mapping[str, Any]
    ) -> tuple[dict[str, Tokenizer], Spelling, str]:
        """One tokenizer for questions and answers. One that is trained leaves the last id of the model's `vocab` to
        pictures."""
        vocab = numbers.get("vocab")
        if vocab is not None and numbers["marker"] is None and folder_named(settings.tokenizer) is None:
            numbers = {**numbers, "vocab": int(vocab) - 1}
        return super().tokenizers(settings, rows, reads, numbers)

    def writing(
        self, task: str, rows: SplitRows, tokenizers: Mapping[str, Tokenizer], reads: str, spelling: Spelling,
        settings: Any, numbers: Mapping[str, Any],
    ) -> PictureAnswering:  # fmt: skip
        tokenizer, marker = tokenizers["target"], numbers["marker"]
        processing, shape = settings.read_as(each_of(rows.training[0]["image"])[0], numbers.get("channels"))
        side = numbers.get("side")
        if side is not None and shape[1:] != (side, side):
            raise ConfigError(
                f"pictures of {shape[1]} x {shape[2]} pixels are given to a model of {side} x {side}: say --side"
                f" {max(shape[1:])} where they are square, or name a folder that says how they become so:"
                " --preprocessing FOLDER"
            )
        if marker is None:
            marker = max(tokenizer.vocab + 1, int(numbers.get("vocab") or 0)) - 1
        made = PictureAnswering(
            task, tokenizer, tokenizer, "tokens", picture=shape, spelling=spelling, marker=marker,
            places=positions_in(numbers["positions"], *shape[1:]), processing=processing, blind=settings.blind,
        )  # fmt: skip
        every = [*rows.training, *rows.validation, *rows.test]
        needed = max(len(made.before_source(row)) for row in every) + len(tokenizer.marks.source[1])
        if settings.max_source is not None and settings.max_source <= needed:
            raise ConfigError(
                f"max_source: {settings.max_source} tokens leave no room for a question: the positions of pictures"
                f" and the end are {needed} of them; say more"
            )
        return made


def columns_for(sources: Any, settings: Any) -> dict[str, str | int]:
    """Which columns hold what, by their names. Raises ConfigError where nothing says so."""
    names, _ = columns_of(sources, **settings.reading)

    def found(key: str, usual: Sequence[str]) -> str | None:
        stated: str | None = getattr(settings, key)
        return stated or next((name for name in usual if name in names), None)

    columns = {"image": found("image", IMAGES), "source": found("source", QUESTIONS)}
    columns |= {"target": found("target", ANSWERS), "references": found("references", ("answers",))}
    columns |= {"kind": found("kind", ("question_type",))}
    if columns["source"] is columns["target"] is columns["references"] is None:
        columns["messages"] = next((name for name in DIALOGUES if name in names), None)
        if columns["messages"] is not None and columns["image"] is not None:
            return {field: column for field, column in columns.items() if column is not None}
    for key, what in (("image", "picture"), ("source", "question"), ("target", "answer")):
        if columns[key] is None and (key != "target" or columns["references"] is None):
            raise unknown_column(key, sources, names, names[0], what)
    return {field: column for field, column in columns.items() if column is not None}


def with_answer(record: Record, picture: str) -> Record:
    """A record with one answer, all answers, its kind, and the hash of its picture."""
    held, question = record.held("image"), str(record["source"])
    listed = record.get("references") or [record["target"]]
    assert isinstance(listed, list)
    answers = [text for text in map(str, listed) if text.strip()]
    values: dict[str, Any] = {
        "image": held,
        "source": question,
        "target": str(record.get("target") or "").strip() or Counter(answers).most_common(1)[0][0],
        "references": answers,
        "kind": str(record.get("kind") or "").strip() or words_of(question, KIND_WORDS),
        "picture": picture,
    }
    return Record(values, record.place, record.group)


@task("visual-question-answering")
class VisualQuestionAnswering(SequenceToSequence):
    """A picture and a question to an answer, by a decoder that reads the picture among its tokens. Accuracy is the main
    score."""

    verb = ANSWER
    others = PictureAnswering.of_others
    settings = VisualQuestionSettings
    evaluation = VisualQuestionEvaluation
    source = VisualQuestions()
    columns = (*COLUMNS, *PictureColumns.model_fields)
    measure = staticmethod(picture_answers)
    answers = staticmethod(lambda records: [GivenAnswers(row["references"], str(row["kind"])) for row in records])
    options = staticmethod(rule_for)
    scores = ("accuracy",)
    trivial: ClassVar = {"constant": constant, "by kind": usual_answer, "by question": blind_answer}

    @classmethod
    def numbers_of(cls, architecture: Architecture, stated: Collection[str]) -> dict[str, Any]:
        """And how many positions a picture has, as `positions_in` reads it, in the places of which id they stand, None:
        the last id of all; and the side of pictures, where the text has that number."""
        call = scattered(architecture)
        marker, last = int(call.called.options["id"]), int(architecture.numbers["vocab"]) - 1
        positions = description(call.args[2].sequence, architecture)
        side = architecture.numbers.get("side")
        numbers = {"positions": positions, "marker": None if marker == last else marker, "side": side}
        return {**super().numbers_of(architecture, stated), **numbers}

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        super().check(architecture)
        scattered(architecture)

    @classmethod
    def need(cls, settings: Any) -> None:
        super().need(settings)
        for sources in settings.sources:
            need_sources(sources, pictures=True)
