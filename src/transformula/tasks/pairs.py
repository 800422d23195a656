"""Sequence to sequence: a model learns to write a target for a source. Translation and its relatives are made of it.

    loss = mean over the real positions of -log P(target token | source, target tokens before), smoothed in training

The model's inputs decide the family: `source` and `tokens` (an encoder and a decoder), `image` and `tokens`, or
`tokens` alone (a decoder, which reads source, end, target, end as one text; the target alone is learned).
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor, nn

from ..data.built_in import built_in_names
from ..data.overlap import short_row
from ..data.preview import Preview, lengths_of, lengths_shown, under
from ..data.record import Record, Value
from ..data.settings import Named, Seq2SeqSettings, check_pictures
from ..data.source_target import SourceTargetRows, fitting, read_source_target, references_of
from ..data.sources import need_sources
from ..data.spelling import Spelling
from ..data.tokenizing import choose_tokenizers
from ..errors import ConfigError, InputError, setting
from ..generation.settings import SearchSettings
from ..language.graph import Architecture
from ..tokenizers.base import Tokenizer
from .base import FORWARD, LEAST, Batch, Progress, Scores, Task, check_causal, sample_of, tasks
from .evaluation import Trained
from .label_smoothing import IGNORED, smoothed_cross_entropy
from .nats import target_scores
from .pair_batches import Side
from .pair_limits import Longest, channels_of, check_context, picture_shape
from .pair_report import PairEvaluation, PairReport, rows_to_score, scored
from .scores.measured import Measured, References
from .verb import Verb
from .writing import Writing

GREEDY = SearchSettings(beam=1, alpha=0.0)
"""How validation rows are written while training."""

WRITING = 2.0
"""What a token costs that is written, of what it costs in training; a model that has learned little writes many."""

MOST_SHOWN = 80
"""Characters of a source that stands in a command, at most."""

SHOWN = 5
"""Rows that are written to be looked at."""


TRANSLATE = Verb(
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


class Pairs(Task):
    """A model learns to write targets for sources.

    usual     the built-in rows of old runs that named none; "": the task makes its rows itself
    pictures  the source is a picture

    rows      what was read
    lengths   tokens of all training rows, of those too that are left out, their ends included
    writing   how the model is asked
    """

    unit = "target tokens"
    settings = Seq2SeqSettings
    evaluation = PairEvaluation
    verb = TRANSLATE
    sequences = None
    reads = ("vocab", "source_vocab", "context")
    measures: ClassVar[tuple[str, ...]] = ("loss", "perplexity")
    usual: ClassVar[str] = ""
    pictures: ClassVar[bool] = False

    def __init__(
        self,
        rows: SourceTargetRows,
        writing: Writing,
        settings: Seq2SeqSettings,
        numbers: Mapping[str, int],
        about: str,
        accumulate: int = 1,
        seed: int = 1,
    ) -> None:
        self.rows, self.writing, self.chosen, self.numbers = rows, writing, settings, dict(numbers)
        self.seed, self.about, self.notes = seed, about, list(rows.notes)
        self.score = "loss" if settings.written == 0 else self.measures[2]
        self.lengths: dict[str, np.ndarray] = {}
        self.training = self._learned(rows.training)
        self.validation = self._measured(rows.validation)
        self.buckets = self.training.buckets(settings, accumulate, seed, "the training rows")

    @classmethod
    def make(
        cls,
        settings: Seq2SeqSettings,
        numbers: Mapping[str, Any],
        *,
        inputs: Sequence[str] = ("source", "tokens"),
        batch: int | None = None,
        accumulate: int = 1,
        seed: int = 1,
    ) -> Self:
        if batch is not None:
            raise ConfigError(f"batch: batches of {cls.name} are counted in tokens; say --batch-tokens instead")
        if cls.pictures:
            check_pictures(settings, cls.name)
        rows = cls.read(settings)
        reads = "image" if cls.pictures else "source" if "source" in inputs else "tokens"
        found, about = cls.tokenizers(settings, rows, reads, numbers)
        source, target = found.get("source"), found["target"]
        made = {"vocab": max(target.vocab, int(numbers.get("vocab") or 0))}
        if source is not None and source is not target:
            made["source_vocab"] = max(source.vocab, int(numbers.get("source_vocab") or 0))
        picture = picture_shape(rows.training, numbers.get("channels"))
        writing = Writing(cls.name, target, source, reads, picture=picture, spelling=cls.spelling(settings))
        task = cls(rows, writing, settings, made, about, accumulate, seed)
        task._limit(numbers.get("context"))
        return task

    @classmethod
    def numbers_of(cls, architecture: Architecture, stated: Collection[str]) -> dict[str, int]:
        return {**super().numbers_of(architecture, stated), **channels_of(architecture)}

    @classmethod
    def check_data(cls, settings: Any) -> None:
        if cls.usual and settings.data is None:
            files = "a folder of pictures with captions" if cls.pictures else "files, as in 'train.{de,en}' or rows.tsv"
            raise InputError(
                f"no {setting('data')}: {cls.name} learns from rows; name {files}, or a built-in set:"
                f" {', '.join(built_in_names('pictures' if cls.pictures else 'pairs'))}"
            )

    @classmethod
    def need(cls, settings: Any) -> None:
        if settings.written != 0:
            tasks.need(cls.name)
        settings.need()
        if cls.pictures:
            for sources in (settings.data, settings.validation, settings.test):
                need_sources(sources, pictures=True)

    @classmethod
    def spelling(cls, settings: Any) -> Spelling:
        """How texts are spelled for the model."""
        return Spelling(settings.split_names, settings.lower)

    @classmethod
    def tokenizers(
        cls, settings: Any, rows: SourceTargetRows, reads: str, numbers: Mapping[str, Any]
    ) -> tuple[dict[str, Tokenizer], str]:
        """The tokenizer of each side that is a text, and a line that says how they came to be."""
        if reads == "tokens" and not settings.joint:
            raise ConfigError("joint: a decoder alone reads source and target as one text, with one tokenizer")
        names = ("target",) if cls.pictures else ("source", "target")
        texts = cls.spelling(settings).texts
        sides = {name: texts(rows.training, name) for name in names}
        held = {name: [*texts(rows.validation, name), *texts(rows.test, name)] for name in names}
        return choose_tokenizers(settings.tokenizer, settings.joint, sides, held, numbers)

    @property
    def sides(self) -> list[Side]:
        """All rows that the model reads, in training and in evaluations."""
        return [self.training, self.validation]

    def _limit(self, context: Any) -> None:
        """The number `context` where the model states none: the longest row of all."""
        longest = Longest.of(self.sides)
        if context is not None:
            check_context(self.sides, longest, int(context), self._shorter(longest, int(context)))
        self.numbers["context"] = longest.length if context is None else int(context)

    def _shorter(self, longest: Longest, context: int) -> str:
        """How the longest row is made to fit, for an error."""
        if longest.side is not self.training:
            return longest.shorter_held(context)
        return "limit the rows with --max-source and --max-target"

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        read = architecture.inputs
        known = ({"image", "tokens"},) if cls.pictures else ({"source", "tokens"}, {"tokens"})
        if set(read) not in known:
            wanted = " or ".join(" and ".join(f"`{name}`" for name in sorted(each)) for each in known)
            raise InputError(
                f"{cls.name} trains a model that reads {wanted}; this one reads {', '.join(read) or 'nothing'}."
                " A model of two stacks: see `transformula gallery show vaswani`"
            )
        check_causal(cls.name, architecture)

    # Rows.

    @classmethod
    def read(cls, settings: Any) -> SourceTargetRows:
        """The rows that the settings name."""
        return read_source_target(settings, cls.usual, cls.pictures)

    def _learned(self, records: Sequence[Record]) -> Side:
        """Training rows, encoded; those that are too long are left out, cut or refused."""
        side, chosen = Side.of(records, self.writing), self.chosen
        self.lengths = side.lengths
        most = {"source": chosen.max_source, "target": chosen.max_target}
        fits, note = fitting(side.lengths, most, chosen.too_long, records, "training")
        if note:
            self.notes.append(note)
        if chosen.too_long == "cut":
            return Side.of(records, self.writing, chosen.max_source, chosen.max_target)
        kept = [record for record, fit in zip(records, fits, strict=True) if fit]
        return side if fits.all() else Side.of(kept, self.writing)

    def _measured(self, records: Sequence[Record]) -> Side:
        """Rows that measure: no row is left out and no target is cut, so that scores are those of all the data."""
        return Side.of(records, self.writing, self.chosen.max_source)

    # What the trainer asks for.

    def batch(self, step: int, micro: int = 0) -> Batch:
        return self.training.batch(self.buckets.rows(step, micro))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return smoothed_cross_entropy(model(**batch.given), batch.targets, self.chosen.label_smoothing)

    def units(self, batch: Batch) -> int:
        return int((batch.targets != IGNORED).sum())

    def steps(self, epochs: float) -> int:
        return self.buckets.steps(epochs)

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores on the validation rows.

        loss         nats per target token, each end included, without smoothing
        perplexity   exp(loss)
        and what scores the targets that the model writes greedily, of all rows or of `written` ones
        """
        rows, side = self.written_rows, self.validation
        whole = len(side) + len(rows)

        def heard(done: int) -> None:
            if progress is not None:
                progress(done, whole)

        # room for the longest row, however long, on all sides together
        least = sum(int(each.max()) for each in side.read.values())
        buckets = side.buckets(self.chosen, 1, 0, "the rows that measure", least)
        scores = target_scores(model, (side.batch(each) for each in buckets.epoch()), heard)
        if rows:
            records = [side.records[row] for row in rows]
            texts = self._texts(model, records, GREEDY, lambda done, _: heard(len(side) + done))
            scores.update((key_of(one), one.score) for one in self.measure(texts, references_of(records)))
        return scores

    def evaluation_cost(self) -> int:
        return self._cost(len(self.validation))

    def _cost(self, rows: int) -> int:
        """Of reading so many validation rows and writing the targets of those that are written."""
        targets, written = self.validation.targets.lengths, self.chosen.written
        longest = int(self.training.targets.lengths.max())
        writing = WRITING * longest * min(rows, rows if written is None else written)
        return math.ceil(FORWARD * rows * float(targets.mean()) + writing)

    def on_sample(self, cost: int) -> Self | None:
        whole = len(self.validation)
        if self.evaluation_cost() <= cost:
            return self
        count = bisect_right(range(whole), cost, key=self._cost) - 1
        if count < min(LEAST, whole):
            return None
        made = copy.copy(self)
        made.validation = self.validation.part(sample_of(whole, count, self.seed))
        made.validated = f"{count:,} of {whole:,} rows"
        return made

    @property
    def written_rows(self) -> list[int]:
        """Validation rows whose targets are written: evenly over all."""
        count = len(self.validation)
        most = count if self.chosen.written is None else min(count, self.chosen.written)
        return [place * count // most for place in range(most)] if most else []

    def _texts(
        self, model: Any, records: Sequence[Record], search: SearchSettings, progress: Progress | None = None
    ) -> list[str]:
        sources: list[Value] = [row["source"] for row in records]
        return [found[0].text for found in self.limited.write([model], sources, search, progress=progress)]

    @property
    def limited(self) -> Writing:
        """How the model is asked, with the lengths that were trained on."""
        one = self.writing
        longest = int(self.training.targets.lengths.max())
        return replace(one, most=self.chosen.max_source, longest=longest)

    # What people read.

    @property
    def example(self) -> str:
        sources = (row["source"] for row in self.validation.records)
        texts = (" ".join(source.split()) for source in sources if isinstance(source, str))
        return next((text for text in texts if 0 < len(text) <= MOST_SHOWN), "")

    @classmethod
    @abstractmethod
    def measure(cls, predictions: Sequence[str], references: References) -> Iterable[Measured]:
        """What scores targets, the headline first."""

    @classmethod
    def baseline_texts(cls, records: Sequence[Record], learned: Sequence[Record]) -> dict[str, list[str]]:
        """What trivial models write for these rows, by name; `learned` are the rows of training, none if not known."""
        return {}

    def baselines(self) -> dict[str, float]:
        if self.score == "loss":
            return {}
        records = [self.validation.records[row] for row in self.written_rows]
        asked = references_of(records)
        texts = self.baseline_texts(records, self.training.records)
        return {name: next(iter(self.measure(written, asked))).score for name, written in texts.items()}

    def verdict(self, scores: Mapping[str, float]) -> str:
        """For instance 'bleu 36.2 on 1,014 validation rows: above copy (1.3)'."""
        if self.score == "loss":
            return f"{scores['loss']:.2f} nats per target token"
        return (
            f"{self.score} {scores[self.score]:.1f} on {len(self.written_rows):,} validation rows, greedily:"
            f" {above(scores[self.score], self.baselines())}"
        )

    def sample(self, model: nn.Module, seed: int = 1) -> str:
        """A few validation rows: source, what the model writes, what was asked for."""
        rows = np.random.default_rng(seed).permutation(len(self.validation))[:SHOWN]
        records = [self.validation.records[row] for row in rows]
        lines = []
        for record, text in zip(records, self._texts(model, records, GREEDY), strict=True):
            source = record["source"]
            lines += [f"source   {shortened(source)}"] if isinstance(source, str) else [f"picture  {record.place}"]
            lines += [f"written  {shortened(text)}", f"asked    {shortened(str(record['target']))}", ""]
        return "\n".join(lines).strip()

    @classmethod
    def score_rows(
        cls,
        models: Sequence[Any],
        writing: Writing,
        records: Sequence[Record],
        learned: Sequence[Record] = (),
        search: SearchSettings | None = None,
        progress: Progress | None = None,
    ) -> PairReport:
        """Write the targets of rows and score them beside the baselines; see `pair_report.scored`."""
        return scored(cls.measure, cls.baseline_texts, models, writing, records, learned, search, progress)

    @classmethod
    def report(
        cls, trained: Trained, data: Named, given: Mapping[str, Any], progress: Progress | None = None
    ) -> PairReport:
        """Scores of what the model writes for the test rows of its run, or for those named; see `PairEvaluation`."""
        if "n_best" in given:
            raise ConfigError("n_best: what is scored is the best of each search; leave it out")
        asked = cls.evaluation.read(given)
        search = SearchSettings.read({key: getattr(asked, key) for key in SearchSettings.model_fields})
        records, learned, notes = rows_to_score(cls.read, cls.settings, cls.pictures, trained, data, given)
        writing = Writing.load(trained.folder)
        return scored(
            cls.measure, cls.baseline_texts, trained.modules, writing, records, learned, search, progress, notes
        )

    def preview(self) -> Preview:
        """What the rows hold: printed before training."""
        training, validation, chosen = len(self.training), len(self.validation), self.chosen
        examples = [short_row(record) for record in self.rows.training[:5]]
        lengths = {side: lengths_of(each - 1) for side, each in self.lengths.items()}  # without their ends
        fill = self.buckets.fill()
        data = {
            "data": self.rows.name,
            "training_rows": training,
            "validation_rows": validation,
            "tokenizer": self.about,
            "batches": str(fill),
            "examples": examples,
            "lengths": lengths,
            "notes": list(self.notes),
        }
        rows = [
            ("data", f"{self.rows.name}: {training:,} rows to train, {validation:,} to validate"),
            ("tokenizer", self.about),
            ("batches", f"{chosen.batch_tokens:,} {chosen.batch_counted} tokens ({chosen.batch_side}): {fill}"),
            *under("examples", examples),
            *((side, lengths_shown(found)) for side, found in lengths.items()),
            *(("note", note) for note in self.notes),
        ]
        return Preview(data, rows)

    def predictor(self) -> Writing:
        return self.limited

    @property
    def identity(self) -> str:
        """A hash of both splits' tokens."""
        parts = [each.identity for side in (self.training, self.validation)
                 for each in (side.sources, side.targets) if each is not None]  # fmt: skip
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:32]

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "data": self.rows.name,
            "identity": self.identity,
            "training_rows": len(self.training),
            "validation_rows": len(self.validation),
            "target_tokens": int(self.training.targets.lengths.sum()),
            "tokenizer": self.writing.target.identity,
            **{key: getattr(self.chosen, key) for key in ("max_source", "max_target", "too_long", "overlap")},
            "held_out": self.chosen.split,
            **json.loads(json.dumps(self.numbers)),
        }


def key_of(measured: Measured) -> str:
    """How a score is called among an evaluation's: "BLEU lower-cased" is bleu_lower_cased."""
    return measured.name.lower().replace(" ", "_").replace("-", "_")


def above(score: float, baselines: Mapping[str, float]) -> str:
    """Where a score (higher is better) stands among baselines, in words."""
    ranked = sorted(baselines.items(), key=lambda baseline: -baseline[1])
    beaten = [f"{name} ({value:.1f})" for name, value in ranked if value < score]
    others = [f"{name} ({value:.1f})" for name, value in ranked if value >= score]
    parts = [f"above {' and '.join(beaten[:2])}"] if beaten else []
    parts += [f"not above {' and '.join(others)}"] if others else []
    return "; ".join(parts) or "no baseline"


def shortened(text: str, width: int = 100) -> str:
    """A text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 3] + "..."
