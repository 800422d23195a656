"""Sequence to sequence: a model learns to write a target for a source. Translation and its relatives are made of it.

    loss = mean over the real positions of -log P(target token | source, target tokens before), smoothed in training

The model's inputs decide the family: `source` and `tokens` (an encoder and a decoder), `image` and `tokens`, or
`tokens` alone (a decoder, which reads source, end, target, end as one text; the target alone is learned).
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data.buckets import Buckets
from ..data.encoded import Encoded, padded
from ..data.pair_rows import PairRows, described, fitting, read_pairs, references_of
from ..data.pair_settings import PairSettings, Rows
from ..data.pair_tokenizers import pair_tokenizers
from ..data.pairs import RecordsPreview, preview_records
from ..data.records import Record, Value
from ..errors import ConfigError, InputError
from ..generation.settings import SearchSettings
from ..language.graph import Architecture
from .base import Batch, Progress, Scores, Task
from .evaluation import Trained
from .label_smoothing import IGNORED, smoothed_cross_entropy
from .pair_report import PairEvaluation, PairReport, rows_to_score, scored
from .scores.measured import Measured, References
from .writing import Writing, as_numbers, end_of

GREEDY = SearchSettings(beam=1, alpha=0.0)
"""How validation rows are written while training."""

SHOWN = 5
"""Rows that are written to be looked at."""


@dataclass(frozen=True)
class Side:
    """A split, encoded: sources (none for pictures) and targets with their ends, and its records."""

    records: Sequence[Record]
    sources: Encoded | None
    targets: Encoded

    def __len__(self) -> int:
        return len(self.records)


class Pairs(Task):
    """A model learns to write targets for sources.

    usual     the built-in rows that are taken where none are named
    pictures  the source is a picture

    rows      what was read
    writing   how the model is asked
    """

    unit = "target tokens"
    settings = PairSettings
    evaluation = PairEvaluation
    usage = 'translate RUN "..."'
    sequences = None
    measures: ClassVar[tuple[str, ...]] = ("loss", "perplexity")
    usual: ClassVar[str]
    pictures: ClassVar[bool] = False

    def __init__(
        self,
        rows: PairRows,
        writing: Writing,
        settings: PairSettings,
        numbers: Mapping[str, int],
        about: str,
        accumulate: int = 1,
        seed: int = 1,
    ) -> None:
        self.rows, self.writing, self.chosen, self.numbers = rows, writing, settings, dict(numbers)
        self.seed, self.about, self.notes = seed, about, list(rows.notes)
        self.training = self._learned(rows.training)
        self.validation = self._measured(rows.validation)
        self.buckets = self._buckets(self.training, accumulate, seed, "the training rows")

    @classmethod
    def make(
        cls,
        settings: PairSettings,
        numbers: Mapping[str, Any],
        *,
        inputs: Sequence[str] = ("source", "tokens"),
        batch: int | None = None,
        accumulate: int = 1,
        seed: int = 1,
    ) -> Self:
        if batch is not None:
            raise ConfigError(f"batch: batches of {cls.name} are counted in tokens; say --batch-tokens instead")
        rows = cls.read(settings)
        names = ("target",) if cls.pictures else ("source", "target")
        sides = {name: [str(row[name]) for row in rows.training] for name in names}
        held = {name: [str(row[name]) for part in (rows.validation, rows.test) for row in part] for name in names}
        joint = settings.joint or cls.pictures
        if not joint and "tokens" in inputs and len(inputs) == 1:
            raise ConfigError("joint: a decoder alone reads source and target as one text, with one tokenizer")
        found, about = pair_tokenizers(settings.tokenizer, joint, sides, held, numbers)
        made = {"vocab": max(found["target"].vocab, int(numbers.get("vocab") or 0))}
        if not joint:
            made["source_vocab"] = max(found["source"].vocab, int(numbers.get("source_vocab") or 0))
        reads = "image" if cls.pictures else "source" if "source" in inputs else "tokens"
        writing = Writing(cls.name, found["target"], found.get("source"), reads)
        task = cls(rows, writing, settings, made, about, accumulate, seed)
        task._limit(numbers.get("context"))
        return task

    def _limit(self, context: Any) -> None:
        """The number `context` where the model states none: the longest row of all."""
        alone = self.writing.input == "tokens"
        longest = 0
        for side in (self.training, self.validation):
            each = side.targets.lengths + (side.sources.lengths if alone and side.sources is not None else 0)
            longest = max(longest, int(each.max()))
            if not alone and side.sources is not None:
                longest = max(longest, int(side.sources.lengths.max()))
        if context is not None and longest > int(context):
            raise ConfigError(
                f"context: the model says {context}, and the longest row has {longest} tokens; write a larger context,"
                " or limit the rows with --max-source and --max-target"
            )
        self.numbers["context"] = longest if context is None else int(context)

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        read = {v.name: None for s in architecture.sections() for v in s.reads.values() if v.op == "input"}
        known = ({"image", "tokens"},) if cls.pictures else ({"source", "tokens"}, {"tokens"})
        if set(read) not in known:
            wanted = " or ".join(" and ".join(f"`{name}`" for name in sorted(each)) for each in known)
            raise InputError(
                f"{cls.name} trains a model that reads {wanted}; this one reads {', '.join(read) or 'nothing'}."
                " A model of two stacks: see `transformula gallery show vaswani`"
            )
        if not architecture.main.causal:
            raise InputError(
                f"{cls.name} predicts each token of the target from those before it; the last stack says"
                " `causal: false` and sees the answers: take that line out"
            )

    # Rows.

    @classmethod
    def read(cls, settings: Any) -> PairRows:
        """The rows that the settings name."""
        return read_pairs(settings, cls.usual, cls.pictures)

    def _learned(self, records: Sequence[Record]) -> Side:
        """Training rows, encoded; those that are too long are left out, cut or refused."""
        side = self._encoded(records)
        most = {"source": self.chosen.max_source, "target": self.chosen.max_target}
        lengths = {} if side.sources is None else {"source": side.sources.lengths}
        lengths["target"] = side.targets.lengths
        fits, note = fitting(lengths, most, self.chosen.too_long, records, "training")
        if note:
            self.notes.append(note)
        if self.chosen.too_long == "cut":
            return self._encoded(records, self.chosen.max_source, self.chosen.max_target)
        if fits.all():
            return side
        return self._encoded([record for record, fit in zip(records, fits, strict=True) if fit])

    def _measured(self, records: Sequence[Record]) -> Side:
        """Rows that measure: no row is left out and no target is cut, so that scores are those of all the data."""
        return self._encoded(records, self.chosen.max_source, None)

    def _encoded(self, records: Sequence[Record], source: int | None = None, target: int | None = None) -> Side:
        writing = self.writing
        sources = None
        if not self.pictures:
            assert writing.source is not None
            texts = writing.source.encode_many([str(row["source"]) for row in records])
            sources = Encoded(_ended(texts, end_of(writing.source), source))
        ids = writing.target.encode_many([str(row["target"]) for row in records])
        return Side(records, sources, Encoded(_ended(ids, writing.end, target)))

    def _buckets(self, side: Side, accumulate: int, seed: int, name: str, budget: int | None = None) -> Buckets:
        targets = side.targets.lengths
        if side.sources is None:
            lengths = {"target": targets}
        elif self.writing.input == "tokens":
            lengths = {"source": side.sources.lengths + targets}
        else:
            lengths = {"source": side.sources.lengths, "target": targets}
        counted = self.chosen.batch_side if self.chosen.batch_side in (*lengths, "longest", "all") else "longest"
        budget = budget or self.chosen.batch_tokens
        return Buckets(lengths, budget, counted, self.chosen.batch_counted, accumulate, seed, name)

    def _batch(self, side: Side, rows: np.ndarray) -> Batch:
        """Rows as tensors: what the model reads, and the target one further."""
        targets = [side.targets[row] for row in rows]
        end = self.writing.end
        if self.writing.input == "tokens":
            assert side.sources is not None
            whole = [np.concatenate([side.sources[row], t]) for row, t in zip(rows, targets, strict=True)]
            asked = padded([one[1:] for one in whole], IGNORED)
            for place, row in enumerate(rows):
                asked[place, : len(side.sources[row]) - 1] = IGNORED
            tokens = [one[:-1] for one in whole]
            return Batch({"tokens": padded(tokens)}, asked, _lengths({"tokens": tokens}))
        tokens = [np.concatenate([[end], one[:-1]]) for one in targets]
        asked = padded(targets, IGNORED)
        if side.sources is None:
            images = torch.stack([as_numbers(side.records[row]["source"]) for row in rows])
            return Batch({"image": images, "tokens": padded(tokens)}, asked, _lengths({"tokens": tokens}))
        sources = [side.sources[row] for row in rows]
        given = {"source": padded(sources), "tokens": padded(tokens)}
        return Batch(given, asked, _lengths({"source": sources, "tokens": tokens}))

    # What the trainer asks for.

    def batch(self, step: int, micro: int = 0) -> Batch:
        return self._batch(self.training, self.buckets.rows(step, micro))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return smoothed_cross_entropy(model(**batch.given), batch.targets, self.chosen.label_smoothing)

    def units(self, batch: Batch) -> int:
        return int((batch.targets != IGNORED).sum())

    def steps(self, epochs: float) -> int:
        return self.buckets.steps(epochs)

    @property
    def score(self) -> str:
        return "loss" if self.chosen.written == 0 else self.measures[2]

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores on the validation rows.

        loss         nats per target token, each end included, without smoothing
        perplexity   exp(loss)
        and what scores the targets that the model writes greedily, of all rows or of `written` ones
        """
        rows = self.written_rows
        whole = len(self.validation) + len(rows)
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        try:
            nats, tokens = self._nats(model, self.validation, progress, whole)
            found: list[Measured] = []
            if rows:
                records = [self.validation.records[row] for row in rows]
                texts = self._texts(model, records, GREEDY, progress, len(self.validation), whole)
                found = list(self.measure(texts, references_of(records)))
        finally:
            for module, mode in modes:
                module.training = mode
        loss = nats / tokens
        named = {key_of(one): one.score for one in found}
        return Scores(loss=loss, perplexity=math.exp(loss) if loss < 700 else math.inf, **named, tokens=tokens)

    @property
    def written_rows(self) -> list[int]:
        """Validation rows whose targets are written: evenly over all."""
        count = len(self.validation)
        most = count if self.chosen.written is None else min(count, self.chosen.written)
        return [place * count // most for place in range(most)] if most else []

    def _nats(self, model: nn.Module, side: Side, progress: Progress | None, whole: int) -> tuple[float, int]:
        """-log P of all targets, summed; and how many tokens they have."""
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        longest = int(side.targets.lengths.max()) + int(0 if side.sources is None else side.sources.lengths.max())
        buckets = self._buckets(side, 1, 0, "the rows that measure", max(self.chosen.batch_tokens, longest))
        nats, tokens, done = 0.0, 0, 0
        with torch.no_grad():
            for rows in buckets.epoch():
                batch = self._batch(side, rows).to(device)
                logits = model(**batch.given).flatten(0, 1).float()
                each = F.cross_entropy(logits, batch.targets.flatten(), reduction="none", ignore_index=IGNORED)
                nats += float(each.double().sum())
                tokens += self.units(batch)
                done += len(rows)
                if progress is not None:
                    progress(done, whole)
        return nats, tokens

    def _texts(
        self, model: Any, records: Sequence[Record], search: SearchSettings, progress: Progress | None = None,
        before: int = 0, whole: int = 0,
    ) -> list[str]:  # fmt: skip
        def heard(done: int, _: int) -> None:
            if progress is not None:
                progress(before + done, whole)

        sources: list[Value] = [row["source"] for row in records]
        return [found[0].text for found in self.limited.write([model], sources, search, progress=heard)]

    @property
    def limited(self) -> Writing:
        """How the model is asked, with the lengths that were trained on."""
        one = self.writing
        longest = int(self.training.targets.lengths.max())
        return replace(one, most=self.chosen.max_source, longest=longest, picture=self._picture())

    def _picture(self) -> tuple[int, ...] | None:
        first = self.training.records[0]["source"]
        return tuple(first.shape) if isinstance(first, Tensor) else None

    # What people read.

    @classmethod
    @abstractmethod
    def measure(cls, predictions: Sequence[str], references: References) -> Iterable[Measured]:
        """What scores targets, the headline first."""

    @classmethod
    def baseline_texts(cls, records: Sequence[Record], targets: Sequence[str]) -> dict[str, list[str]]:
        """What trivial models write for these rows, by name; `targets` are those that were learned from, if known."""
        return {}

    def baselines(self) -> dict[str, float]:
        if self.score == "loss":
            return {}
        records = [self.validation.records[row] for row in self.written_rows]
        asked = references_of(records)
        texts = self.baseline_texts(records, [str(row["target"]) for row in self.training.records])
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
        targets: Sequence[str] = (),
        search: SearchSettings | None = None,
        progress: Progress | None = None,
    ) -> PairReport:
        """Write the targets of rows and score them beside the baselines; see `pair_report.scored`."""
        return scored(cls, models, writing, records, targets, search, progress)

    @classmethod
    def report(
        cls, trained: Trained, data: Rows, given: Mapping[str, Any], progress: Progress | None = None
    ) -> PairReport:
        """Scores of what the model writes for the test rows of its run, or for those named; see `PairEvaluation`."""
        if "n_best" in given:
            raise ConfigError("n_best: what is scored is the best of each search; leave it out")
        asked = cls.evaluation.read(given)
        search = SearchSettings.read({key: getattr(asked, key) for key in SearchSettings.model_fields})
        records, targets, notes = rows_to_score(cls, trained, data, given)
        return scored(cls, trained.modules, Writing.load(trained.folder), records, targets, search, progress, notes)

    def preview(self) -> PairsPreview:
        """What the rows hold: printed before training."""
        tokenizers = {"target": self.writing.target}
        if self.writing.source is not None:
            tokenizers = {"source": self.writing.source, **tokenizers}
        return PairsPreview(self, preview_records(self.rows.training, tokenizers, self.notes))

    def save(self, folder: Path) -> None:
        self.limited.save(folder)

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
            **described(self.chosen),
            **json.loads(json.dumps(self.numbers)),
        }


