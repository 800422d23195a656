"""Extractive question answering: the span of a context that answers a question (Rajpurkar et al. 2016 and 2018).

    [mark] question [mark] a part of the context    ->    logits of the start and of the end, at each position

P(start = i) = softmax over the positions of the context, and position 0, which says that no answer stands there.
loss = mean of -log P(start), -log P(end). A span has the probability P(start) P(end).

A context that is too long is read in windows that overlap. Each is a row of its own, and the best span of all answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ..data.lines import excerpt
from ..data.records import Record, columns_of, read_records
from ..data.settings import LabeledSettings
from ..data.splits import SplitRows
from ..data.unicode_words import WORD
from ..errors import DataError, InputError, setting
from ..generation.settings import AnswerSettings
from ..language.graph import Architecture
from ..tokenizers.base import Tokenizer
from .answers import ANSWER
from .base import IGNORED, Batch, outputs_in_words, task
from .cut_rows import CutRow, noted
from .predictor import Answer, OfOthers, predictor
from .row_predictor import EncodedRow, RowPredictor
from .rows import RowReader, RowTask, Side, evaluation_of
from .scores.baselines import first_sentence_of
from .scores.measured import Measured
from .scores.sliding_window import common_words, sliding_window
from .scores.squad import scores_of, squad

MODEL_INPUTS = ("tokens", "types", "match")  # what a model may read
START, END = 1, 2  # marks of a position in a row's target, added where both are one; 0 for others, -100 outside
LONGEST = 30  # tokens of an answer of a model that others trained, as SQuAD's models are used
ANSWER_QUANTILE = 0.99  # by default answers are at most as long as so large a part of those of training


class QuestionSettings(LabeledSettings):
    """Questions, each with a context in which its answers stand."""

    question: str = Field("question", description="the column of the question")
    passage: str = Field("context", description="the column of the text in which the answer stands")
    answers: str | None = Field(
        None, description="the column of the answer, or of a list of them, which is empty where there is none; by"
        " default 'answers', or 'answer'",
    )  # fmt: skip
    starts: str | None = Field(
        None, description="the column of the characters of the context at which the answers begin; by default 'starts',"
        " or, where there is none, each answer is where it first stands",
    )  # fmt: skip
    max_tokens: int = Field(384, ge=8, description="most tokens of a row; longer contexts are read in windows")
    stride: int = Field(128, ge=1, description="how many tokens of the context a window is moved on")


@dataclass(frozen=True)
class AnswerSpan(Answer):
    """An answer, "" for none, its probability, and where it begins and ends: characters of the context."""

    start: int = 0
    end: int = 0


class LocatedTokens:
    """A text as tokens, with the characters that each is made of.

    ids           (tokens,) int64
    starts, ends  (tokens,) characters; a token that is a part of a character has all of it
    """

    def __init__(self, text: str, tokenizer: Tokenizer, lower: bool) -> None:
        if lower:  # each character stays one, so that places are those of the text
            text = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
        self.text = text
        self.ids, self.starts, self.ends = tokenizer.spans(text)

    @cached_property
    def words(self) -> list[tuple[int, int, str, str]]:
        """Start, end, the word lowercased, and its stem, of each word."""
        from .scores.porter import stem

        places = [(*each.span(), each[0].lower()) for each in WORD.finditer(self.text)]
        return [(start, end, word, stem(word) if len(word) > 3 else word) for start, end, word in places]

    @cached_property
    def vocabulary(self) -> tuple[set[str], set[str]]:
        return {word for _, _, word, _ in self.words}, {stem for _, _, _, stem in self.words}

    def match(self, other: LocatedTokens) -> np.ndarray:
        """(tokens,) int64: 2 for a token of a word that stands in the other text, whatever its case, 1 where a word of
        the same stem does, else 0."""
        words, stems = other.vocabulary
        levels = np.zeros(len(self.text), dtype=np.int64)
        for start, end, word, root in self.words:
            levels[start:end] = 2 if word in words else root in stems
        # a tokenizer may put what it adds behind the last character
        return np.maximum.reduceat(levels, np.minimum(self.starts, len(levels) - 1)) if len(self.ids) else levels


@dataclass(frozen=True)
class ContextWindow:
    """A part of a context, with its question.

    row           what the model reads
    first         the position of its first token of the context
    starts, ends  characters of the context, of each of its tokens
    """

    row: EncodedRow
    first: int
    starts: np.ndarray
    ends: np.ndarray

    def target(self, answer: tuple[int, int] | None) -> Tensor:
        """(length,) int64: START and END at the tokens of an answer, from character to character; at position 0 where
        it does not stand here whole. -100 at positions of the question."""
        marks = torch.full((len(self.row["tokens"]),), IGNORED)
        marks[0] = 0
        marks[self.first : self.first + len(self.starts)] = 0
        places = [0, 0]
        if answer is not None and len(self.starts) and self.starts[0] <= answer[0] and answer[1] <= self.ends[-1]:
            start, end = answer
            # tokens that begin with a blank begin before the answer
            places = [int(np.searchsorted(self.ends, start, "right")), int(np.searchsorted(self.starts, end) - 1)]
            places = [self.first + place for place in places]
        for place, mark in zip(places, (START, END), strict=True):
            marks[place] += mark
        return marks


@predictor("answering")
@dataclass(frozen=True)
class Answering(RowPredictor):
    """
    stride        tokens by which a window is moved on
    longest       most tokens of an answer
    unanswerable  whether it may say that there is no answer
    threshold     how much more probable that must be than the best answer, in nats
    """

    stride: int
    longest: int
    unanswerable: bool
    threshold: float

    columns = ("question", "context")
    settings = AnswerSettings
    verb = "answer"

    @classmethod
    def of_others(cls, model: OfOthers) -> Self:
        """The predictor of a model that others trained. Nobody says whether it learned that a text may have no answer:
        one is always given."""
        stride = QuestionSettings.model_fields["stride"].default
        return cls(**model.reading, stride=stride, longest=LONGEST, unanswerable=False, threshold=0.0)

    def is_one(self, given: Any) -> bool:
        return isinstance(given, Mapping)

    def opened(self, inputs: Sequence[Any]) -> Sequence[Any]:
        for number, each in enumerate(inputs, 1):
            if not isinstance(each, Mapping) or not all(isinstance(each.get(name), str) for name in self.columns):
                raise InputError(
                    f"source {number}: this model reads a question and its context:"
                    ' {"question": "Who ...?", "context": "..."}; on the command line: --context FILE'
                )
        return inputs

    def windows(self, inputs: Sequence[Mapping[str, str]]) -> Iterator[list[ContextWindow]]:
        """The windows of each question and context, as they follow each other."""
        assert self.tokenizer is not None
        contexts: dict[str, LocatedTokens] = {}  # many questions have one
        for each in inputs:
            name = each["context"]
            if name not in contexts:
                contexts[name] = LocatedTokens(name, self.tokenizer, self.lower)
            yield self.windows_of(LocatedTokens(each["question"], self.tokenizer, self.lower), contexts[name])

    def windows_of(self, question: LocatedTokens, context: LocatedTokens) -> list[ContextWindow]:
        assert self.tokenizer is not None
        marks = self.tokenizer.marks.row(2)
        before, between, after = map(len, marks.ids)
        # a context has half of the room at least; without a mark the question has a token, for position 0
        room = self.most - marks.size - min(len(context.ids), self.most // 2)
        asked = question.ids[:room] if len(question.ids) or before else np.zeros(1, np.int64)
        head = before + len(asked) + between
        size = self.most - head - after
        words = np.zeros(head, np.int64), np.zeros(len(context.ids), np.int64)  # before the context, and of it
        if "match" in self.inputs:
            theirs = question.match(context)[: len(asked)]
            words[0][before : before + len(theirs)] = theirs
            words[1][:] = context.match(question)
        windows = []
        for first in range(0, max(1, len(context.ids) - size + self.stride), self.stride):
            part = slice(first, first + size)
            ids, types = marks.around([asked, context.ids[part]])
            match = np.concatenate([words[0], words[1][part], np.zeros(after, np.int64)])
            row = {"tokens": ids, "types": types, "match": match}
            read = {name: torch.from_numpy(row[name]) for name in MODEL_INPUTS if name in (*self.inputs, "tokens")}
            read = CutRow(read) if len(asked) < len(question.ids) else read
            windows.append(ContextWindow(read, head, context.starts[part], context.ends[part]))
        return windows

    def encode(self, inputs: Sequence[Any]) -> list[EncodedRow]:
        return [window.row for windows in self.windows(inputs) for window in windows]

    def answers(
        self, inputs: Sequence[Any], outputs: Sequence[Tensor], settings: AnswerSettings
    ) -> Sequence[Sequence[AnswerSpan]]:
        if settings.threshold is not None and not self.unanswerable:
            raise InputError("threshold: each training question had an answer, and so has each here; leave it out")
        threshold = self.threshold if settings.threshold is None else settings.threshold
        best, cut = [], []
        for spans, none, is_part in self.rank_spans(inputs, outputs, settings):
            if self.unanswerable or not spans:
                spans.append(AnswerSpan("", none))
            weight = float(np.exp(-threshold))
            spans.sort(key=lambda span: -span.score * (1.0 if span.text else weight))
            best.append(spans[: settings.n_best])
            cut.append(is_part)
        return noted(best, cut, self.most)

    def calibrated(self, records: Sequence[Record], outputs: Sequence[Tensor]) -> Answering:
        """With the threshold for "no answer" that gives the highest F1 on these records."""
        if not self.unanswerable:
            return self
        ranked = self.rank_spans([self.input_of(record) for record in records], outputs, AnswerSettings())
        margins, gains = [], []
        for record, (spans, none, _) in zip(records, ranked, strict=True):
            if spans:
                margins.append(np.log(max(none, 1e-300)) - np.log(max(spans[0].score, 1e-300)))
                empty, best = (scores_of(text, texts_of(record), True)[0] for text in ("", spans[0].text))
                gains.append(empty - best)
        return replace(self, threshold=best_threshold(np.array(margins), np.array(gains)))

    def rank_spans(
        self, inputs: Sequence[Any], outputs: Sequence[Tensor], settings: AnswerSettings
    ) -> Iterator[tuple[list[AnswerSpan], float, bool]]:
        """For each input its best spans, the probability that there is no answer, which is the least of its windows',
        and whether the question was cut."""
        count, parts = settings.n_best, iter(outputs)
        for each, windows in zip(inputs, self.windows(inputs), strict=True):
            spans: dict[tuple[int, int], float] = {}
            none = 1.0
            for window in windows:
                logits = next(parts)[: window.first + len(window.starts)]
                scores, empty = span_scores(logits, window.first, settings.max_answer or self.longest)
                none = min(none, empty)
                # several runs of tokens may be one text: they differ in the blanks at the ends
                values, places = scores.flatten().topk(min(4 * count, scores.numel()))
                for value, place in zip(values.tolist(), places.tolist(), strict=True):
                    first, more = divmod(place, scores.shape[1])
                    if value > 0:
                        span = strip_span(each["context"], window.starts[first], window.ends[first + more])
                        spans[span] = max(value, spans.get(span, 0.0))
            chosen = sorted((span for span in spans if span[0] < span[1]), key=lambda span: -spans[span])[:count]
            best = [AnswerSpan(each["context"][start:end], spans[start, end], start, end) for start, end in chosen]
            yield best, none, isinstance(windows[0].row, CutRow)


def span_scores(logits: Tensor, first: int, longest: int) -> tuple[Tensor, float]:
    """Probabilities of the spans of a window, and that of none.

    logits  (length, 2) of its positions; the context begins at `first`
    scores  (tokens of the context, at most `longest`): of spans of 1, 2, ... tokens from each token on
    """
    nats = torch.cat([logits[:1], logits[first:]]).double().log_softmax(0)
    start, end = nats[1:, 0], nats[1:, 1]
    longest = min(longest, len(start))
    if not longest:
        return torch.zeros(0, 1), 1.0
    ends = torch.cat([end, end.new_full((longest - 1,), -torch.inf)]).unfold(0, longest, 1)
    return (start[:, None] + ends).exp(), float(nats[0].sum().exp())


def strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the blanks at its ends."""
    part = text[start:end]
    begin = int(start) + len(part) - len(part.lstrip())
    return begin, begin + len(part.strip())


