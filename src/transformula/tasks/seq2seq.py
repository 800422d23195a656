"""Sequence to sequence: a model learns to write a target for a source. Translation and its relatives are made of it.

    loss = mean over the real positions of -log P(target token | source, target tokens before), smoothed in training

The model's inputs decide the family: `source` and `tokens` (an encoder and a decoder), `image` and `tokens`, or
`tokens` alone (a decoder, which reads source, end, target, end as one text; the target alone is learned).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from pydantic import Field
from torch import Tensor, nn

from ..data.built_in import built_in_names
from ..data.preview import Preview, lengths_in_words, lengths_of, rows_under
from ..data.records import Record
from ..data.settings import FileSettings, Named, Seq2SeqSettings
from ..data.source_target import references_of
from ..data.sources import need_sources
from ..data.splits import short_row
from ..errors import ConfigError, InputError, setting, shortened
from ..generation.settings import SearchSettings
from ..language.graph import Architecture
from ..plain import several
from .base import (
    EVALUATION_COST,
    Batch,
    Progress,
    Scores,
    Task,
    check_causal,
    check_logits,
    refuse_row_count,
    tasks,
)
from .chunked_loss import token_loss
from .losses import target_scores
from .scores.baselines import Baseline, predicted_by
from .scores.measured import Measured
from .scores.report import ScoreReport, score_report, standing_above
from .seq2seq_data import RowSource, Seq2SeqData, channels_of
from .soft import SoftTargets
from .trained import ScoredRowSettings, Trained
from .verb import Verb
from .writing import WRITING_COST, Writing, load_predictor

MAX_EXAMPLE_CHARACTERS = 80  # characters of a source that stands in a command as an example, at most
SHOWN_ROWS = 5  # rows for which targets are generated to be looked at
# Settings of an evaluation that say how the rows of --data are read.
COLUMNS = ("source", "target", "references", "join", *FileSettings.model_fields)


class Seq2SeqEvaluation(ScoredRowSettings, SearchSettings):
    """How targets are searched for; how the rows of --data are read, by default as in training; and their columns."""

    source: str | None = Field(None, description="the column of the source in --data; by default as in training")
    target: str | None = Field(None, description="the column of the target in --data; by default as in training")
    references: str | None = Field(None, description="a column of --data with a list of texts, each of them right")
    join: str | None = Field(None, description="what joins the texts of a list in one column of --data")


class SequenceToSequence(Task):
    """A model learns to write targets for sources. A task says:

    source   where the rows come from
    measure  predictions, references and options of its `evaluation` -> scores of what is written, the main one first
    answers  records -> the texts that a score accepts as right for each
    columns  settings of an evaluation that say how the rows of --data are read
    options  options of `measure`, and texts that are right -> the options with those that were left to the task, and
             what a person is told of these
    scores   these, and any others that an evaluation finds, such as bleu_lower_cased; more of each is better
    trivial  the baselines, by name

    data     the rows, encoded
    """

    chunks = True
    soft_targets = SoftTargets(lambda task, model: task.data.validation_batches())
    unit = "target tokens"
    others = Writing.of_others
    settings = Seq2SeqSettings
    evaluation = Seq2SeqEvaluation
    verb = Verb(
        "translate",
        help="write a text for a text, with a model that was trained on pairs",
        about="""\