class PairsPreview:
    """What rows hold and how they are batched: its `repr` is for people, `.data` for programs."""

    def __init__(self, task: Pairs, records: RecordsPreview) -> None:
        fill = task.buckets.fill()
        self.records, self.fill, self.task = records, fill, task
        self.data: dict[str, Any] = {
            "data": task.rows.name,
            "training_rows": len(task.training),
            "validation_rows": len(task.validation),
            "tokenizer": task.about,
            "batches": str(fill),
            **records.data,
        }

    def __repr__(self) -> str:
        task, chosen = self.task, self.task.chosen
        rows = [
            ("data", f"{task.rows.name}: {len(task.training):,} rows to train, {len(task.validation):,} to validate"),
            ("tokenizer", task.about),
            ("batches", f"{chosen.batch_tokens:,} {chosen.batch_counted} tokens ({chosen.batch_side}): {self.fill}"),
        ]
        return "\n".join([*(f"{name:<12}{text}" for name, text in rows), repr(self.records)])


def _ended(rows: Sequence[np.ndarray], end: int, most: int | None = None) -> list[np.ndarray]:
    """Each row with its end, cut to `most` tokens."""
    return [np.append(row if most is None else row[: most - 1], end) for row in rows]


def _lengths(rows: Mapping[str, Sequence[np.ndarray]]) -> dict[str, Tensor]:
    """Real positions by input, where rows differ."""
    found = {}
    for name, each in rows.items():
        sizes = [len(row) for row in each]
        if min(sizes) < max(sizes):
            found[name] = torch.tensor(sizes)
    return found


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
