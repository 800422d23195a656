"""What answers a question about a picture: a decoder that reads the picture's positions among its tokens (LLaVA, Liu et
al. 2023).

    tokens = marker, ..., marker, question, end, answer, end     as many markers as the pictures have positions
    x      = masked_scatter(embed.words(tokens), tokens, the picture's positions, marker)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ..data.messages import Message, texts_in
from ..data.pictures import PictureFile, with_channels
from ..data.records import Record
from ..errors import CheckpointError, InputError
from ..generation.settings import AnswerSettings, SearchSettings
from ..model.dataflow import description
from ..structured import load_json
from .image_classification import processing_of_others
from .picture_messages import pictured_messages, plain_messages
from .picture_positions import positions_in, scattered
from .picture_processing import PROPORTIONS, SPLIT, TILES, sizing_of
from .picture_rows import PictureRow, each_of, opened_picture
from .picture_tiles import SIGNS, grid_of, tiles_of, with_pictures
from .predictor import FILE, OfOthers, Predictor, Progress, predictor
from .writing import Writing, Written

# What predictor.json says beside pairs.json.
OWN = ("marker", "places", "processing", "blind", "templated", "layout", "sign")
GRAY = "gray picture"
TILED = (TILES, SPLIT, PROPORTIONS)  # of the ways in which pictures get their size
PICTURE_TYPES = (str, Path, Tensor, PictureFile)  # what a person gives as one
ASKED = '{"question": "How many ...?", "picture": "chart.png"}'
MESSAGES = "messages"  # of an input that is a dialogue


@predictor("picture-answering")
@dataclass(frozen=True)
class PictureAnswering(Writing):
    """
    marker      the id in whose places the positions of a picture stand
    places      how many positions a picture has
    processing  how a picture of any size becomes numbers; None: it has the size of `picture`, and its numbers are
                value / 127.5 - 1
    blind       every picture is gray: the model was trained without them
    templated   the chat template of the tokenizer says what stands around a question: the model is one of others
    layout      its family, which says what stands around the tiles of a picture; see `picture_tiles.py`
    sign        the name of the token `marker`
    """

    marker: int = 0
    places: int = 0
    processing: dict[str, Any] | None = None
    blind: bool = False
    templated: bool = False
    layout: str = ""
    sign: str = ""

    columns = ("question", "picture")
    reads = "both"
    verb = "answer"
    continues = False

    @property
    def numbers(self) -> dict[str, int]:
        return {"vocab": self.marker + 1}

    def before_source(self, source: Any) -> tuple[int, ...]:
        return (*(self.marker,) * self.places * count_in(source), *super().before_source(source))

    def input_of(self, record: Record) -> dict[str, Any]:
        return {"question": record["source"], "picture": record.held("image")}

    def inputs_beside(self, records: Sequence[Record]) -> dict[str, Tensor]:
        return {"image": torch.cat(self.pictures([self.input_of(record) for record in records]))}

    @classmethod
    def of_others(cls, model: OfOthers) -> Self:
        """The predictor of a model that others trained, which is asked by its chat template. Raises CheckpointError."""
        if model.tokenizer.chat is None:
            what = f"{model.folder}: there is no chat template, which says how a picture and a question are asked"
            raise CheckpointError(f"{what}: copy chat_template.jinja from where the model was made")
        call = scattered(model.architecture)
        processing, picture = processing_of_others(model.folder, model.architecture)
        positions, marker = description(call.args[2].sequence, model.architecture), int(call.called.options["id"])
        if marker >= model.tokenizer.vocab:
            raise CheckpointError(f"{model.folder}: the tokenizer has no token of the id {marker}, a picture's")
        return cls(
            model.task, model.tokenizer, model.tokenizer, "tokens", picture=tuple(picture), processing=processing,
            marker=marker, places=positions_in(positions, *picture[1:]), templated=True,
            layout=str(model.config.get("model_type")), sign=str(model.tokenizer.names[marker]),
        )  # fmt: skip

    def is_one(self, given: Any) -> bool:
        return isinstance(given, Mapping)

    def opened(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        """Questions with their pictures, which may be names of files; or dialogues, where a chat template writes them.
        Raises InputError, DataError."""
        return [opened_input(self, each, f"source {number}") for number, each in enumerate(inputs, 1)]

    def pictures(self, sources: Sequence[Any]) -> list[Tensor]:
        """The pictures of each input as the model reads them, (count, channels, height, width). Raises InputError,
        DataError for one of another size."""
        assert self.picture is not None
        rows = []
        for number, each in enumerate(self.blinded(sources)[GRAY] if self.blind else sources, 1):
            numbers = [torch.zeros(0, *self.picture)]
            for held in each_of(each["picture"]):
                place = held.place if isinstance(held, PictureFile) else f"picture {number}"
                if self.templated and self.processing is not None and sizing_of(self.processing) in TILED:
                    numbers.append(tiles_of(with_channels(held, self.picture[0]), self.processing))
                    continue
                image = PictureRow(held, self.picture, place, self.processing)["image"]
                numbers.append((image if image.is_floating_point() else image.float() / 127.5 - 1)[None])
            rows.append(torch.cat(numbers))
        return rows

    def prompts(self, sources: Sequence[Any]) -> tuple[list[list[int]], dict[str, list[Any]]]:
        shown = self.pictures(sources)
        if all(len(each) == 1 for each in shown):
            shown = [each[0] for each in shown]
        return [ids.tolist() for ids in self.ids(sources)], {"image": shown}

    def ids(self, sources: Sequence[Any]) -> list[np.ndarray]:
        if self.templated:
            return [np.array(ids_asked(self, each), dtype=np.int64) for each in sources]
        for number, each in enumerate(sources, 1):
            room = self.room(each)
            if room is not None and room < 1:
                what = f"source {number}: {count_in(each)} pictures have {self.places} positions each"
                raise InputError(f"{what}, and the model reads {self.most} tokens: give fewer")
        return super().ids(sources)

    def encode_whole(self, sources: Sequence[Any]) -> list[np.ndarray]:
        return super().encode_whole([each["question"] for each in sources])

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: Any = None, *,
        progress: Progress | None = None, prefixes: Sequence[str] | None = None,
    ) -> list[list[Written]]:  # fmt: skip
        """The best answers to each question, best first."""
        return super().predict(models, inputs, search_for(settings), progress=progress, prefixes=prefixes)

    def blinded(self, inputs: Sequence[Any]) -> dict[str, list[Any]]:
        """The same questions, all about gray pictures."""
        assert self.picture is not None
        gray = torch.full(self.picture, 127, dtype=torch.uint8)
        return {GRAY: [{**each, "picture": [gray] * count_in(each)} for each in inputs]}

    def check_alike(self, other: Predictor, named: str) -> None:
        super().check_alike(other, named)
        alike = [(each.picture, *(getattr(each, name) for name in OWN))
                 for each in (self, other) if isinstance(each, PictureAnswering)]  # fmt: skip
        if len(alike) < 2 or alike[0] != alike[1]:
            raise InputError(f"{named} reads pictures otherwise than the first model: an ensemble needs the same")

    def save(self, folder: Path) -> None:
        """Write `predictor.json`, which says what it reads beside `pairs.json`, into a model's folder."""
        super().save(folder)
        own = {name: getattr(self, name) for name in OWN}
        about = {"predictor": self.name, "package": __name__.partition(".")[0], **own}
        (folder / FILE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        own = load_json(folder / FILE)
        pairs = super().load(folder)
        if pairs.picture is None:
            raise CheckpointError(f"{folder / FILE}: the size of its pictures is missing; copy the folder again")
        return replace(pairs, **{name: own[name] for name in OWN if name in own})


def count_in(source: Any) -> int:
    """How many pictures an input, or a record, has."""
    return len(each_of(source.held("image") if isinstance(source, Record) else source["picture"]))


def opened_input(kind: PictureAnswering, given: Any, place: str) -> dict[str, Any]:
    """A question, or a dialogue, with its pictures, which may be names of files. Raises InputError, DataError."""
    if isinstance(given, Mapping) and MESSAGES in given:
        return opened_messages(kind, pictured_messages(given[MESSAGES], place), place)
    question, picture = (given.get(name) if isinstance(given, Mapping) else None for name in kind.columns)
    shown = each_of(picture)
    if not isinstance(question, str) or not shown or not all(isinstance(one, PICTURE_TYPES) for one in shown):
        what = f"{place}: this model reads a question and a picture, or a list of several: {ASKED}"
        raise InputError(f"{what}; on the command line: --picture FILE")
    if not question.strip():
        raise InputError(f"{place}: the question is empty: ask something about the picture")
    return {"question": question, "picture": [opened_picture(kind, one, place) for one in shown]}


def opened_messages(kind: PictureAnswering, messages: Sequence[Message], place: str) -> dict[str, Any]:
    """A dialogue, with the pictures of all its messages. Raises InputError, DataError."""
    texts = [part["text"] for one in messages for part in one["content"] if part["type"] == "text"]
    given = [part["image"] for one in messages for part in one["content"] if "image" in part]
    shown = [opened_picture(kind, one, place) for one in given]
    if kind.templated:
        return {"question": texts[-1] if texts else "", "picture": shown, MESSAGES: plain_messages(messages)}
    if [one["role"] for one in messages] != ["user"] or not shown:
        what = f"{place}: this model answers one question about a picture, or about several"
        raise InputError(f"{what}: expected one message of the user, with a text and a picture")
    return opened_input(kind, {"question": "\n".join(texts), "picture": shown}, place)


def ids_asked(kind: PictureAnswering, source: Mapping[str, Any]) -> list[int]:
    """What the chat template writes of pictures and a question, or of a dialogue, as many markers in the place of each
    picture as it has positions. Raises InputError for a text that names a special token, and for a template that does
    not name each picture once."""
    tokenizer: Any = kind.target
    content = [*({"type": "image"},) * count_in(source), {"type": "text", "text": str(source["question"])}]
    messages = source.get(MESSAGES) or [{"role": "user", "content": content}]
    for _, text in texts_in(messages):
        special = tokenizer.special_in(text)
        if special is None and SIGNS.get(kind.layout, kind.sign) in text:
            special = SIGNS.get(kind.layout, kind.sign)
        if special is not None:
            raise InputError(f"the question holds {special}, which to this model is a sign of its own: take it out")
    grids = [grid_of(kind.processing, *each.shape[1:]) for each in each_of(source["picture"])]
    text = with_pictures(tokenizer.chat.render(messages), kind.layout, kind.sign, kind.places, grids)
    ids: list[int] = tokenizer.encode_special(text, template=False)
    wanted = kind.places * sum(rows * columns + 1 for rows, columns in grids)
    if ids.count(kind.marker) != wanted:
        what = f"what stands for the pictures holds {ids.count(kind.marker)} times the id {kind.marker}"
        raise InputError(f"{what}; expected {wanted}: the tokenizer is not that of this model")
    return ids


def search_for(settings: Any) -> SearchSettings | None:
    """How answers are searched for, by the settings of a search or of the verb. Raises InputError."""
    if not isinstance(settings, AnswerSettings):
        found: SearchSettings | None = settings
        return found
    if settings.threshold is not None:
        raise InputError("threshold: this model always gives an answer; leave it out")
    beam = max(settings.n_best, 1)
    return SearchSettings(beam=beam, n_best=settings.n_best, alpha=0.0, max_length=settings.max_answer)
