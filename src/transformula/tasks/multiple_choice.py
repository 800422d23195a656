"""Likelihood scoring: which of several texts a language model finds most probable, and the last word of a text.

    log P(text | context) = sum over the tokens of the text of log P(token | all before)

    {"query": ..., "choices": [...], "gold": 1}                  which text follows the context
    {"context_options": [...], "continuation": ..., "gold": 0}   after which context the text is most probable
    {"context": ..., "continuation": ...}                        whether each token of the text is the most probable

Any decoder language model is scored as it is: `evaluate RUN --task multiple-choice --data FILE`. Training on such rows
learns the right texts. Context and text are tokenized together, as in lm-evaluation-harness, whose acc, acc_norm and
acc_mutual_info are the accuracies here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from pydantic import Field
from torch import nn

from ..data.lines import excerpt
from ..data.preview import Preview
from ..data.records import Record, columns_in_words, columns_of, read_records
from ..data.settings import Named, SourceSettings
from ..data.sources import files_of
from ..data.splits import SplitRows, read_split
from ..errors import ConfigError, DataError, InputError, setting
from ..generation.settings import ChoiceSettings
from ..language.graph import Architecture
from ..plain import several
from ..tokenizers.base import Tokenizer, load
from .base import EVALUATION_COST, Progress, Scores, task
from .learned_parts import PartlyLearned, PartsTask, TextScore, check_decoder, identity_of, in_batches, text_scores
from .predictor import Answer, Predictor, predictor
from .scores.measured import Measured, mean_of
from .scores.report import SHOWN_EXAMPLES, Example, ScoreReport, best_and_worst, score_rows
from .soft import SoftTargets
from .trained import Trained
from .verb import Verb

COLUMNS = {
    "context": ("context", "query", "question", "prompt", "ctx"),
    "choices": ("choices", "options", "endings"),
    "context_options": ("context_options",),
    "continuation": ("continuation",),
    "right": ("gold", "label", "answer"),
}
"""Fields of a row, and the columns that may hold them."""
LAYOUTS = (("context", "choices", "right"), ("context_options", "continuation", "right"), ("context", "continuation"))
CONTEXT_TOKENS = 512  # tokens of a context, where the model's text does not say


class ChoiceRowSettings(SourceSettings):
    """Which questions there are, and how a choice follows its context."""

    data: Named = Field(
        None, description="rows (jsonl, json, ...) with a context, choices and the right one (query, choices, gold), or"
        " with a context and its continuation; or a list of these",
    )  # fmt: skip
    target_delimiter: str = Field(
        " ", description='what stands between a context and a choice, such as "\\nAnswer: "'
    )  # fmt: skip
    batch_tokens: int = Field(4096, ge=1, description="tokens in a batch, padding included")

    @classmethod
    def of_run(cls, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """As all settings; a run of before columns had a `delimiter` meant this one by it."""
        settings = super().of_run(recorded)
        if "delimiter" in settings and "target_delimiter" not in settings:
            settings["target_delimiter"] = settings.pop("delimiter")
        return settings


class Question(NamedTuple):
    """Texts after contexts, and which of these pairs is the right one. A single pair is a text to be predicted."""

    pairs: list[tuple[str, str]]
    right: int
    place: str

    def shown(self, number: int) -> str:
        """A choice: of texts, or of contexts."""
        context, text = self.pairs[number]
        return text if len({each for _, each in self.pairs}) > 1 or len(self.pairs) == 1 else context


def read_questions(records: Sequence[Record]) -> list[Question]:
    """Records as questions. Raises DataError where the right choice is none."""
    questions = []
    for row in records:
        options: Any = row.get("choices", row.get("context_options"))
        if options is None:
            questions.append(Question([(str(row["context"]), str(row["continuation"]))], 0, row.place))
            continue
        contexts = "context_options" in row
        pairs = [(one, str(row["continuation"])) if contexts else (str(row["context"]), one) for one in options]
        right = str(row["right"])
        number = options.index(right) if right in options else int(right) if right.isdecimal() else len(pairs)
        if number >= len(pairs) or len(pairs) < 2:
            raise DataError(
                f"{row.place}: the right choice is {excerpt(right)}, of {len(pairs)}; expected one of at least two, by"
                " its number from 0 or its text"
            )
        questions.append(Question(pairs, number, row.place))
    return questions


def read_rows(sources: Any, settings: Any, key: str, notes: list[str]) -> list[Record]:
    """The rows of sources, with the fields of one of the layouts; `notes` takes what a person is told of them. Raises
    ConfigError for columns that are not those."""
    names, _ = columns_of(sources, **settings.reading)
    columns = {field: next((name for name in known if name in names), "") for field, known in COLUMNS.items()}
    fields = next((each for each in LAYOUTS if all(columns[field] for field in each)), None)
    if fields is None:
        known = "; ".join(f"{field}: {' or '.join(each)}" for field, each in COLUMNS.items())
        raise ConfigError(
            f"{key}: {columns_in_words(sources, names)}; expected"
            f" {', or '.join(' and '.join(each) for each in LAYOUTS)} ({known})"
        )
    kinds = {field: "list" for field in fields if field in ("choices", "context_options")}
    records = read_records(sources, {field: columns[field] for field in fields}, kinds=kinds, **settings.reading)
    rows = list(records)
    notes += records.notes
    return rows


def context_with(context: str, delimiter: str) -> str:
    """A context and what stands between it and a choice: nothing where it is empty, and no white space after white
    space."""
    blank = context[-1:].isspace() and delimiter[:1].isspace()
    return context + (delimiter.lstrip() if blank else delimiter) if context else context


@predictor("choosing")
@dataclass(frozen=True)
class Choosing(Predictor):
    """A context -> the given continuations, the most probable first, with probabilities that sum to 1 over them.

    context  tokens that the model reads at most: of more, the last are read
    """

    context: int
    tokenizer: Tokenizer

    settings = ChoiceSettings
    verb = "choose"

    @classmethod
    def view(cls, predictor: Predictor | None, architecture: Architecture) -> Self:
        check_decoder("choosing a text by its likelihood", architecture)
        if predictor is None or predictor.tokenizer is None:
            raise InputError("this model has no tokenizer: train it on text, or load a trained one")
        return cls(int(architecture.numbers.get("context", CONTEXT_TOKENS)), predictor.tokenizer)

    def texts(self, pairs: Sequence[tuple[str, str]], delimiter: str) -> tuple[list[PartlyLearned], list[bool]]:
        """Contexts with continuations, which count; and whether of a context the beginning was cut off. Blanks at the
        end of a context belong to the continuation, as its first token holds them."""
        wholes = [context_with(context, delimiter) + text for context, text in pairs]
        before = [context_with(context, delimiter).rstrip(" ") for context, _ in pairs]
        begin = np.array(self.tokenizer.marks.opening, dtype=np.int64)
        texts, cut = [], []
        encoded = zip(self.tokenizer.encode_many(wholes), self.tokenizer.encode_many(before), strict=True)
        for number, (whole, known) in enumerate(encoded):
            ids = np.concatenate([begin, whole])
            given = max(1, min(len(begin) + len(known), len(ids) - 1))
            if len(ids) < 2:
                raise InputError(f"choice {number + 1}: there is nothing to predict, or no context: {wholes[number]!r}")
            learned = np.arange(1, len(ids)) >= given
            cut.append(len(ids) > self.context + 1)
            texts.append(PartlyLearned(ids[-self.context - 1 :], learned[-self.context :]))
        return texts, cut

    def predict(
        self, models: Sequence[Any], inputs: Sequence[str], settings: ChoiceSettings, *,
        progress: Progress | None = None,
    ) -> list[list[Answer]]:  # fmt: skip
        pairs = [(context, choice) for context in inputs for choice in settings.choices]
        texts, _ = self.texts(pairs, settings.target_delimiter)
        nats = np.array([score.nats for score in text_scores(models[0], texts, progress)])
        nats = nats.reshape(len(inputs), len(settings.choices))
        if settings.normalize:
            nats = nats / np.array([len(choice) for choice in settings.choices])
        probabilities = torch.from_numpy(-nats).softmax(-1).numpy()
        return [
            [Answer(settings.choices[n], float(row[n])) for n in np.argsort(-row, kind="stable")]
            for row in probabilities
        ]


def question_texts(records: Sequence[Record], settings: Any) -> list[str]:
    """Contexts with their choices, from which a tokenizer learns."""
    pairs = [pair for question in read_questions(records) for pair in question.pairs]
    return [context_with(context, settings.target_delimiter) + text for context, text in pairs]


def right_texts(task: MultipleChoice, questions: Sequence[Question]) -> Sequence[PartlyLearned]:
    """The right choice of each question behind its context."""
    right = [one.pairs[one.right] for one in questions]
    return task.choosing.texts(right, task.chosen.target_delimiter)[0]


@task("multiple-choice", aliases=["likelihood-scoring"])
class MultipleChoice(PartsTask):
    """A text with some continuations, one of which is right. The loss is nats per token of the right one.

    positions  that an evaluation reads, once they were counted
    """

    read = staticmethod(read_rows)
    soft_targets = SoftTargets(lambda task, model: in_batches(right_texts(task, task.questions)))
    tokenizer_texts = staticmethod(question_texts)
    row_name = "questions"
    settings = evaluation = ChoiceRowSettings
    measures = ("loss", "accuracy")
    higher = frozenset(["accuracy"])
    score = "accuracy"
    positions = 0
    verb = Verb(
        "choose",
        help="the most probable of some continuations of a text",
        about="""\
