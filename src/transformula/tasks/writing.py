"""Writing a target for a source: what a model that was trained on pairs needs to be used.

    encoder and decoder   source ids and their end -> `source`;   the text begins with that same end -> `tokens`
    decoder alone         tokens = source, end, target, end
    pictures              (channels, height, width) from 0 to 255 -> `image`, from -1 to 1

`pairs.json` in a model's folder says which; the tokenizers lie beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from ..data.lines import shown
from ..data.pictures import PictureFile, with_channels
from ..data.record import Value
from ..data.spelling import PLAIN, Spelling
from ..errors import CheckpointError, InputError
from ..generation.beam import Hypothesis, search
from ..generation.settings import SearchSettings
from ..structured import load_json
from ..tokenizers.base import Tokenizer, load
from .predictor import Answer, Predictor, Progress, predictor

FILE = "pairs.json"
SOURCE = "source"
"""The folder of the source's own tokenizer, where it has one."""

AT_ONCE = 512
"""Sources that are looked up together: the search puts these into batches by length."""


@dataclass(frozen=True)
class Written(Answer):
    """A text that was written, with its score (see SearchSettings), its log probability, and its number of tokens."""

    log_probability: float = 0.0
    tokens: int = 0

    @classmethod
    def of(cls, hypothesis: Hypothesis, tokenizer: Tokenizer, spelling: Spelling, prefix: str = "") -> Written:
        """The text of what a search found, that began with a prefix. A model may know more tokens than its tokenizer:
        they stand for nothing."""
        text = tokenizer.decode(token for token in hypothesis.tokens if token < tokenizer.vocab)
        text = spelling.written(text, prefix)
        return cls(text, hypothesis.score, hypothesis.log_probability, len(hypothesis.tokens))


NOTHING = Written("")
"""What is written for a source without a word."""