Translate with a trained model: arguments, the lines of a file, or those of standard input as they come. A line in, a
line out, in order; an empty line stays one. So it is for every model that writes a text for a text.""",
        examples=(
            'transformula translate runs/translator "Zwei Hunde spielen im Schnee."',
            "transformula translate runs/translator --input test.de --output test.en --beam 5",
            "cat test.de | transformula translate runs/translator --scores",
            "transformula translate runs/translator --input rows.jsonl --column de --format jsonl --n-best 3",
            'transformula translate runs/translator "Zwei Hunde." --prefix "Two" --with runs/second',
        ),
        settings=SearchSettings,
        answers="written",
        prefix=True,
        ensemble=True,
    )
    sequences = None
    source: ClassVar[RowSource]
    measure: Callable[..., Iterable[Measured]]
    answers: ClassVar[Any] = staticmethod(references_of)
    columns: ClassVar[tuple[str, ...]] = COLUMNS
    options: ClassVar[Any] = staticmethod(lambda options, references: (options, ""))
    scores: ClassVar[tuple[str, ...]]
    trivial: ClassVar[Mapping[str, Baseline]]

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if "scores" in cls.__dict__:
            cls.measures = ("loss", "perplexity", *cls.scores)
            cls.higher = frozenset(cls.scores)

    def __init__(
        self, settings: Any, numbers: Mapping[str, Any], *, inputs: Sequence[str] = ("source", "tokens"),
        batch: int | None = None, accumulate: int = 1, seed: int = 1,
    ) -> None:  # fmt: skip
        refuse_row_count(self.name, batch)
        reads = "image" if self.source.pictures else "source" if "source" in inputs else "tokens"
        self.data = data = Seq2SeqData(self.source, self.name, settings, numbers, reads, accumulate, seed)
        self.numbers, self.seed = data.numbers, seed
        self.score = "loss" if settings.written == 0 else self.scores[0]
        own = {key: getattr(settings, key) for key in own_options(type(self)) if key in type(settings).model_fields}
        self.resolved, note = type(self).options(own, type(self).answers(data.validation.records))
        self.measure = partial(type(self).measure, **self.resolved)
        data.notes += [note] if note else []
        if not self.source.pictures:
            sources = (" ".join(str(row["source"]).split()) for row in data.validation.records)
            self.example = next((text for text in sources if 0 < len(text) <= MAX_EXAMPLE_CHARACTERS), "")

    @classmethod
    def numbers_of(cls, architecture: Architecture, stated: Collection[str]) -> dict[str, Any]:
        """And the number of channels of the pictures that the model's words say they read."""
        return {**super().numbers_of(architecture, stated), **channels_of(architecture)}

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        read, known = architecture.inputs, cls.source.models
        if set(read) not in known:
            wanted = " or ".join(" and ".join(f"`{name}`" for name in sorted(each)) for each in known)
            raise InputError(
                f"{cls.name} trains a model that reads {wanted}; this one reads {', '.join(read) or 'nothing'}."
                f" A model of two stacks: see `transformula gallery show {cls.source.gallery}`"
            )
        check_causal(cls.name, architecture)
        check_logits(cls.name, architecture)

    @classmethod
    def check_data(cls, settings: Any) -> None:
        if "data" in type(settings).model_fields and settings.data is None:  # a rule makes its own rows
            files, kind = cls.source.named
            sets = ", ".join(built_in_names(kind))
            raise InputError(
                f"no {setting('data')}: {cls.name} learns from rows; name {files}, or a built-in set: {sets}"
            )

    @classmethod
    def need(cls, settings: Any) -> None:
        if settings.written != 0:
            tasks.need(cls.name)
        settings.need()
        if cls.source.pictures:
            for sources in settings.sources:
                need_sources(sources, pictures=True)

    def batch(self, step: int, micro: int = 0) -> Batch:
        return self.data.training.batch(self.data.buckets.rows(step, micro))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return token_loss(model, batch, self.data.settings.label_smoothing)

    def steps(self, epochs: float) -> int:
        return self.data.buckets.steps(epochs)

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores on the validation rows.

        loss         nats per target token, each end included, without smoothing
        perplexity   exp(loss)
        and scores of the targets that the model generates greedily, of all rows or of `written` ones; `beyond` is the
        main one of these on the rows beyond those of training, where there are such
        """
        data, side, rows = self.data, self.data.validation, self.data.generated_rows
        heard, total = progress or (lambda done, total: None), len(side) + len(rows)

        def batches() -> Iterator[Batch]:
            done = 0
            for batch in data.validation_batches():
                yield batch
                done += len(batch.targets)
                heard(done, total)

        def of_written(records: Sequence[Record], written: Progress | None = None) -> list[Measured]:
            return list(self.measure(data.texts(model, records, written), self.answers(records)))

        scores = target_scores(model, batches())
        if rows:
            records = [side.records[row] for row in rows]
            scores.measure(of_written(records, lambda done, _: heard(len(side) + done, total)))
            if data.beyond is not None:
                scores["beyond"] = of_written(data.beyond.records)[0].score
        return scores

    @property
    def validation_rows(self) -> int:
        return len(self.data.validation)

    def cost_of(self, rows: int) -> float:
        data, most = self.data, self.data.settings.written
        cost = EVALUATION_COST * rows * float(data.validation.targets.lengths.mean())
        cost += WRITING_COST * int(data.training.targets.lengths.max()) * (rows if most is None else min(rows, most))
        if data.beyond is not None and most != 0:
            cost += WRITING_COST * int(data.beyond.targets.lengths.max()) * data.beyond_count(rows)
        return cost

    def keep_rows(self, rows: np.ndarray) -> None:
        self.data = self.data.part(rows)

    def baselines(self) -> dict[str, float]:
        if self.score == "loss":
            return {}
        records = [self.data.validation.records[row] for row in self.data.generated_rows]
        texts, references = predicted_by(self.trivial, self.data.training.records, records, []), self.answers(records)
        return {name: next(iter(self.measure(written, references))).score for name, written in texts.items()}

    def verdict(self, scores: Mapping[str, float]) -> str:
        """For instance 'bleu 36.2 on 1,014 validation rows: above copy (1.3)'."""
        if self.score == "loss":
            return f"{scores['loss']:.2f} nats per target token"
        return (
            f"{self.score} {scores[self.score]:.1f} on {len(self.data.generated_rows):,} validation rows, greedily:"
            f" {standing_above(scores[self.score], self.baselines())}"
        )

    def sample(self, model: nn.Module, seed: int = 1) -> str:
        """A few validation rows: source, output and reference."""
        side = self.data.validation
        records = [side.records[row] for row in np.random.default_rng(seed).permutation(len(side))[:SHOWN_ROWS]]
        lines = []
        for record, text in zip(records, self.data.texts(model, records), strict=True):
            source = record["source"]
            first = ("source", source) if isinstance(source, str) else ("picture", record.place)
            texts = (first, ("output", text), ("reference", str(record["target"])))
            lines += [*(f"{name:<11}{shortened(' '.join(each.split()), 100)}" for name, each in texts), ""]
        return "\n".join(lines).strip()

    @classmethod
    def report(
        cls, trained: Trained, data: Named, given: Mapping[str, Any], progress: Progress | None = None
    ) -> ScoreReport:
        """Scores of what the model writes for the test rows of its run, or for those named; see `Seq2SeqEvaluation`."""
        if "n_best" in given:
            raise ConfigError("n_best: what is scored is the best of each search; leave it out")
        chosen = cls.evaluation.read(given)
        search = SearchSettings.read({key: getattr(chosen, key) for key in SearchSettings.model_fields})
        settings = cls.settings.read(trained.settings_of(cls.settings))
        stated = {key: getattr(chosen, key) for key in (*cls.columns, "overlap") if given.get(key) is not None}
        such = ", for instance 'test.{de,en}'"
        records, learned, notes = trained.rows_to_score(cls.source, settings, data, stated, such)
        known = {key: trained.recorded[key] for key in own_options(cls) if key in trained.recorded and key not in given}
        own = {key: getattr(chosen, key) for key in own_options(cls)} | known
        references = cls.answers(records)
        own, note = cls.options(own, references)
        notes += [note] if note else []
        writing = cast(Writing, load_predictor(trained.folder))
        inputs = list(map(writing.input_of, records))
        answers = writing.predict(trained.modules, inputs, search, progress=progress)
        written = [best[0].text for best in answers]
        baselines = predicted_by(cls.trivial, learned, records, notes)
        for name, others in writing.blinded(inputs).items():
            baselines[name] = [best[0].text for best in writing.predict(trained.modules, others, search)]
        shown = [row.place if cls.source.pictures else str(row["source"]) for row in records]
        return score_report(
            lambda texts: cls.measure(texts, references, **own),
            written,
            baselines,
            list(zip(shown, written, map(several, references), strict=True)),
            how_of(search, writing.usual, len(trained.modules)),
            notes,
        )

    def preview(self) -> Preview:
        data, settings, name, notes = self.data, self.data.settings, self.data.rows.name, self.data.notes
        training, validation, fill = len(data.training), len(data.validation), data.buckets.fill()
        examples = [short_row(record) for record in data.rows.training[:5]]
        lengths = {side: lengths_of(each - 1) for side, each in data.lengths.items()}  # without their ends
        about = {"data": name, "training_rows": training, "validation_rows": validation, "tokenizer": data.about}
        about |= {"batches": str(fill), "examples": examples, "lengths": lengths, "notes": list(notes)}
        rows = [
            ("data", f"{name}: {training:,} rows to train, {validation:,} to validate"),
            ("tokenizer", data.about),
            ("batches", f"{settings.batch_tokens:,} {settings.batch_counted} tokens ({settings.batch_side}): {fill}"),
            *rows_under("examples", examples),
            *((side, lengths_in_words(each)) for side, each in lengths.items()),
            *(("note", note) for note in notes),
        ]
        return Preview(about, rows)

    def predictor(self) -> Writing:
        return self.data.limited

    def describe(self) -> dict[str, Any]:
        data, training = self.data, self.data.training
        about = self.source.describe(data.settings, len(training), len(data.validation))
        return {
            "task": self.name,
            "data": data.rows.name,
            "identity": data.identity,
            "target_tokens": int(training.targets.lengths.sum()),
            "tokenizer": data.writing.target.identity,
            **json.loads(json.dumps({**about, **self.numbers})),
        }


def own_options(kind: type[SequenceToSequence]) -> list[str]:
    """The options of a task's measure: what its `evaluation` adds to that of all such tasks."""
    others = (*Seq2SeqEvaluation.model_fields, *kind.columns)
    return [key for key in kind.evaluation.model_fields if key not in others]


def how_of(settings: SearchSettings, usual: int, models: int) -> str:
    """A search in words; `usual` tokens are written at most where nothing is said."""
    most = f"{settings.max_length or usual} tokens"
    if settings.max_ratio is not None:
        most = f"{settings.max_ratio:g} times the source" + (f", {most}" if settings.max_length else "")
    parts = [f"beam {settings.beam}", f"score {settings.formula}", f"at most {most}"]
    parts += [f"at least {settings.min_length} tokens"] if settings.min_length else []
    parts += ["early stopping"] if settings.early_stopping else []
    parts += [f"no {settings.block_ngrams} tokens in a row twice"] if settings.block_ngrams else []
    parts += [f"{models} models, their {settings.ensemble} averaged"] if models > 1 else []
    return ", ".join(parts)
