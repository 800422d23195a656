"""What every tokenizer is, and the kinds that lose nothing: a table of pieces of bytes, and a way to cut a text into
them.

A kind that is trained here is one file with a class under `@tokenizers.register("kind")`. What comes with a model that
others made is read by `pretrained.py`.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from ..atomic_io import write_whole
from ..errors import CheckpointError, InputError
from ..registry import Registry
from ..structured import half_character, load_json
from .marks import Marks

if TYPE_CHECKING:
    import tokenizers as library

tokenizers: Registry[type[Lossless]] = Registry("tokenizer", __package__, "@tokenizers.register(")  # kinds by name
readers: Registry[Reader] = Registry("reader of tokenizers", __package__, "@readers.register(")
FILE = "tokenizer.json"  # the file of a tokenizer in a model's folder
END = "<|endoftext|>"  # the name of the token that ends a document

Reader = Callable[[Path, Any], "Tokenizer | None"]
"""Reads a tokenizer that other programs wrote: of a path (a folder, or a file named itself), with the JSON of its
`tokenizer.json`, None where there is none. It gives None for what is not its own. Its record may say in which function
stands whether it is asked at all, "package.module:function" of the same two. Raises CheckpointError."""


class Stream(Protocol):
    """Text from ids that come one by one."""

    def push(self, *ids: int) -> str:
        """The characters that these ids complete; may be empty."""

    def finish(self) -> str:
        """What is left of the text. The stream can be used again."""


class Rendering(Protocol):
    """How messages become a text; `text` is the template."""

    text: str

    def render(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True, **values: Any) -> str:
        """The text of messages, [{"role": "user", "content": "Hello."}, ...]."""

    @property
    def marks_replies(self) -> bool:
        """Whether the template says itself which parts an assistant says."""

    def render_parts(self, messages: Sequence[Mapping[str, Any]], **values: Any) -> list[tuple[str, bool]]:
        """The text of messages in parts, and whether an assistant says each."""


class Spans(NamedTuple):
    """A text as tokens, with the characters that each is made of.

    ids           (tokens,) int64
    starts, ends  (tokens,) int64 characters; a token that is a part of a character has all of it
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Tokenizer(ABC):
    """Cuts a text into ids from 0 to `vocab - 1`, and makes text of ids.

    kind             what it is called
    vocab            one more than the highest id
    pieces           the bytes that each id stands for within a text; none for special tokens
    end_of_document  the id that ends a document, or None; no text encodes to it
    ends             the ids that end what a model writes
    marks            the ids that stand around texts
    unknown          the id of what the tokenizer does not know; None where it knows each text, or refuses
    mask             the id that hides another from a model that sees both sides; None where there is none of its own
    chat             how messages become a text; None where there is no template
    word_start       what a word begins with inside a sentence, where it is encoded alone
    """

    kind: ClassVar[str]
    pieces: Sequence[bytes]
    end_of_document: int | None
    ends: frozenset[int]
    marks: Marks
    unknown: int | None = None
    mask: int | None = None
    chat: Rendering | None = None
    word_start: str = " "

    @property
    @abstractmethod
    def vocab(self) -> int: ...

    @property
    def names(self) -> list[bytes | str]:
        """What tells each id from the others, in tokenizers of any kind: its bytes; of special tokens a name."""
        return [piece or END for piece in self.pieces]

    @abstractmethod
    def encode_pieces(self, pieces: Iterable[str]) -> Iterator[np.ndarray]:
        """The ids of one long text that comes in pieces, cut anywhere, in arrays (tokens,): joined, the ids of the
        whole. Holds a few megabytes of it at a time. Raises InputError for a text that cannot be encoded."""

    def encode_joined(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all texts, one after the other, (tokens,), and how many each has, (texts,). Errors as above."""
        each = list(self.encode_pieces(texts))  # kinds that do not cut each character alone do otherwise
        return np.concatenate([np.zeros(0, np.uint8), *each]), np.fromiter(map(len, each), np.int64)

    def encode_many(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text, int64 arrays (tokens,). Errors as above."""
        ids, lengths = self.encode_joined(texts)
        ids = ids.astype(np.int64, copy=False)
        return [ids[end - length : end] for length, end in zip(lengths, np.cumsum(lengths), strict=True)]

    def encode(self, text: str) -> list[int]:
        """The ids of a text. Special tokens that it names are spelled out like any other word."""
        ids: list[int] = self.encode_joined([text])[0].tolist()
        return ids

    @abstractmethod
    def spans(self, text: str) -> Spans:
        """The ids of a text, with their places in it."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids; special tokens are none of it. Raises InputError for an id out of range."""

    @abstractmethod
    def stream(self, before: Sequence[int] = ()) -> Stream:
        """Decodes token by token, for text that is shown while it is made: together the text that `decode` gives, or
        what it gives behind the ids `before`."""

    def prompt(self, text: str) -> list[int]:
        """The ids of a text that a model goes on with."""
        return [*self.marks.prompt, *self.encode(text)]

    def fits(self, vocab: Any) -> bool:
        """Whether a model of so many ids is one for this tokenizer."""
        return bool(vocab == self.vocab)

    @property
    @abstractmethod
    def identity(self) -> str:
        """A hash of all that decides which ids a text gets: equal identities, equal ids."""

    @abstractmethod
    def save(self, folder: Path | str) -> Path:
        """Write `tokenizer.json` into a folder, which is made if it is not there. Returns the file."""

    def in_library(self) -> library.Tokenizer:
        """A copy as a tokenizer of the tokenizers library: the same ids for the same text, the same text for the same
        ids. Raises InputError for a kind that has none."""
        raise InputError(f"a tokenizer of the kind {self.kind!r} has no form that the tokenizers library reads")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab={self.vocab}, end_of_document={self.end_of_document})"


