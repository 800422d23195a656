"""What a trained model of a task does: answers to inputs, by what its folder holds and nothing else.

A task makes its predictor, which is saved beside the weights; `Model` loads and calls it, and so does the task's verb.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from torch import Tensor

from ..errors import CheckpointError, InputError, shortened
from ..registry import Registry
from ..settings import Settings
from ..structured import load_json
from ..tokenizers.base import FILE as TOKENIZER
from ..tokenizers.base import Tokenizer, load
from .verb import BestSettings as BestSettings

if TYPE_CHECKING:
    from ..language.graph import Architecture

FILE = "predictor.json"
LONGEST = 512

predictors: Registry[type[Predictor]] = Registry("predictor", "transformula.tasks", "@predictor(")

Progress = Callable[[int, int], None]  # called with (inputs done, inputs in all)


def predictor(name: str) -> Callable[[type[Predictor]], type[Predictor]]:
    """Decorator that registers a predictor under `name`, by which a model's folder knows it."""

    def decorate(kind: type[Predictor]) -> type[Predictor]:
        kind.name = name
        return predictors.register(name)(kind)

    return decorate


@dataclass(frozen=True)
class OfOthers:
    """A model that others trained, as its folder says.

    task          for which such models are trained, by its name
    folder        that holds it
    tokenizer     of its folder; None where it has none
    config        its config.json
    architecture  its text
    """

    task: str
    folder: Path
    tokenizer: Any
    config: Mapping[str, Any]
    architecture: Architecture

    @property
    def reading(self) -> dict[str, Any]:
        """What it reads, as the fields of `RowEncoder`: where its positions have no end, 512 tokens of a text."""
        most = int(self.architecture.numbers.get("context", LONGEST))
        return {"tokenizer": self.tokenizer, "inputs": list(self.architecture.inputs), "most": most, "lower": False}

    @property
    def labels(self) -> list[str]:
        """The names of its classes, as `id2label` has them. Raises CheckpointError where these are not numbered."""
        count = int(self.architecture.numbers.get("classes", 0))
        named = self.config.get("id2label") or {str(n): f"LABEL_{n}" for n in range(count)}
        labels = [named.get(str(n)) for n in range(len(named))]
        if None in labels or len({*labels}) < len(labels):
            what = f"config.json: id2label is {shortened(str(named), 60)}: expected another name for each of"
            raise CheckpointError(f"{what} 0 to {len(named) - 1}")
        return list(map(str, labels))


@dataclass(frozen=True)
class Answer:
    """An answer to an input, and its score: higher is better. What a subclass adds is shown to programs.

    note  what of the input the model could not read; "" where it read all
    """

    text: str
    score: float = 0.0
    note: str = field(default="", kw_only=True)

    of_input: ClassVar[tuple[str, ...]] = ()
    """Fields that all answers to an input share: they are shown once."""

    @property
    def value(self) -> Any:
        """What `Model.predict` gives for it, where no score is asked for."""
        return self.text

    @property
    def brief(self) -> dict[str, Any]:
        """What JSON says of it, where no score is asked for."""
        return {"text": self.text}

    @property
    def full(self) -> dict[str, Any]:
        """All that is known of it, for JSON; of a note only where there is one."""
        return {key: value for key, value in asdict(self).items() if key != "note" or value}


