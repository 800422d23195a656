"""Retrieval: the picture for a text, and the text for a picture, by vectors of both (CLIP, Radford et al. 2021).

loss = contrastive(image_vector . text_vector) over a batch, both ways

The model's text has two stacks that do not meet, and the outputs `image_vector` and `text_vector`. A temperature is a
part of the text, as a factor of one of the vectors. Rows of a batch with equal texts are no mistakes for each other:
neither in the loss nor in the scores, where any picture with an equal text is right.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ..data.pictures import PictureFile, picture_numbers
from ..data.records import Record, read_records
from ..data.settings import WholeRowSettings
from ..data.source_target import source_target_columns
from ..data.splits import SplitRows
from ..errors import InputError
from ..generation.steps import device_of
from ..language.graph import Architecture
from ..model.transformer import evaluating
from .base import Batch, Progress, outputs_in_words, outputs_of, task
from .predictor import predictor
from .row_predictor import EncodedRow, collated
from .rows import evaluation_of
from .scores.measured import Measured
from .scores.ranking import retrieval
from .seq2seq_data import channels_of, picture_shape
from .vectors import EMBED, ROWS_AT_ONCE, VectorPredictor, VectorReader, VectorTask, contrastive, equal_rows

OUTPUTS = ("image_vector", "text_vector")
SUFFIXES = (".png", ".jpg", ".jpeg")


class RetrievalSettings(WholeRowSettings):
    """Pictures with texts."""

    source: str | None = Field(None, description="the column of the picture; by default 'source', or the first of two")
    target: str | None = Field(None, description="the column of the text; by default 'target', or the second of two")


@predictor("image-text")
@dataclass(frozen=True)
class ImageTextEmbedder(VectorPredictor):
    """picture: (channels, height, width) of those of training."""

    picture: list[int]

    reads = "both"

    columns = ("source", "target")

    def opened(self, inputs: Sequence[Any]) -> list[Any]:
        """Pictures as tensors (of files whose names say that they are), texts as they are."""
        opened = []
        for number, each in enumerate(inputs, 1):
            if not isinstance(each, (str, Path, Tensor)):
                raise InputError(f"source {number}: give a text, a picture's file, or a tensor; this is {each!r:.40}")
            file = isinstance(each, Path) or (isinstance(each, str) and each.lower().endswith(SUFFIXES))
            opened.append(PictureFile(Path(each), f"source {number}", self.picture[0]).load() if file else each)  # type: ignore[arg-type]
        return opened

    def listed(self, path: Path) -> list[str]:
        """The pictures of a folder; or the lines of a file, in which pictures are named as seen from the file."""
        if path.is_dir():
            return sorted(str(each) for each in path.iterdir() if each.suffix.lower() in SUFFIXES)
        lines = super().listed(path)
        return [str(path.parent / line) if line.lower().endswith(SUFFIXES) else line for line in lines]

    def input_of(self, record: Record) -> Any:
        """The text; the picture is read when a batch has it."""
        return record["target"]

    def batch(self, pictures: Sequence[Any], rows: Sequence[EncodedRow]) -> Batch:
        inputs, lengths = collated(rows)
        inputs["image"] = torch.stack(picture_numbers(pictures, tuple(self.picture)))
        return Batch(inputs, torch.zeros(len(rows), dtype=torch.int64), lengths)

    def vectors(self, models: Sequence[Any], inputs: Sequence[Any], progress: Progress | None = None) -> Tensor:
        """Vectors of pictures (tensors) and texts. The stack that an input does not need reads one blank row."""
        view, device = evaluating(models[0]), device_of(models[0])
        blank = torch.zeros(self.picture, dtype=torch.uint8)
        vectors: list[Tensor] = [torch.empty(0)] * len(inputs)
        done = 0
        for kind, name in zip((Tensor, str), OUTPUTS, strict=True):
            places = [place for place, each in enumerate(inputs) if isinstance(each, kind)]
            for first in range(0, len(places), ROWS_AT_ONCE):
                some = places[first : first + ROWS_AT_ONCE]
                given = [inputs[place] for place in some]
                pictures, texts = ([blank], given) if kind is str else (given, [""])
                with torch.no_grad():
                    output = view(**self.batch(pictures, self.encode(texts)).to(device).given)
                for place, each in zip(some, output[name][:, 0].float().cpu(), strict=True):
                    vectors[place] = each
                done += len(some)
                if progress is not None:
                    progress(done, len(inputs))
        return torch.stack(vectors)


class CaptionedPictures(VectorReader):
    """Records with the fields `source`, a picture, and `target`, a text."""

    compared = ("source", "target")
    default = "digits"
    other = "target"

    def both(self, output: Any) -> tuple[Tensor, Tensor]:
        image, text = (output[name][:, 0].float() for name in OUTPUTS)
        return image, text

    def read(self, sources: Any, settings: Any, key: str, notes: list[str]) -> list[Record]:
        fields, note = source_target_columns(sources, settings)
        notes += [f"{key}: {note}"] if note else []
        return read_records(sources, fields, images=["source"], **settings.reading).read_all(key, notes)

    def learn(
        self, rows: SplitRows, tokenizer: Any, sizes: dict[str, int], settings: Any, inputs: Sequence[str]
    ) -> ImageTextEmbedder:
        shape = picture_shape(rows.training[0]["source"], sizes.pop("channels", None))
        assert shape is not None
        return ImageTextEmbedder(tokenizer, list(inputs), sizes["context"], settings.lower, list(shape))

    def batch_of(
        self, kind: Any, records: Sequence[Record], rows: Sequence[EncodedRow], targets: Sequence[Tensor]
    ) -> Batch:
        batch: Batch = kind.batch([record["source"] for record in records], rows)
        return batch

    def about(self, kind: Any, records: Sequence[Record]) -> dict[str, str]:
        different = len(set(self.texts(records)))
        return {"pictures": f"{' x '.join(map(str, kind.picture))}; {different:,} different texts"}


def chance(learned: Sequence[Record], records: Sequence[Record]) -> np.ndarray:
    """Similarities at random."""
    return np.random.default_rng(1).random((len(records), len(records)))


@task("image-text-retrieval")
class ImageTextRetrieval(VectorTask):
    """Pictures and texts to vectors that meet."""

    settings = RetrievalSettings
    evaluation = evaluation_of(RetrievalSettings, "source", "target")
    sequences = 64
    reader = CaptionedPictures()
    trivial = {"chance": chance}
    measures = ("loss", *(
        f"{side}_{name}" for side in ("image", "text")
        for name in ("recall@1", "recall@5", "recall@10", "mean_reciprocal_rank")
    ))  # fmt: skip
    higher = frozenset(measures) - {"loss"}
    score = "image_recall@1"
    verb = EMBED

    @classmethod
    def numbers_of(cls, architecture: Architecture, stated: Collection[str]) -> dict[str, int]:
        return {**super().numbers_of(architecture, stated), **channels_of(architecture)}

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        names = sorted(architecture.inputs)
        if names != ["image", "tokens"]:
            raise InputError(f"{cls.name}: the model reads {', '.join(names)}; expected image and tokens, as clip does")
        if set(outputs_of(architecture)) != set(OUTPUTS):
            expected, returned = " and ".join(OUTPUTS), outputs_in_words(architecture)
            raise InputError(f"{cls.name}: the model returns {returned}; expected the outputs {expected}")

    def objective(self, output: Any, batch: Batch) -> Tensor:
        image, text = self.reader.both(output)
        return contrastive(image @ text.T, equal_rows(batch.inputs["tokens"]))

    @classmethod
    def measure(cls, answers: Any, records: Sequence[Record]) -> list[Measured]:
        """`image recall@1`: how often the nearest picture of a text has that text; `text recall@1`: how often the
        nearest text of a picture is its own."""
        _, known = np.unique([str(row["target"]) for row in records], return_inverse=True)
        right = known[:, None] == known
        named = (("image", answers.T), ("text", answers))
        return [
            replace(each, name=f"{side} {each.name}") for side, matrix in named for each in retrieval(matrix, right)
        ]
