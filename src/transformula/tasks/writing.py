"""What models do that write: they go on with texts, or write a target for a source.

    encoder and decoder   source ids and their end -> `source`;   the text begins with that same end -> `tokens`
    decoder alone         tokens = source, end, target, end
    pictures              (channels, height, width) from 0 to 255 -> `image`, from -1 to 1

`pairs.json` in a model's folder says which of these; the tokenizers lie beside it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np
from torch import Tensor, nn

from ..data.lines import excerpt
from ..data.pictures import PictureFile, picture_numbers
from ..data.records import Record, Value
from ..data.spelling import PLAIN, Spelling
from ..errors import CheckpointError, InputError, UnknownName, setting
from ..generation import StoppingStream, generate
from ..generation.settings import SamplingSettings, SearchSettings
from ..structured import load_json
from ..tokenizers.base import FILE as TOKENIZER
from ..tokenizers.base import Tokenizer, load
from .base import tasks
from .cut_rows import noted
from .predictor import FILE, Answer, OfOthers, Predictor, Progress, predictor, predictors

PAIRS = "pairs.json"
SOURCE = "source"  # the folder of the source's own tokenizer, where it has one
SOURCES_AT_ONCE = 512  # sources that are looked up together: the search puts these into batches by length
# What a token costs that is generated, of what it costs in training; a model that has learned little writes many.
WRITING_COST = 2.0


@dataclass(frozen=True)
class TextGenerator(Predictor):
    """Goes on with texts. Its folder is known by the tokenizer alone."""

    tokenizer: Tokenizer

    name = "generation"
    settings = SamplingSettings
    method = "generate"
    continues = True
    verb = "sample"

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: Any, *, progress: Progress | None = None
    ) -> list[list[Answer]]:
        return [[Answer(text)] for text in self.generate(models[0], inputs, settings)]

    def generate(
        self, module: nn.Module, prompts: Sequence[str], settings: SamplingSettings,
        on_text: Callable[[int, str], None] | None = None, draft: Any = None,
    ) -> list[str]:  # fmt: skip
        """What follows each prompt, without it. `on_text` is called with (row, piece of text) as it is written; `draft`
        guesses tokens."""
        begun = [self.begin(text) for text in prompts]
        return [one.text for one in write_after(module, self.tokenizer, begun, settings, on_text, draft=draft)]

    def begin(self, prompt: str) -> list[int]:
        """The tokens of a prompt. An empty one begins as documents do: after the end of another, or a new line."""
        if not prompt and self.tokenizer.marks.opening:
            return list(self.tokenizer.marks.opening)
        try:
            return self.tokenizer.prompt(prompt or "\n")
        except InputError:
            if prompt:
                raise
            raise InputError(
                "the prompt is empty, and the model's tokenizer has neither an end of documents nor a new line to begin"
                " after: give a prompt"
            ) from None

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(load(folder))


class Continuation(NamedTuple):
    """What was written: whether it came to its end or to a text that stops it, and its tokens, that of the end too."""

    text: str
    ended: bool
    ids: list[int]


def write_after(
    module: Any, tokenizer: Tokenizer, prompts: Sequence[Sequence[int]], settings: SamplingSettings,
    on_text: Callable[[int, str], None] | None = None, *, most: Sequence[int] | None = None, apart: bool = False,
    draft: Any = None, forms: Sequence[Any] | None = None, inputs: Mapping[str, Sequence[Any]] | None = None,
) -> list[Continuation]:  # fmt: skip
    """What follows the tokens of each prompt, of at most `most` tokens each.

    on_text  called with (row, piece of text) as it is written
    apart    what is written is a text of its own, not the rest of one with the prompt
    draft    a model that guesses tokens
    forms    what each text keeps to, or None; by default what the settings say
    inputs   what the model is given for each beside its prompt, by name
    """
    pieces = [tokenizer.stream(() if apart else prompt) for prompt in prompts]
    streams = [StoppingStream(each, stop=settings.stop, end=tokenizer.ends) for each in pieces]

    def show(row: int, piece: str) -> None:
        if piece and on_text is not None:
            on_text(row, piece)

    def push(row: int, token: int) -> None:
        show(row, streams[row].push(token))

    done = lambda row, _: streams[row].finished  # noqa: E731
    if settings.forms:
        from .forms import form_of

        forms = [form_of(settings)] * len(prompts)
    constraints = [form and form.begin(tokenizer) for form in forms or [None] * len(prompts)]
    rows = generate(
        module, prompts, settings, draft=draft, most=most, finished=done, on_token=push,
        constraints=constraints if any(constraints) else None, inputs=inputs,
    )  # fmt: skip
    complete = [each is not None and each.complete for each in constraints]
    ended = [stream.finished or whole for stream, whole in zip(streams, complete, strict=True)]
    for row, stream in enumerate(streams):
        show(row, stream.close())
    return [Continuation(stream.text, done, ids) for stream, done, ids in zip(streams, ended, rows, strict=True)]


@dataclass(frozen=True)
class Written(Answer):
    """A text that was written, with its score (see SearchSettings), its log probability, and its number of tokens."""

    log_probability: float = 0.0
    tokens: int = 0


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
    named = {"source_vocab": "source"}

    @classmethod
    def of_others(cls, model: OfOthers) -> Self:
        """The predictor of an encoder and a decoder that others trained, which read and write by one tokenizer."""
        return cls(model.task, model.tokenizer, model.tokenizer, "source")

    @property
    def tokenizer(self) -> Tokenizer:  # type: ignore[override]
        return self.target

    @property
    def continues(self) -> bool:
        return self.input == "tokens"

    @property
    def reads(self) -> Literal["texts", "pictures", "both"]:  # type: ignore[override]
        return "pictures" if self.input == "image" else "texts"

    @property
    def verb(self) -> str:
        verb = tasks.get(self.task).verb if self.task in tasks else None  # the task may be of a package not here
        return verb.name if verb else "caption" if self.input == "image" else "translate"

    @property
    def end(self) -> int:
        """The token that begins and ends a target."""
        return end_of(self.target)

    @property
    def usual(self) -> int:
        """Tokens that are written at most where nothing is said: twice those of the longest target of training."""
        return 2 * self.longest

    @property
    def numbers(self) -> Mapping[str, int]:
        """The least that a model's text says, by number: {"vocab": 300}."""
        return {}

    def before_source(self, source: Any) -> Sequence[int]:
        """The tokens before the text of an input, or of a record: for a picture that stands beside it, too."""
        return () if self.source is None else self.source.marks.source[0]

    def input_of(self, record: Record) -> Any:
        """What of a record is the input."""
        return record["source"]

    def inputs_beside(self, records: Sequence[Record]) -> dict[str, Tensor]:
        """What a decoder alone is given of records beside tokens."""
        return {}

    def blinded(self, inputs: Sequence[Any]) -> dict[str, list[Any]]:
        """Inputs of which a part is hidden, by a name for that: what is written for them tells what that part is good
        for."""
        return {}

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: SearchSettings | None = None, *,
        progress: Progress | None = None, prefixes: Sequence[str] | None = None,
    ) -> list[list[Written]]:  # fmt: skip
        """The best targets of each source, best first: at most `settings.n_best`.

        models    an ensemble
        inputs    texts, or pictures as tensors
        prefixes  texts that the targets begin with, one for each source

        For a source of white space alone nothing is written. Raises InputError.
        """
        from ..generation.beam import search

        learned = [model.positions_of(self.input) for model in models if hasattr(model, "positions_of")]
        positions = min((count for count in learned if count is not None), default=math.inf)
        written = [[Written("")] for _ in inputs]
        nonempty = [row for row, source in enumerate(inputs) if not isinstance(source, str) or source.strip()]
        for first in range(0, len(nonempty), SOURCES_AT_ONCE):
            rows = nonempty[first : first + SOURCES_AT_ONCE]
            prompts, sources = self.prompts([inputs[row] for row in rows])
            written_after = self.input == "tokens"  # of a decoder alone, whose positions both have
            for row, ids in zip(rows, prompts if written_after else sources.get("source", ()), strict=False):
                if len(ids) + written_after > positions:
                    text = self.tokenizer.decode(token for token in ids if token < self.tokenizer.vocab)
                    raise InputError(
                        f"source {row + 1} has {len(ids)} tokens, its end included, and the model has learned"
                        f" {positions} positions: shorten it ({excerpt(text)})"
                    )
            begin = ["" if prefixes is None else prefixes[row] or "" for row in rows]
            begun = None if prefixes is None else [self.target.encode(self.spelling.target(text)) for text in begin]
            best = search(
                list(models), prompts, settings or SearchSettings(), end=sorted(self.target.ends) or self.end,
                inputs=sources, prefixes=begun, usual=self.usual,
            )  # fmt: skip
            for row, hypotheses, prefix in zip(rows, best, begin, strict=True):
                written[row] = []
                for h in hypotheses:
                    # a model may know more tokens than its tokenizer: they stand for nothing
                    text = self.target.decode(token for token in h.tokens if token < self.target.vocab)
                    text = self.spelling.written(text, prefix)
                    written[row].append(Written(text, h.score, h.log_probability, len(h.tokens)))
            cut = [False] * len(rows)
            if self.most is not None and self.source is not None:
                texts = [inputs[row] for row in rows]
                each = zip(map(self.room, texts), self.encode_whole(texts), strict=True)
                cut = [room is not None and len(ids) > room for room, ids in each]
            for row, answers in zip(rows, noted([written[row] for row in rows], cut, self.most or 0), strict=True):
                written[row] = list(answers)
            if progress is not None:
                progress(rows[-1] + 1, len(inputs))
        return written

    def prompts(self, sources: Sequence[Value]) -> tuple[list[list[int]], dict[str, list[Any]]]:
        """Prompts and inputs of a search. Raises InputError for what the model does not read."""
        begin = list(self.target.marks.target) or [self.end]
        if self.input == "image":
            return [begin] * len(sources), {"image": self.pictures(sources)}
        each = [ids.tolist() for ids in self.ids(sources)]
        return (each, {}) if self.input == "tokens" else ([begin] * len(sources), {"source": each})

    def ids(self, sources: Sequence[Value]) -> list[np.ndarray]:
        """Token ids of texts with what stands around a source, such as the end after it. Raises InputError for a text
        that the tokenizer does not know."""
        assert self.source is not None
        end_of(self.source)
        after, rows = np.array(self.source.marks.source[1], dtype=np.int64), []
        for source, ids in zip(sources, self.encode_whole(sources), strict=True):
            before = np.array(self.before_source(source), dtype=np.int64)
            rows.append(np.concatenate([before, ids[: self.room(source)], after]))
        return rows

    def encode_whole(self, sources: Sequence[Value]) -> list[np.ndarray]:
        """Token ids of texts, however long they are."""
        assert self.source is not None
        return self.source.encode_many([self.spelling.source(str(text)) for text in sources])

    def room(self, source: Any) -> int | None:
        """Tokens of a text that are read at most, without what stands around it; None: any."""
        if self.most is None or self.source is None:
            return None
        return self.most - len(self.before_source(source)) - len(self.source.marks.source[1])

    def pictures(self, sources: Sequence[Value]) -> list[Tensor]:
        """Pictures as the model reads them; see `picture_numbers`."""
        return picture_numbers(sources, self.picture)

    def opened(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Texts as they are, pictures from their files. Raises InputError for what the model does not read."""
        if self.input != "image":
            return super().opened(inputs)
        opened: list[Value] = []
        for number, source in enumerate(inputs, 1):
            if not isinstance(source, (Tensor, str, Path)):
                raise InputError(
                    f"this model reads pictures: give the name of a file, or a tensor; this is {source!r:.40}"
                )
            if not isinstance(source, Tensor) and str(source).strip():
                channels = None if self.picture is None else self.picture[0]
                source = PictureFile(Path(source).expanduser(), f"source {number}", channels).load()
            opened.append(source if isinstance(source, Tensor) else "")
        return opened

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

    def save(self, folder: Path) -> None:
        """Write `pairs.json` and the tokenizers into a model's folder."""
        self.target.save(folder)
        own = None if self.source is self.target else self.source
        if own is not None:
            own.save(folder / SOURCE)
        about: dict[str, Any] = {"task": self.task, "input": self.input, "most": self.most, "longest": self.longest}
        about |= {"joint": own is None, "picture": self.picture, "spelling": asdict(self.spelling)}
        (folder / PAIRS).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What `save` wrote. Raises CheckpointError where the model was not trained on pairs, or the file is
        damaged."""
        path = folder / PAIRS
        try:
            about: Mapping[str, Any] = load_json(path)
            target = load(folder)
            source = None if about["input"] == "image" else target if about["joint"] else load(folder / SOURCE)
            most = None if about["most"] is None else int(about["most"])
            picture = None if about.get("picture") is None else tuple(map(int, about["picture"]))
            task, reads, spelling = str(about["task"]), str(about["input"]), Spelling(**about.get("spelling", {}))
            return cls(task, target, source, reads, most, int(about["longest"]), picture, spelling)
        except FileNotFoundError:
            raise CheckpointError(
                f"{path}: the file is missing: this model was not trained to write a target for a source; train one"
                " with a task that does: transformula train --help all lists the tasks"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise CheckpointError(f"{path}: damaged ({type(error).__name__}); copy it again") from None


def spread_rows(rows: int, most: int) -> list[int]:
    """The places of at most so many of the rows, evenly over all: those for which a text is generated."""
    count = min(rows, most)
    return [place * rows // count for place in range(count)]


def end_of(tokenizer: Tokenizer) -> int:
    """The id that ends a text. Raises InputError for a tokenizer that has none."""
    if tokenizer.end_of_document is None:
        raise InputError(
            "this tokenizer has no token that ends a text, which pairs need; train another: --tokenizer bpe"
        )
    return tokenizer.end_of_document


def generator_of(tokenizer: Tokenizer) -> Predictor:
    """What goes on with texts by a tokenizer, and replies to messages where this has a chat template."""
    kind: Any = TextGenerator if tokenizer.chat is None else predictors.get("templated-chat")
    return cast(Predictor, kind(tokenizer))


def load_predictor(folder: Path) -> Predictor | None:
    """What the model in a folder does; None for a model that was never trained on a task. Raises CheckpointError for a
    damaged file, InputError for a predictor of a package that was not imported."""
    path = folder / FILE
    if not path.is_file():  # the two oldest kinds are known by their own files
        if (folder / PAIRS).is_file():
            return Writing.load(folder)
        return generator_of(load(folder)) if (folder / TOKENIZER).is_file() else None
    try:
        about = load_json(path)
        return predictors.get(str(about["predictor"])).load(folder)
    except UnknownName:
        package = str(about.get("package", ""))
        raise InputError(
            f"{folder}: what this model does is said by the package {package!r}, and a file that is loaded imports"
            f" nothing: add {setting('use', package)}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise CheckpointError(f"{path}: damaged ({type(error).__name__}); copy it again") from None