class Questions(RowReader):
    """Records with the fields `question`, `context`, `answers` (texts) and `starts` (characters)."""

    compared = ("question", "context")
    together = ("context",)
    parted = True

    def read(self, sources: Any, settings: Any, key: str, notes: list[str]) -> list[Record]:
        columns = columns_for(sources, settings)
        kinds = {name: kind for name, kind in (("answers", "list"), ("starts", "numbers")) if name in columns}
        records = read_records(sources, columns, kinds=kinds, optional=tuple(kinds), **settings.reading)
        return list(map(locate_answers, records.read_all(key, notes, "questions")))

    def learn(
        self, rows: SplitRows, tokenizer: Any, sizes: dict[str, int], settings: Any, inputs: Sequence[str]
    ) -> Answering:
        answers = [text for record in rows.training for text in texts_of(record)]
        if not answers:
            raise DataError("no training question has an answer: there is nothing to learn")
        longest = int(np.quantile([len(ids) for ids in tokenizer.encode_many(answers)], ANSWER_QUANTILE))
        unanswerable = not all(texts_of(record) for record in rows.training)
        how = (settings.stride, max(1, longest), unanswerable, 0.0)
        return Answering(tokenizer, list(inputs), sizes["context"], settings.lower, *how)

    def side(self, kind: Any, records: Sequence[Record]) -> Side:
        """A row and a target for each window of a record."""
        assert isinstance(kind, Answering)
        rows, targets, owners = [], [], []
        inputs = [kind.input_of(record) for record in records]
        for place, windows in enumerate(kind.windows(inputs)):
            for window in windows:
                rows.append(window.row)
                targets.append(window.target(usual_answer(records[place])))
                owners.append(place)
        of_record = np.array(owners, dtype=np.int64)
        return Side(records, rows, targets, kind.lengths(rows), partial(self.batch_of, kind), of_record)

    def texts(self, records: Sequence[Record]) -> list[str]:
        return list(dict.fromkeys(str(record[name]) for record in records for name in ("context", "question")))

    def shown(self, record: Record) -> tuple[str, list[str]]:
        return f"{record['question']} ({record.place})", texts_of(record)

    def about(self, kind: Answering, records: Sequence[Record]) -> dict[str, str]:
        without = sum(not texts_of(record) for record in records)
        return {"answers": f"of at most {kind.longest} tokens; {without:,} questions have none"}