class Lossless(Tokenizer):
    """A tokenizer whose ids each stand for bytes: `decode(encode(text)) == text`. All decode in the same way: join the
    bytes, read them as UTF-8.

    pieces  the bytes of each id; those of the end of a document are empty
    sized   whether it is trained to have as many ids as are asked for
    """

    sized: ClassVar[bool] = False

    def __init__(self, pieces: Sequence[bytes], end_of_document: int | None) -> None:
        self.pieces = tuple(pieces)
        self.end_of_document = end_of_document
        self.marks = Marks.of_end(end_of_document)
        self.ends = frozenset(self.marks.closing)

    @property
    def vocab(self) -> int:
        return len(self.pieces)

    @classmethod
    @abstractmethod
    def train(cls, documents: Sequence[str], vocab: int | None = None) -> Self:
        """A tokenizer for these documents. `vocab` is the size wished for, where the kind has a choice."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that it is, as plain JSON; it holds what `accepts` and `from_state` look for."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The tokenizer that gave this state."""

    @classmethod
    def accepts(cls, state: dict[str, Any]) -> bool:
        """Whether this JSON is a state of this kind."""
        return state.get("kind") == cls.kind

    def spans(self, text: str) -> Spans:
        ids = self.encode_many([text])[0]
        sizes = np.array([len(self.pieces[number]) for number in ids], dtype=np.int64)
        character = np.cumsum((np.frombuffer(text.encode(), np.uint8) & 0xC0) != 0x80) - 1  # of each byte
        after = np.cumsum(sizes)
        return Spans(ids, character[after - sizes], character[after - 1] + 1)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes that the ids stand for; an end of document is none. Raises InputError for an id out of range."""
        ids, vocab = list(map(int, ids)), self.vocab
        for i in ids:
            if not 0 <= i < vocab:
                raise InputError(f"token {i} is not in this tokenizer: its ids go from 0 to {vocab - 1}")
        return b"".join([self.pieces[i] for i in ids])

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids. Bytes that are not UTF-8 (a character cut in two) become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")

    def stream(self, before: Sequence[int] = ()) -> TextStream:
        return TextStream(self)  # an id stands for the same bytes behind any others

    @cached_property
    def identity(self) -> str:
        plain = json.dumps(self.state(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(plain.encode()).hexdigest()[:32]

    def save(self, folder: Path | str) -> Path:
        path = Path(folder) / FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, self._content)
        return path

    @cached_property
    def _content(self) -> bytes:
        """Its file, made once: a run writes it with each model that it keeps, and to make it takes a tenth of a second
        for 2,000 tokens."""
        return json.dumps(self.state(), ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")


class TextStream:
    """Text from ids that come one by one: a character is given out when its last byte is there.

    >>> stream = tokenizer.stream()
    >>> for i in ids: print(stream.push(i), end="")
    >>> print(stream.finish())
    """

    def __init__(self, tokenizer: Lossless) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, *ids: int) -> str:
        """The characters that these ids complete; may be empty."""
        return self._decoder.decode(self._tokenizer.decode_bytes(ids))

    def finish(self) -> str:
        """What is left: U+FFFD if the last character was never completed. The stream can be used again."""
        left = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return left


def load(folder: Path | str) -> Tokenizer:
    """The tokenizer of a folder, of whatever kind. The file may be named itself. Raises CheckpointError where there is
    none, or one that cannot be read."""
    named = Path(folder)
    path = named if named.suffix == ".json" else named / FILE
    state = _state_of(path)
    for name in readers.names():
        ask = readers.records()[name].get("asks")
        if ask is not None and not pkgutil.resolve_name(ask)(named, state):
            continue
        if (tokenizer := readers.get(name)(named, state)) is not None:
            return tokenizer
    if state is None:
        message = f"there is no tokenizer here; expected a folder that holds {FILE}, as `train` leaves it"
        raise CheckpointError(f"{path}: {message}")
    kinds = tokenizers.names()
    kind = next((kind for kind in kinds if isinstance(state, dict) and tokenizers.get(kind).accepts(state)), None)
    if kind is None:
        raise CheckpointError(
            f"{path}: not a tokenizer that is known here; known kinds: {', '.join(kinds)}"
            " (bpe and unigram read byte-level files of the tokenizers library)"
        )
    try:
        return tokenizers.get(kind).from_state(state)
    except InputError as error:
        raise CheckpointError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: a damaged tokenizer of the kind {kind!r} ({error})") from None


def check_rows(tokenizer: Tokenizer, rows: int, where: Path | str) -> None:
    """Raise CheckpointError for a tokenizer with an id of which a model's table of so many rows has none."""
    if tokenizer.vocab > rows:
        raise CheckpointError(
            f"{where}: the tokenizer's ids go up to {tokenizer.vocab - 1}, added tokens included, and the model has"
            f" {rows} rows of tokens: put the tokenizer there with which it was trained, or give the model"
            f" {tokenizer.vocab} rows (in transformers: model.resize_token_embeddings({tokenizer.vocab}))"
        )


def _state_of(path: Path) -> Any:
    """The JSON of a tokenizer's file, None where it is not there. Raises CheckpointError where it cannot be read."""
    try:
        return load_json(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        message = f"not a tokenizer's file ({error}); copy it again from where it was made"
        raise CheckpointError(f"{path}: {message}") from None


def as_utf8(text: str) -> bytes:
    """The UTF-8 of a text. Raises InputError for a lone surrogate, which is half a character."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"the text holds {half_character(error)}; take it out or replace it") from None