class Predictor(ABC):
    """What a trained model does with an input. A frozen dataclass whose fields are a tokenizer and plain data can be
    saved and loaded as it is.

    name       by which it is registered
    settings   of a call: keywords of `Model.predict`, options of the task's verb
    method     the method of `Model` that calls it
    reads      what its inputs are made of; where pictures or sounds are, a text may be a file's
               name
    continues  whether it goes on with a text, as `Model.generate` does
    tokenizer  of what it reads, or of what it writes where that is another; None where it has none
    named      the fields that say what rows of a model's tables and outputs stand for, beside the tokenizer, by the
               number of its text that says how many there are: {"classes": "labels"}
    guides     the settings that name another model, which is opened before `predict`: a `GuidingModel` in its place
    """

    name: ClassVar[str]
    settings: ClassVar[type[Settings]] = Settings
    guides: ClassVar[tuple[str, ...]] = ()
    method: ClassVar[str] = "predict"
    named: ClassVar[Mapping[str, str]] = {}
    reads: ClassVar[Literal["texts", "pictures", "both", "sounds"]] = "texts"
    tokenizer: Tokenizer | None

    @property
    def continues(self) -> bool:
        return False

    @property
    def verb(self) -> str:
        """The verb of the command line that calls it; "" for none."""
        return ""

    @abstractmethod
    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: Any, *, progress: Progress | None = None
    ) -> Sequence[Sequence[Answer]]:
        """The answers to each input, best first.

        models    modules in evaluation mode; several answer together
        settings  an object of the class `settings`

        Raises InputError.
        """

    def opened(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Inputs as a person gives them, made ready for `predict`: texts as they are. Raises InputError, DataError."""
        for number, source in enumerate(inputs, 1):
            if not isinstance(source, str):
                raise InputError(f"source {number}: this model reads texts; given: {type(source).__name__}")
        return inputs

    @classmethod
    def view(cls, predictor: Predictor | None, architecture: Architecture) -> Self:
        """Another use of a model whose own predictor this is. Raises InputError for a model that cannot be used so."""
        raise InputError(f"a model is used by {cls.name} where it was trained for that")

    def is_one(self, given: Any) -> bool:
        """Whether what a person gives is a single input, not several."""
        return isinstance(given, (str, Path, Tensor))

    def check_alike(self, other: Predictor, named: str) -> None:
        """Raise InputError unless a model `named` so, with another predictor, can answer together with this one."""
        raise InputError(f"{named}: models of this kind answer one by one; leave it out")

    def beside(self, other: Predictor, module: Any, named: str) -> Any:
        """What stands for a model `named` so, with its own predictor, among those that answer together with this one:
        the model, unless a task says otherwise. Raises InputError where it cannot."""
        self.check_alike(other, named)
        return module

    def save(self, folder: Path) -> None:
        """Write what a model's folder needs, so that the folder alone can be used."""
        plain = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "tokenizer"}  # type: ignore[arg-type]
        package = type(self).__module__.partition(".")[0]
        about = {"predictor": self.name, "package": package, **plain}
        (folder / FILE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        if self.tokenizer is not None:
            self.tokenizer.save(folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What `save` wrote. Raises CheckpointError where a file is damaged."""
        about = dict(load_json(folder / FILE))
        plain = {key: value for key, value in about.items() if key not in ("predictor", "package")}
        if (folder / TOKENIZER).is_file():
            plain["tokenizer"] = load(folder)
        elif any(item.name == "tokenizer" for item in fields(cls)):  # type: ignore[arg-type]
            plain["tokenizer"] = None
        return cls(**plain)


@predictor("no-answer")
@dataclass(frozen=True)
class NoAnswer(Predictor):
    """What stands for the predictor of a model by which no verb answers: its tokenizer, and why there is no answer."""

    tokenizer: Tokenizer | None
    why: str

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: Any, *, progress: Progress | None = None
    ) -> Sequence[Sequence[Answer]]:
        raise InputError(self.why)


def row_names(kind: Predictor | None) -> dict[str, Sequence[Hashable] | Tokenizer]:
    """What rows of a model's tables and outputs stand for, by the number of its text that says how many there are:
    tokens (`vocab`), labels (`classes`)."""
    names: dict[str, Sequence[Hashable] | Tokenizer] = {}
    if kind is None:
        return names
    if kind.tokenizer is not None:
        names["vocab"] = kind.tokenizer
    for key, item in kind.named.items():
        value = getattr(kind, item)
        if value is not None and value is not kind.tokenizer:
            names[key] = [None, *value] if key == "vocab" else value  # of words 0 is any other
    return names