def by_sliding_window(learned: Sequence[Record], records: Sequence[Record]) -> list[Answer]:
    common = common_words(list(dict.fromkeys(str(record["context"]) for record in learned)))
    return [Answer(sliding_window(str(row["question"]), str(row["context"]), common)) for row in records]


def by_first_sentence(learned: Sequence[Record], records: Sequence[Record]) -> list[Answer]:
    return [Answer(first_sentence_of(str(record["context"]))) for record in records]


def count_marks(targets: Tensor) -> int:
    """How many starts and ends rows have together: one of each, or several where answers differ."""
    marks = targets.clamp(min=0)
    return sum(int((marks & mark > 0).sum()) for mark in (START, END))


@task("question-answering")
class QuestionAnswering(RowTask):
    """Questions, each on a text in which the answer stands."""

    settings = QuestionSettings
    evaluation = evaluation_of(QuestionSettings, "question", "passage", "answers", "starts")
    measures = ("loss", "f1", "exact_match")
    higher = frozenset(["f1", "exact_match"])
    score = "f1"
    confident = True
    terms = staticmethod(count_marks)
    reader = Questions()
    others = Answering.of_others
    trivial: ClassVar = {"sliding window": by_sliding_window, "first sentence": by_first_sentence}
    model = {"family": "encoder", "output": "logits = linear(x, 2)"}
    verb = ANSWER

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.example = str(self.data.source.validation[0]["question"])

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        super().check(architecture)
        others = [name for name in architecture.inputs if name not in MODEL_INPUTS]
        if others or "tokens" not in architecture.inputs:
            raise InputError(
                f"{cls.name} gives a model {', '.join(MODEL_INPUTS)}; this one reads"
                f" {', '.join(architecture.inputs) or 'nothing'}: take {', '.join(others) or 'a model of tokens'}"
            )
        (output,) = architecture.output.leaves.values()
        if output.width != 2 or output.sequence != "tokens":
            where = "" if output.sequence == "tokens" else ", not of the tokens"
            raise InputError(
                f"{cls.name}: start and end are two numbers at each token; `output` makes"
                f" {outputs_in_words(architecture)}{where}: {setting('output', 'logits = linear(x, 2)')}"
            )

    def objective(self, output: Tensor, batch: Batch) -> Tensor:
        counted, marks = batch.targets >= 0, batch.targets.clamp(min=0)
        nats = output.masked_fill(~counted[..., None], -torch.inf).log_softmax(1)
        right = [nats[..., side][marks & mark > 0] for side, mark in enumerate((START, END))]
        return -torch.cat(right).mean()

    @classmethod
    def measure(cls, answers: Sequence[Answer], records: Sequence[Record]) -> list[Measured]:
        return squad([answer.text for answer in answers], [texts_of(record) for record in records])