Ask a language model which of some texts most probably follows a context: any decoder that was trained on text. With
--scores, probabilities stand before them, which sum to 1 over the choices.""",
        examples=(
            'transformula choose runs/lm "The box does not fit because it is" --choices "too big" "too small" --scores',
            'transformula choose runs/lm "She poured the tea into a" --choices cup --choices river --normalize --json',
        ),
        settings=ChoiceSettings,
        takes="CONTEXT",
        answers="choices",
        views="choosing",
    )

    def learn(self, rows: SplitRows, tokenizer: Tokenizer, numbers: Mapping[str, Any]) -> None:
        learned, self.questions = read_questions(rows.training), read_questions(rows.validation)
        self.numbers = {"vocab": max(tokenizer.vocab, int(numbers.get("vocab") or 0))}
        self.numbers["context"] = int(numbers.get("context") or CONTEXT_TOKENS)
        self.choosing = Choosing(self.numbers["context"], tokenizer)
        self.texts = right_texts(self, learned)

    @classmethod
    def check_data(cls, settings: Any) -> None:
        if settings.data is None:
            raise InputError(f"no {setting('data')}: name rows with a context, choices and the right one")

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """loss: nats per token of the right texts; accuracy, from 0 to 100: see `choice_scores`."""
        scores, _ = question_scores(model, self.questions, self.choosing, self.chosen.target_delimiter, progress)
        right = [each[one.right] for one, each in zip(self.questions, scores, strict=True)]
        loss = sum(score.nats for score in right) / sum(score.tokens for score in right)
        return Scores(loss=loss).measure(choice_scores(self.questions, scores)[:1])

    @property
    def validation_rows(self) -> int:
        return len(self.questions)

    def cost_of(self, rows: int) -> float:
        if not self.positions:
            texts = (self.choosing.texts(one.pairs, self.chosen.target_delimiter)[0] for one in self.questions)
            self.positions = sum(text.positions for each in texts for text in each)
        return EVALUATION_COST * (rows / len(self.questions)) * self.positions

    def keep_rows(self, rows: np.ndarray) -> None:
        self.questions = [self.questions[row] for row in rows]
        self.positions = 0

    def baselines(self) -> dict[str, float]:
        return {"chance": chance_accuracy(self.questions)}

    def verdict(self, scores: Mapping[str, float]) -> str:
        known = f"chance: {chance_accuracy(self.questions):.1f}"
        return f"accuracy {scores['accuracy']:.1f} on {len(self.questions):,} questions; {known}"

    def sample(self, model: nn.Module, seed: int = 1) -> str:
        """A few questions: the context, what the model chooses, and what is right."""
        questions = [self.questions[row] for row in np.random.default_rng(seed).permutation(len(self.questions))[:3]]
        scores, _ = question_scores(model, questions, self.choosing, self.chosen.target_delimiter)
        return "\n".join(map(str, examples_of(questions, scores, range(len(questions)))))

    def preview(self) -> Preview:
        training, validation = len(self.texts), len(self.questions)
        examples = [one.pairs[one.right] for one in self.questions[:SHOWN_EXAMPLES]]
        about = {"training_rows": training, "validation_rows": validation, "examples": examples, "notes": self.notes}
        rows = [("data", f"{training:,} rows to train, {validation:,} to validate")]
        return Preview(about, [*rows, *(("note", note) for note in self.notes)])

    def predictor(self) -> Choosing:
        return self.choosing

    def describe(self) -> dict[str, Any]:
        between = self.chosen.target_delimiter
        texts = [text for one in self.questions for text in self.choosing.texts(one.pairs, between)[0]]
        identity = identity_of([*self.texts, *texts])
        return {"identity": identity, "training_rows": len(self.texts), "validation_rows": len(self.questions)}

    @classmethod
    def report(
        cls, trained: Trained, data: Any, given: Mapping[str, Any], progress: Progress | None = None
    ) -> ScoreReport:
        """Accuracy by log P and by log P a character, or accuracy and perplexity of texts to be predicted, each with
        its bootstrap interval, beside chance."""
        settings = cls.settings.read({**trained.settings_of(cls.settings), **given})
        check_decoder(cls.name, trained.architecture)
        choosing = Choosing(int(trained.numbers.get("context", CONTEXT_TOKENS)), load(trained.folder))
        notes = list(trained.notes)
        parts = cls.questions_to_score(trained, data, settings, notes)
        questions = [one for part in parts.values() for one in part]
        scores, cut = question_scores(trained.alone, questions, choosing, settings.target_delimiter, progress)
        alone = scores_without_context(trained.alone, questions, choosing, settings.target_delimiter)
        rows, first, main = [], 0, []
        for name, part in parts.items():
            own = slice(first, first := first + len(part))
            each = choice_scores(part, scores[own], alone[own])
            accuracy, perplexity = chance_accuracy(part), uniform_perplexity(scores[own], trained.numbers["vocab"])
            known = [accuracy if one.higher else perplexity for one in each]
            main.append(each[0].sentences)
            titled = each if len(parts) == 1 else [replace(one, name=f"{name}: {one.name}") for one in each]
            rows += score_rows(titled, {"chance": known})
        if cut:
            notes.append(f"of {cut:,} texts longer than the context ({choosing.context} tokens) the end alone was read")
        highest, lowest = (examples_of(questions, scores, rows) for rows in best_and_worst(np.concatenate(main)))
        chosen = [
            one.shown(int(np.argmin([s.nats for s in each]))) for one, each in zip(questions, scores, strict=True)
        ]
        return ScoreReport(rows, highest, lowest, "", notes, chosen)

    @classmethod
    def questions_to_score(
        cls, trained: Trained, data: Named, settings: Any, notes: list[str]
    ) -> dict[str, list[Question]]:
        """The questions of `data`, by the names of its sources; else those of the run's validation set. What a person
        is told is added to `notes`. Raises InputError where nothing says which, DataError where they are missing."""
        sources = data or settings.validation
        if sources is not None:
            named = sources_by_name(sources).items()
            return {name: read_questions(read_rows(source, settings, "data", notes)) for name, source in named}
        if not trained.recorded:
            raise trained.unknown_data("--data FILE")
        if trained.lost:
            raise trained.missing_data()
        rows = read_split(settings, cls.read, (), ())
        notes += rows.notes
        return {"validation": read_questions(rows.validation)}


def question_scores(
    model: Any, questions: Sequence[Question], choosing: Choosing, delimiter: str, progress: Progress | None = None
) -> tuple[list[list[TextScore]], int]:
    """The scores of all texts of each question, and how many texts were cut."""
    texts, cut = choosing.texts([pair for question in questions for pair in question.pairs], delimiter)
    scores = iter(text_scores(model, texts, progress))
    return [[next(scores) for _ in question.pairs] for question in questions], sum(cut)


def sources_by_name(sources: str | Sequence[str]) -> dict[str, str]:
    """Sources, each by its name: files, those of a pattern one by one, without their folders where that suffices."""
    files = [str(file) for name in several(sources) for file in (files_of(name) if "*" in name else [name])]
    stems = [Path(file).name.split(".")[0] for file in files]
    return dict(zip(stems if len(set(stems)) == len(files) else files, files, strict=True))


def scores_without_context(
    model: Any, questions: Sequence[Question], choosing: Choosing, delimiter: str
) -> list[list[TextScore] | None]:
    """The scores of the choices of each question without its context; None where these are the same text."""
    differ = [one.pairs[0][1] != one.pairs[-1][1] for one in questions]
    pairs = [("", delimiter + text) for one, own in zip(questions, differ, strict=True) if own for _, text in one.pairs]
    scores = iter(text_scores(model, choosing.texts(pairs, "")[0]))
    return [[next(scores) for _ in one.pairs] if own else None for one, own in zip(questions, differ, strict=True)]


def choice_scores(
    questions: Sequence[Question],
    scores: Sequence[Sequence[TextScore]],
    alone: Sequence[Sequence[TextScore] | None] = (None,),
) -> list[Measured]:
    """The scores of answers. Questions with choices have the accuracy by log P, by log P divided by the characters of
    the choice and, with the scores of the choices `alone`, by what the context adds to log P (acc, acc_norm and
    acc_mutual_info of lm-evaluation-harness). Texts alone have the share whose every token is the most probable, and
    exp(mean of -log P of a text)."""
    nats = [[score.nats for score in each] for each in scores]
    if all(len(one.pairs) == 1 for one in questions):
        greedy = [100.0 * each[0].greedy for each in scores]
        each = np.array([row[0] for row in nats])
        perplexity = Measured(
            "perplexity", "exp(mean nats of a text)", lambda counts: np.exp(counts @ each / counts.sum(-1)), -each,
            higher=False,
        )  # fmt: skip
        return [mean_of("accuracy", "each token is the most probable", greedy), perplexity]
    lengths = [[len(text) for _, text in one.pairs] for one in questions]
    normalized = [np.divide(row, length) for row, length in zip(nats, lengths, strict=True)]
    kinds: list[tuple[str, str, Sequence[Any]]] = [("accuracy", "greatest log P (acc)", nats)]
    kinds.append(("normalized accuracy", "greatest log P / characters (acc_norm)", normalized))
    if all(each is not None for each in alone):
        added = [np.subtract(row, [one.nats for one in each or ()]) for row, each in zip(nats, alone, strict=True)]
        signature = "greatest log P(choice | context) - log P(choice) (acc_mutual_info)"
        kinds.append(("mutual information accuracy", signature, added))
    return [
        mean_of(name, signature, [100.0 * (int(np.argmin(row)) == one.right)
                                  for one, row in zip(questions, rows, strict=True)])
        for name, signature, rows in kinds
    ]  # fmt: skip


def chance_accuracy(questions: Sequence[Question]) -> float:
    """The accuracy of a choice at random; of texts to be predicted, 0."""
    return 100 * float(np.mean([1 / len(one.pairs) if len(one.pairs) > 1 else 0 for one in questions]))


def uniform_perplexity(scores: Sequence[Sequence[TextScore]], vocab: int) -> float:
    """The perplexity of a text if all tokens were alike."""
    return float(np.exp(min(700.0, np.mean([each[0].tokens for each in scores]) * np.log(vocab))))


def examples_of(
    questions: Sequence[Question], scores: Sequence[Sequence[TextScore]], rows: Sequence[int]
) -> list[Example]:
    """Questions to be looked at: what is chosen, what is right, and the probability that it has of all choices."""
    examples = []
    for row in rows:
        one, nats = questions[row], np.array([score.nats for score in scores[row]])
        alone = len(nats) == 1
        share = np.exp(-nats) if alone else torch.from_numpy(-nats).softmax(-1).numpy()
        chosen = f"P = {share[0]:.2g}" if alone else one.shown(int(np.argmin(nats)))
        source = one.pairs[0][0] if one.shown(0) != one.pairs[0][0] else one.pairs[0][1]
        examples.append(Example(row, 100 * float(share[one.right]), chosen, [one.shown(one.right)], source[-300:]))
    return examples
