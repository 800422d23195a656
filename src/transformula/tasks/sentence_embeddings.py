"""Sentence embeddings: a text to a vector, from pairs with scores, pairs that mean the same, or texts alone.

pairs with scores   mse     (cosine(a, b) - score)^2, scores scaled to 0..1
                    cosent  log(1 + sum over pairs i, j with score_i > score_j of exp((cos_j - cos_i) / temperature))
pairs without       contrastive: the other pairs of a batch are what a text does not mean
texts alone         contrastive, a text with itself under two dropout masks (SimCSE, Gao et al. 2021)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from ..data.records import Record, columns_of, read_records, unknown_column
from ..data.settings import WholeRowSettings
from ..data.splits import SplitRows
from ..errors import ConfigError, DataError, InputError
from ..language.graph import Architecture
from .base import Batch, Progress, task
from .cut_rows import CutRow
from .predictor import Answer, OfOthers, predictor
from .row_predictor import EncodedRow, collated
from .rows import Side, evaluation_of
from .scores.correlation import pearson, spearman
from .scores.linear import tfidf_cosine, tfidf_search
from .scores.measured import Measured
from .scores.ranking import retrieval
from .vectors import (
    EMBED,
    Similarity,
    VectorPredictor,
    VectorReader,
    VectorTask,
    contrastive,
    cosines,
    equal_rows,
    is_searched,
)

# Common names of the columns.
TEXT_COLUMNS = ("text", "sentence1", "sentence_1", "sentence_A", "anchor", "query", "question", "premise", "source")
SECOND_COLUMNS = (
    "text_2", "text2", "sentence2", "sentence_2", "sentence_B", "positive", "answer", "hypothesis", "target",
)  # fmt: skip
SCORE_COLUMNS = ("score", "similarity", "similarity_score", "relatedness_score", "label")


class EmbeddingSettings(WholeRowSettings):
    """Texts, or pairs of texts, with scores or without."""

    text: str | None = Field(
        None, description="the column of the text; by default a common name such as 'sentence1', with those beside it"
    )
    text_2: str | None = Field(None, description="the column of the second text, for pairs of texts")
    score: str | None = Field(None, description="the column of the score, a number: higher for texts more alike")
    loss: Literal["cosent", "mse"] = Field(
        "cosent", description="of pairs with scores; those without, and texts alone, have the contrastive loss"
    )
    temperature: float = Field(0.05, gt=0, description="divides the cosines, in cosent and the contrastive loss")


@predictor("text-embedder")
@dataclass(frozen=True)
class TextEmbedder(VectorPredictor):
    """scale: the lowest and the highest score of training; none where rows have no scores."""

    scale: list[float]

    columns = ("text", "text_2")

    @classmethod
    def of_others(cls, model: OfOthers) -> Self:
        """The predictor of a model that others trained, which reads as much of a text as sentence-transformers does."""
        said = model.config.get("sentence_transformers", {})
        reading = model.reading
        reading["most"] = min(reading["most"], said.get("max_seq_length", reading["most"]))
        return cls(**{**reading, "lower": bool(said.get("do_lower_case"))}, scale=[])

    def opened(self, inputs: Sequence[Any]) -> list[Any]:
        """Texts, and pairs of texts, which as one text have a tab between."""
        opened = [each.split("\t") if isinstance(each, str) else each for each in inputs]
        for number, each in enumerate(opened, 1):
            if not isinstance(each, (list, tuple)) or len(each) > 2 or not all(isinstance(t, str) for t in each):
                raise InputError(f"source {number}: give a text, or two with a tab between; in Python (text, text)")
        return [each[0] if len(each) == 1 else tuple(each) for each in opened]

    def vectors(self, models: Sequence[Any], inputs: Sequence[str], progress: Progress | None = None) -> Tensor:
        return torch.stack([output[0] for output in self.outputs(models, self.encode(inputs), progress)])

    def answers(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: Any, progress: Progress | None = None
    ) -> list[list[Answer]]:
        """The vector of a text, or what is nearest to it; the cosine of a pair."""
        pairs = [each for each in inputs if not isinstance(each, str)]
        if pairs and settings.among is not None:
            raise InputError("among: is looked through for one text, and this is a pair; leave one of the two out")
        alone = [each for each in inputs if isinstance(each, str)]
        texts = iter(super().answers(models, alone, settings) if alone else ())
        flat = [text for pair in pairs for text in pair]
        vectors = self.vectors(models, flat, progress) if flat else torch.empty(0, 1)
        values = F.cosine_similarity(vectors[::2], vectors[1::2]).tolist()
        similar: Iterator[list[Answer]] = ([Similarity(f"{cosine:.4f}", cosine)] for cosine in values)
        return [next(texts if isinstance(each, str) else similar) for each in inputs]


class TextPairs(VectorReader):
    """Records with the fields `text`, `text_2` ("" for texts alone) and, where there is one, `score`."""

    compared = ("text", "text_2")
    other = "text_2"

    def both(self, output: Tensor) -> tuple[Tensor, Tensor]:
        one, other = output[:, 0].float().chunk(2)
        return one, other

    def read(self, sources: Any, settings: Any, key: str, notes: list[str]) -> list[Record]:
        columns = columns_for(sources, settings)
        kinds = {"score": "number"} if "score" in columns else {}
        records = read_records(sources, columns, kinds=kinds, **settings.reading).read_all(key, notes)
        rows = [Record({"text": row["text"], "text_2": "", **row}, row.place, row.group) for row in records]
        bad = next((row for row in rows if not math.isfinite(row.get("score", 0))), None)  # type: ignore[arg-type]
        if bad is not None:
            raise DataError(f"{bad.place}: the score is {bad['score']}; expected a finite number")
        return rows

    def learn(
        self, rows: SplitRows, tokenizer: Any, sizes: dict[str, int], settings: Any, inputs: Sequence[str]
    ) -> TextEmbedder:
        scores = [float(row["score"]) for row in [*rows.training, *rows.validation] if "score" in row]  # type: ignore[arg-type]
        if scores and min(scores) == max(scores):
            raise DataError(f"every score is {scores[0]:g}: there is nothing to learn; is it the right column?")
        scale = [min(scores), max(scores)] if scores else []
        return TextEmbedder(tokenizer, list(inputs), sizes["context"], settings.lower, scale)

    def target(self, kind: TextEmbedder, record: Record) -> Tensor:
        """() float32, the score from 0 to 1; () int64 where there is none."""
        if "score" not in record:
            return torch.tensor(0)
        low, high = kind.scale
        return torch.tensor((float(record["score"]) - low) / (high - low))  # type: ignore[arg-type]

    def side(self, kind: Any, records: Sequence[Record]) -> Side:
        one, other = (kind.encode([str(record[name]) for record in records]) for name in self.compared)
        rows: list[EncodedRow] = []
        for text, second, record in zip(one, other, records, strict=True):
            both = {"tokens": text["tokens"], **({"others": second["tokens"]} if record["text_2"] else {})}
            rows.append(CutRow(both) if isinstance(text, CutRow) or isinstance(second, CutRow) else both)
        targets = [self.target(kind, record) for record in records]
        return Side(records, rows, targets, kind.lengths(rows), partial(self.batch_of, kind))

    def batch_of(
        self, kind: Any, records: Sequence[Record], rows: Sequence[EncodedRow], targets: Sequence[Tensor]
    ) -> Batch:
        """A batch of n rows has 2 n texts: the first of each row, then the second, or the first again."""
        texts = [{"tokens": row["tokens"]} for row in rows]
        inputs, lengths = collated([*texts, *({"tokens": row.get("others", row["tokens"])} for row in rows)])
        return Batch(inputs, torch.stack(list(targets)), lengths)

    def about(self, kind: TextEmbedder, records: Sequence[Record]) -> dict[str, str]:
        if kind.scale and "score" in records[0]:
            return {"scores": f"from {kind.scale[0]:g} to {kind.scale[1]:g}"}
        return {"rows": "pairs that mean the same" if records[0]["text_2"] else "texts alone"}


def tf_idf(learned: Sequence[Record], records: Sequence[Record]) -> Any:
    """The cosines of texts as counts of words, each weighted by how rare it is in the training texts."""
    if not records[0]["text_2"]:
        return None
    known, pairs = ([(str(row["text"]), str(row["text_2"])) for row in rows] for rows in (learned, records))
    if "score" in records[0]:
        return np.array(tfidf_cosine(known, [], pairs))
    return tfidf_search([text for pair in known for text in pair], *zip(*pairs, strict=True))


@task("sentence-embeddings")
class SentenceEmbeddings(VectorTask):
    """A text to a vector: like texts have like vectors."""

    others = TextEmbedder.of_others
    settings = EmbeddingSettings
    evaluation = evaluation_of(EmbeddingSettings, "text", "text_2", "score")
    sequences = 64
    reader = TextPairs()
    trivial = {"TF-IDF": tf_idf}
    measures: tuple[str, ...] = (
        "loss", "spearman", "pearson", "recall@1", "recall@5", "recall@10", "mean_reciprocal_rank",
    )  # fmt: skip
    higher = frozenset(measures) - {"loss"}
    score = "spearman"
    model = {"family": "encoder", "output": "sentence = mean(x)"}
    verb = EMBED

    def __init__(self, *given: Any, **how: Any) -> None:
        super().__init__(*given, **how)
        held = self.data.source.validation[0]
        if "score" in held:
            self.score, self.measures, self.digits = "spearman", ("loss", "spearman", "pearson"), 3
        elif held["text_2"]:
            self.score, self.measures = "recall@1", ("loss", *self.measures[3:])
        else:
            self.score, self.measures = "loss", ("loss",)

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        super().check(architecture)
        if list(architecture.inputs) != ["tokens"]:
            raise InputError(f"{cls.name}: the model reads {', '.join(architecture.inputs)}; expected tokens alone")

    def objective(self, output: Tensor, batch: Batch) -> Tensor:
        settings, (one, other) = self.data.settings, self.reader.both(output)
        if batch.targets.is_floating_point():
            alike = F.cosine_similarity(one, other)
            if settings.loss == "mse":
                return F.mse_loss(alike, batch.targets)
            return cosent(alike, batch.targets, settings.temperature)
        ours, theirs = batch.inputs["tokens"].chunk(2)
        return contrastive(cosines(one, other) / settings.temperature, equal_rows(ours) | equal_rows(theirs))

    @classmethod
    def measure(cls, answers: Any, records: Sequence[Record]) -> list[Measured]:
        if not records[0]["text_2"]:
            raise DataError("texts alone have nothing to be scored by: name pairs of texts, with scores or without")
        if not is_searched(records):
            scores = [float(row["score"]) for row in records]  # type: ignore[arg-type]
            return [spearman(answers, scores), pearson(answers, scores)]
        _, known = np.unique([str(row["text_2"]) for row in records], return_inverse=True)
        return retrieval(answers, known[:, None] == known)


def cosent(alike: Tensor, scores: Tensor, temperature: float) -> Tensor:
    """log(1 + sum of exp((cos_j - cos_i) / temperature) over i, j with score_i > score_j): the order of the pairs is
    learned, as Spearman's correlation sees it (Su 2022). `alike` and `scores` are (pairs,)."""
    apart = (alike[None] - alike[:, None])[scores[:, None] > scores] / temperature
    return torch.cat([apart.new_zeros(1), apart]).logsumexp(0)


def columns_for(sources: Any, settings: EmbeddingSettings) -> dict[str, str]:
    """The columns that are named; where no text is, those of common names, or of two columns both. Raises ConfigError
    where nothing says so."""
    stated = {name: getattr(settings, name) for name in ("text", "text_2", "score")}
    if settings.text is None:
        names, _ = columns_of(sources, **settings.reading)
        for field, common in (("text", TEXT_COLUMNS), ("text_2", SECOND_COLUMNS), ("score", SCORE_COLUMNS)):
            taken = set(stated.values())
            stated[field] = stated[field] or next((n for n in common if n in names and n not in taken), None)
        if stated["text"] is None and len(names) in (1, 2):
            stated["text"], stated["text_2"] = [*names, None][:2]
        if stated["text"] is None:
            raise unknown_column("text", sources, names, f"{names[0]}, and for pairs --text-2 and --score")
    if stated["score"] is not None and stated["text_2"] is None:
        raise ConfigError("score: is of two texts; say which column is the second one: --text-2 NAME")
    return {field: str(column) for field, column in stated.items() if column is not None}