def best_threshold(margins: np.ndarray, gains: np.ndarray) -> float:
    """The threshold above which "no answer" gains the most in all: margins are log P(none) - log P(best span), gains
    what "no answer" scores more than the span."""
    if not len(margins):
        return 0.0
    order = np.argsort(-margins)
    bounds = np.concatenate([[margins.max() + 2], margins[order], [margins.min() - 2]])
    count = int(np.concatenate([[0.0], np.cumsum(gains[order])]).argmax())  # so many have no answer
    return float(bounds[count : count + 2].mean())


def texts_of(record: Record) -> list[str]:
    """The answers of a question; none where it has none."""
    answers = record["answers"]
    assert isinstance(answers, list)
    return [str(text) for text in answers]


def usual_answer(record: Record) -> tuple[int, int] | None:
    """Where the answer stands that most people gave, of these the first: from character to character."""
    starts = record["starts"]
    assert isinstance(starts, list)
    spans = Counter((int(start), int(start) + len(text)) for text, start in zip(texts_of(record), starts, strict=True))
    return max(spans, key=lambda span: spans[span], default=None)


def columns_for(sources: Any, settings: QuestionSettings) -> dict[str, str | int]:
    """Which columns hold what."""
    names, _ = columns_of(sources, **settings.reading)
    answers = settings.answers or ("answers" if "answers" in names else "answer")
    starts = settings.starts or ("starts" if "starts" in names else None)
    columns: dict[str, str | int] = {"question": settings.question, "context": settings.passage, "answers": answers}
    return columns if starts is None else {**columns, "starts": starts}


def locate_answers(record: Record) -> Record:
    """A record whose answers stand where it says, or where they first stand. Raises DataError where they do not."""
    context, answers = str(record["context"]), [text for text in texts_of(record) if text]
    named = record.get("starts", [context.find(text) for text in answers])
    assert isinstance(named, list)
    starts = [int(start) for start in named]
    if len(starts) != len(answers):
        raise DataError(f"{record.place}: {len(answers)} answers and {len(starts)} starts; give one for each")
    for text, start in zip(answers, starts, strict=True):
        if start < 0 or context[start : start + len(text)] != text:
            raise DataError(
                f"{record.place}: the answer {excerpt(text)} does not stand in the context at character {start}; there"
                f" stands {excerpt(context[max(0, start) :][: len(text)])}: set the start or the answer right"
            )
    values = {"question": record["question"], "context": context, "answers": answers, "starts": starts}
    return Record(values, record.place, record.group)