@predictor("writing")
@dataclass(frozen=True)
class Writing(Predictor):
    """How a model generates a target.

    task        by which it was trained
    target      the tokenizer of what it writes
    source      the tokenizer of what it reads; None for pictures
    input       what the source is for the model: "source" or "image" of an encoder, "tokens" of a decoder alone
    most        tokens of a source at most, its end included; a longer one is cut
    longest     tokens of the longest target that it was trained on: what it writes is at most twice as long
    picture     (channels, height, width) of the pictures that it was trained on
    spelling    how texts are spelled for it
    """

    task: str
    target: Tokenizer
    source: Tokenizer | None
    input: str
    most: int | None = None
    longest: int = 100
    picture: tuple[int, ...] | None = None
    spelling: Spelling = PLAIN

    settings = SearchSettings
    method = "write"

    @property
    def tokenizer(self) -> Tokenizer:  # type: ignore[override]
        return self.target

    @property
    def continues(self) -> bool:
        return self.input == "tokens"

    @property
    def verb(self) -> str:
        from .base import tasks

        verb = tasks.get(self.task).verb if self.task in tasks else None  # the task may be of a package not here
        return verb.name if verb else "caption" if self.input == "image" else "translate"

    def predict(
        self,
        models: Sequence[Any],
        inputs: Sequence[Any],
        settings: Any,
        *,
        progress: Progress | None = None,
        prefixes: Sequence[str] | None = None,
    ) -> list[list[Written]]:
        return self.write(models, inputs, settings, prefixes=prefixes, progress=progress)

    def opened(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Texts as they are, pictures from their files. Raises InputError for what the model does not read."""
        return [self._picture(source) for source in inputs] if self.input == "image" else super().opened(inputs)

    def _picture(self, source: Any) -> Value:
        if isinstance(source, Tensor):
            return source
        if not isinstance(source, (str, Path)):
            raise InputError(f"this model reads pictures: give the name of a file, or a tensor; this is {source!r:.40}")
        if not str(source).strip():
            return ""
        channels = None if self.picture is None else self.picture[0]
        return PictureFile(Path(source).expanduser(), "what was given", channels).load()

    def check_alike(self, other: Predictor, named: str) -> None:
        if not isinstance(other, Writing):
            raise InputError(f"{named}: was not trained to write a target for a source")
        for side, one, two in (("writes", self.target, other.target), ("reads", self.source, other.source)):
            if (one and one.identity) != (two and two.identity):
                raise InputError(
                    f"{named} {side} by another tokenizer than the first model: an ensemble needs models that know"
                    " the same tokens; train them with one: --tokenizer RUN/best of the first"
                )
        if self.spelling != other.spelling:
            raise InputError(
                f"{named} spells texts otherwise than the first model: train both with the same --split-names and"
                " --lower"
            )
        if self.input != other.input:
            raise InputError(f"{named} is given `{other.input}`, and the first model `{self.input}`")

    @property
    def end(self) -> int:
        """The token that begins and ends a target."""
        return end_of(self.target)

    def ids(self, sources: Sequence[Value]) -> list[np.ndarray]:
        """Token ids of texts, the end at the end. Raises InputError for a text that the tokenizer does not know."""
        assert self.source is not None
        end = end_of(self.source)
        found = self.source.encode_many([self.spelling.source(str(text)) for text in sources])
        room = None if self.most is None else self.most - 1
        return [np.append(one[:room], end) for one in found]

    def pictures(self, sources: Sequence[Value]) -> list[Tensor]:
        """Numbers from -1 to 1, with as many channels as in training. Raises InputError for a picture of another size
        than those of training."""
        if self.picture is not None:
            sources = [with_channels(one, self.picture[0]) if isinstance(one, Tensor) else one for one in sources]
        for place, picture in enumerate(sources, 1):
            shape = tuple(picture.shape) if isinstance(picture, Tensor) else None
            if shape is not None and self.picture is not None and shape != self.picture:
                expected, actual = (" x ".join(map(str, size)) for size in (self.picture, shape))
                raise InputError(
                    f"picture {place}: this model reads pictures of {expected} (channels, height, width), and this one"
                    f" has {actual}: make it of that size first"
                )
        return [as_numbers(picture) for picture in sources]

    def prompts(self, sources: Sequence[Value]) -> tuple[list[list[int]], dict[str, list[Any]]]:
        """Prompts and inputs of a search."""
        if self.input == "image":
            return [[self.end]] * len(sources), {"image": self.pictures(sources)}
        each = [one.tolist() for one in self.ids(sources)]
        if self.input == "tokens":
            return each, {}
        return [[self.end]] * len(sources), {"source": each}

    def write(
        self,
        models: Sequence[Any],
        sources: Sequence[Value],
        settings: SearchSettings | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> list[list[Written]]:
        """The best targets of each source, best first: at most `settings.n_best`.

        models    an ensemble
        prefixes  texts that the targets begin with, one for each source

        For a source of white space alone nothing is written. Raises InputError.
        """
        settings = settings or SearchSettings()
        room = min((n for n in (positions_of(model, self.input) for model in models) if n is not None), default=None)
        written = [[NOTHING] for _ in sources]
        nonempty = [
            place for place, source in enumerate(sources) if not (isinstance(source, str) and not source.strip())
        ]
        for first in range(0, len(nonempty), AT_ONCE):
            places = nonempty[first : first + AT_ONCE]
            prompts, inputs = self.prompts([sources[place] for place in places])
            for place, ids in zip(places, inputs.get("source", ()), strict=False):
                if room is not None and len(ids) > room:
                    raise InputError(
                        f"source {place + 1} has {len(ids)} tokens, its end included, and the model has learned {room}"
                        f" positions: shorten it ({shown(str(sources[place]))})"
                    )
            first_words = ["" if prefixes is None else prefixes[place] or "" for place in places]
            begun = None if prefixes is None else [self.target.encode(self.spelling.target(t)) for t in first_words]
            found = search(
                list(models), prompts, settings, end=self.end, inputs=inputs, prefixes=begun, usual=self.usual
            )
            for place, each, prefix in zip(places, found, first_words, strict=True):
                written[place] = [Written.of(one, self.target, self.spelling, prefix) for one in each]
            if progress is not None:
                progress(places[-1] + 1, len(sources))
        return written

    @property
    def usual(self) -> int:
        """Tokens that are written at most where nothing is said: twice those of the longest target of training."""
        return 2 * self.longest

    def save(self, folder: Path) -> None:
        """Write `pairs.json` and the tokenizers into a model's folder."""
        self.target.save(folder)
        own = self.source is not None and self.source is not self.target
        if own and self.source is not None:
            self.source.save(folder / SOURCE)
        about: dict[str, Any] = {"task": self.task, "input": self.input, "most": self.most, "longest": self.longest}
        about |= {"joint": not own, "picture": None if self.picture is None else list(self.picture)}
        about |= {"spelling": asdict(self.spelling)}
        (folder / FILE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What `save` wrote.

        Raises CheckpointError where the model was not trained on pairs, or the file is damaged.
        """
        path = folder / FILE
        try:
            about: Mapping[str, Any] = load_json(path)
            target = load(folder)
            source = None if about["input"] == "image" else target if about["joint"] else load(folder / SOURCE)
            most, picture = about["most"], about.get("picture")
            return cls(
                str(about["task"]), target, source, str(about["input"]),
                None if most is None else int(most), int(about["longest"]),
                None if picture is None else tuple(map(int, picture)), Spelling(**about.get("spelling", {})),
            )  # fmt: skip
        except FileNotFoundError:
            raise CheckpointError(
                f"{path}: the file is missing: this model was not trained to write a target for a source; train one"
                " with --task translation, summarization or captioning"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: damaged ({type(error).__name__}); copy it again") from None


def end_of(tokenizer: Tokenizer) -> int:
    """The id that ends a text. Raises InputError for a tokenizer that has none."""
    if tokenizer.end_of_document is None:
        raise InputError(
            "this tokenizer has no token that ends a text, which pairs need; train another: --tokenizer bpe"
        )
    return tokenizer.end_of_document


def positions_of(model: Any, name: str) -> int | None:
    """How many positions of an input a model has learned; None where nothing limits it."""
    known = getattr(model, "positions_of", None)
    return None if known is None or name == "image" else known(name)


def as_numbers(picture: Value) -> Tensor:
    """(channels, height, width) uint8 -> float32 from -1 to 1. Raises InputError for anything else."""
    if not isinstance(picture, Tensor):
        raise InputError("expected a picture, not a text")
    if picture.dtype != torch.uint8 or picture.dim() != 3:
        raise InputError(
            "a picture is a tensor (channels, height, width) of whole numbers from 0 to 255 (torch.uint8); this one is"
            f" {str(picture.dtype).removeprefix('torch.')} of the shape {tuple(picture.shape)}"
        )
    return picture.float() / 127.5 - 1


def device_of(model: nn.Module) -> torch.device:
    """Where a model's parameters are."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))
