"""Vectors: what tasks share whose model makes a vector of an input, such that like inputs have like vectors.

cosine(a, b)  = a . b / (|a| |b|)
contrastive   = mean over i of -log softmax_j(a_i . b_j / temperature) at j = i, and the same from b to a, halved
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data.lines import lines_of
from ..data.records import Record
from ..errors import DataError, InputError
from ..generation.settings import EmbedSettings
from ..generation.steps import device_of
from ..model.transformer import evaluating
from .base import Batch, Progress, Scores
from .cut_rows import is_cut, noted
from .predictor import Answer
from .row_predictor import RowEncoder
from .rows import RowReader, RowTask
from .scores.report import ScoreReport
from .trained import Trained
from .verb import Verb

ROWS_AT_ONCE = 256  # inputs of a batch, and rows of a batch of an evaluation

EMBED = Verb(
    "embed",
    help="the vector of a text or a picture; what is nearest to it",
    about="""\
Make vectors with a trained model: of texts that are arguments, lines of a file, or of standard input as they come; a
vector a line, its numbers with blanks between. With --among, say instead which of other texts are nearest, by the
cosine. Of two texts with a tab between, the answer is their cosine.
A model of pictures and texts takes either: a name that ends in .png, .jpg or .jpeg is a picture; --among names a file
of captions, a file with the names of pictures, or a folder of pictures.""",
    examples=(
        'transformula embed runs/sentences "Two dogs play in the snow."',
        "transformula embed runs/sentences --input texts.txt --output vectors.npy",
        'transformula embed runs/sentences "dogs in winter" --among texts.txt --n-best 5 --scores',
        "printf 'A man sings.\\tSomeone is singing.\\n' | transformula embed runs/sentences",
        'transformula embed runs/pictures "three seven" --among pictures/ --n-best 5',
    ),
    settings=EmbedSettings,
    answers="nearest",
    arrays=True,
)


@dataclass(frozen=True)
class Embedding(Answer):
    """A vector; the text has its numbers with blanks between."""

    vector: tuple[float, ...] = ()

    @property
    def value(self) -> np.ndarray:
        """(width,) float32."""
        return np.array(self.vector, dtype=np.float32)

    @property
    def brief(self) -> dict[str, Any]:
        return {"vector": self.vector}


@dataclass(frozen=True)
class Similarity(Answer):
    """How like two inputs are: the cosine of their vectors."""

    @property
    def value(self) -> float:
        return self.score

    @property
    def brief(self) -> dict[str, Any]:
        return {"similarity": self.score}


def cosines(one: Tensor, other: Tensor) -> Tensor:
    """Vectors (n, width), (m, width) -> (n, m)."""
    return F.normalize(one, dim=-1) @ F.normalize(other, dim=-1).T


def contrastive(logits: Tensor, same: Tensor) -> Tensor:
    """The loss where row i of one side belongs to row i of the other, and no other row of the batch does ("InfoNCE",
    Oord et al. 2018; both ways as in CLIP, Radford et al. 2021).

    logits  (n, n): similarities, divided by a temperature
    same    (n, n) bool: rows that are as right as the own one, and so are left out
    """
    own = torch.arange(len(logits), device=logits.device)
    logits = logits.masked_fill(same & (own[:, None] != own), -torch.inf)
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


def equal_rows(ids: Tensor) -> Tensor:
    """(n, length) -> (n, n) bool: whether two rows hold the same."""
    return (ids[:, None] == ids[None]).all(-1)


class VectorPredictor(RowEncoder):
    """What makes vectors, of a text or of whatever else is one input."""

    settings = EmbedSettings
    verb = "embed"

    @abstractmethod
    def vectors(self, models: Sequence[Any], inputs: Sequence[Any], progress: Progress | None = None) -> Tensor:
        """(inputs, width) float32, of any length."""

    def sides(self, records: Sequence[Record]) -> tuple[list[Any], list[Any]]:
        """The two inputs of each record whose vectors are compared: those of the two columns."""
        one, other = ([record[name] for record in records] for name in self.columns)
        return one, other

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: Any, *, progress: Progress | None = None
    ) -> Sequence[Sequence[Answer]]:
        """The vector of each input, or with `among` what is nearest to it; with a note where it is too long."""
        answers = self.answers(models, inputs, settings, progress) if inputs else []
        return noted(answers, self.cut(inputs), self.most)

    def answers(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: Any, progress: Progress | None = None
    ) -> list[list[Answer]]:
        """The same without notes, of one input at least."""
        vectors = self.vectors(models, inputs, progress)
        if settings.among is None:
            if settings.n_best > 1:
                raise InputError("n_best: is of those nearest to an input; say among which: --among FILE")
            rows = vectors.tolist()
            return [[Embedding(" ".join(f"{each:.6g}" for each in row), 0.0, tuple(row))] for row in rows]
        names, others = self.candidates(models, settings.among)
        best = cosines(vectors, others).topk(min(settings.n_best, len(names)))
        return [
            [Answer(names[place], value) for place, value in zip(places, values, strict=True)]
            for places, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def cut(self, inputs: Sequence[Any]) -> list[bool]:
        """Whether each input is a text, or holds one, that is longer than the model reads."""
        sides = [each if isinstance(each, (list, tuple)) else [each] for each in inputs]
        texts = [[text for text in each if isinstance(text, str)] for each in sides]
        cut = iter(is_cut(self.encode([text for each in texts for text in each])))
        return [any([next(cut) for _ in each]) for each in texts]

    def candidates(self, models: Sequence[Any], among: str | list[str]) -> tuple[list[str], Tensor]:
        """Their names and vectors. Those of a file are kept until it changes: inputs may come one after another."""
        if not isinstance(among, str):
            return list(map(str, among)), self.vectors(models, self.opened(among))
        path = Path(among).expanduser()
        if not path.exists():
            raise InputError(f"among: there is no file {path}; name a file of texts, one a line")
        key = (among, path.stat().st_mtime_ns, id(models[0]))
        if key not in self.known:
            names = self.listed(path)
            if not names:
                raise DataError("holds nothing that could be near", path=path)
            self.known.clear()
            self.known[key] = names, self.vectors(models, self.opened(names))
        return self.known[key]

    def listed(self, path: Path) -> list[str]:
        """What a file of candidates names: its lines, without blank ones."""
        return [line for _, line in lines_of(path) if line.strip()]

    @cached_property
    def known(self) -> dict[tuple[Any, ...], tuple[list[str], Tensor]]:
        return {}


class VectorReader(RowReader):
    """Rows with two sides.

    other  the field of the second one, which a search shows
    """

    mixed = True
    other: str

    @abstractmethod
    def both(self, output: Any) -> tuple[Tensor, Tensor]:
        """The vectors of the two sides, (rows, width) each, from what the model gives for a batch."""

    def answers_to(
        self, records: Sequence[Record], models: Sequence[Any], kind: Any, progress: Progress | None = None
    ) -> tuple[np.ndarray, list[Answer]]:
        sides = kind.sides(records)
        one, other = (kind.vectors(models, side, progress) for side in sides)
        similarity = similarities(one, other, records)
        answers = [[answer] for answer in similarity_answers(similarity, records, self.other)]
        cut = kind.cut(list(zip(*sides, strict=True)))
        return similarity, [best for best, *_ in noted(answers, cut, kind.most)]


def is_searched(records: Sequence[Record]) -> bool:
    """Whether rows are scored by a search for their other side: where they have no score that similarities match."""
    return "score" not in records[0]


def similarities(one: Tensor, other: Tensor, records: Sequence[Record]) -> np.ndarray:
    """Cosines between vectors (rows, width) of both sides: (rows, rows) for a search, else (rows,)."""
    return (cosines(one, other) if is_searched(records) else F.cosine_similarity(one, other)).numpy()


def similarity_answers(similarity: np.ndarray, records: Sequence[Record], field: str) -> list[Answer]:
    """Similarities in words, for each row: the cosine of its sides, or the field of the row whose other side is
    nearest."""
    if similarity.ndim == 1:
        return [Answer(f"cosine {each:.3f}", each) for each in similarity.tolist()]
    nearest = zip(similarity.argmax(1).tolist(), similarity.max(1).tolist(), strict=True)
    return [Answer(str(records[place][field]), value) for place, value in nearest]


class VectorTask(RowTask):
    """A task whose rows have two sides with a vector each.

    Measures and baselines take similarities in the answers' place: (rows,), of the sides of each row; or (rows, rows),
    where each row's other side is looked for among those of all.
    """

    reader: ClassVar[VectorReader]
    compares = True

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores on the validation rows, or on a sample of them; `loss` is that of batches in the data's order."""
        side, device, view, loss = self.data.validation, device_of(model), evaluating(model), 0.0
        size = min(ROWS_AT_ONCE, int(self.data.buckets.budget))
        vectors = []
        with torch.no_grad():
            for first in range(0, len(side), size):
                batch = side.batch(range(first, min(first + size, len(side)))).to(device)
                output = view(**batch.given)
                both = self.reader.both(output)
                loss += float(self.objective(output, batch)) * len(both[0])
                vectors.append(torch.stack(both).float().cpu())
                if progress is not None:
                    progress(min(first + size, len(side)), len(side))
        scores = Scores(loss=loss / len(side))
        if self.score == "loss":
            return scores
        measured = self.measure(similarities(*torch.cat(vectors, 1), side.records), side.records)  # type: ignore[call-arg]
        return scores.measure(measured)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return self.objective(model(**batch.given), batch)

    def verdict(self, scores: Mapping[str, float]) -> str:
        if self.score == "loss":
            rows = len(self.data.source.validation)
            return f"loss {scores['loss']:.3f} on {rows:,} validation rows, which have nothing that other scores need"
        return super().verdict(scores)

    @classmethod
    def report(
        cls, trained: Trained, data: Any, given: Mapping[str, Any], progress: Progress | None = None
    ) -> ScoreReport:
        trained.check_alone()
        return replace(super().report(trained, data, given, progress), search="one model, by the cosine")
