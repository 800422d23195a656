"""The tokenizer of a model that others made: WordPiece, unigram, byte-level and byte-fallback BPE, as the tokenizers
library reads them, with the special tokens and templates that transformers adds.

It may lose something of a text: case, blanks, signs that it does not know. Its ids are those of transformers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import tokenizers as library
from tokenizers import decoders, models

from ..errors import CheckpointError, InputError
from .base import Spans, Tokenizer, as_utf8, readers, tokenizers
from .byte_level import CUT, ENDS, GROUP, PROBE, bytes_by_sign, joined_ids, parts_of
from .chat_template import template_of
from .marks import Marks
from .published import Published, backend_of, read_published, special_names
from .text_stream import WindowStream
from .texts import groups

CUTS = ((re.compile(r"\S(?= )"), True), (re.compile(r"\S(?= \S)"), False))
"""Where long texts may be cut, and whether the blank there goes into the next part: before the blank after a word,
where pieces begin with blanks; at a single blank, where one is put before each text, as LLaMA 2 does."""

CLEANED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""What transformers writes without its blanks, one after the other, where `clean_up_tokenization_spaces` is set."""

BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # how byte fallback names a byte


class Pretrained(Tokenizer):
    """A tokenizer of the tokenizers library, and what its folder says of it."""

    kind = "pretrained"

    def __init__(self, files: Published) -> None:
        self.files = files
        self._backend = backend_of(files)
        self._lock = Lock()  # whether texts may name special tokens is a switch of the backend
        self._backend.no_padding()
        self._backend.no_truncation()
        if getattr(self._backend.model, "dropout", None):
            raise ValueError("its dropout cuts words by chance: write null for it in tokenizer.json")
        self.chat = template_of(files)
        names = special_names(files.config)
        self._added = dict(self._backend.get_added_tokens_decoder())
        self._vocab = 1 + max(self._backend.get_vocab(with_added_tokens=True).values(), default=-1)
        special = {token.content: i for i, token in self._added.items() if token.special}
        self._special = frozenset(special.values())
        ids = {key: self._backend.token_to_id(name) for key, name in names.items()}
        stated = files.generation.get("eos_token_id")
        ends = [stated] if isinstance(stated, int) else [int(i) for i in stated or ()]
        known = [ids.get("eos_token"), *ends, ids.get("sep_token"), *map(special.get, (*ENDS, "[SEP]"))]
        self.end_of_document = next((i for i in known if i is not None), None)
        self.ends = frozenset(i for i in (*ends, self.end_of_document) if i is not None)  # it ends what is trained here
        self.unknown, self.mask = ids.get("unk_token"), ids.get("mask_token")
        if self.unknown == self.end_of_document:  # as GPT-2 names them: it knows every text
            self.unknown = None
        bytes_alone = isinstance(self._backend.model, models.BPE)  # transformers leaves their blanks as they are
        self.cleans = bool(files.config.get("clean_up_tokenization_spaces")) and not bytes_alone
        begin = (files.generation.get(key) for key in ("decoder_start_token_id", "forced_bos_token_id"))
        target = [i for i in begin if isinstance(i, int)]
        self.marks = Marks.of_template(self._backend.encode, self.encode, self.end_of_document, target)

    @property
    def vocab(self) -> int:
        return self._vocab

    @property
    def names(self) -> list[bytes | str]:
        special = {number: self._added[number].content for number in self._special}
        return [special.get(number, piece) for number, piece in enumerate(self.pieces)]

    def encode_joined(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return joined_ids(texts, self._ids, *self._cut)

    def encode_pieces(self, pieces: Iterable[str]) -> Iterator[np.ndarray]:
        cut, blank = self._cut
        parts = ["".join(pieces)] if cut is None else parts_of(pieces, cut=cut, blank=blank)
        for group in groups(parts, GROUP):
            yield self.encode_joined(group)[0]

    def _ids(self, texts: list[str]) -> list[list[int]]:
        with self._lock:
            self._backend.encode_special_tokens = True
            encoded = [one.ids for one in self._backend.encode_batch_fast(texts, add_special_tokens=False)]
        spelled = self._special - {self.unknown}
        for number, ids in enumerate(encoded):
            if not spelled.isdisjoint(ids):  # the model itself knows the name of a special token
                encoded[number] = self.spans(texts[number]).ids.tolist()
        return encoded

    def spans(self, text: str) -> Spans:
        as_utf8(text)
        spelled, rest, ids, places = self._special - {self.unknown}, [(0, text)], [], []
        while rest:
            start, part = rest.pop()
            with self._lock:
                self._backend.encode_special_tokens = True
                encoding = self._backend.encode(part, add_special_tokens=False)
            pairs = zip(encoding.ids, encoding.offsets, strict=True)
            cut = next((first + 1 for i, (first, end) in pairs if i in spelled and end - first > 1), None)
            if cut is None:
                ids += encoding.ids
                places += [(start + first, start + end) for first, end in encoding.offsets]
            else:  # no name of a special token is whole in two parts
                rest += [(start + cut, part[cut:]), (start, part[:cut])]
        both = np.array(places, dtype=np.int64).reshape(-1, 2)
        return Spans(np.array(ids, dtype=np.int64), both[:, 0], both[:, 1])

    def encode_special(self, text: str, template: bool = True) -> list[int]:
        """The ids of a text in which the names of special tokens stand for these, as in one that a chat template wrote,
        or that the user may write; with `template`, what stands before and after each text is added."""
        as_utf8(text)
        with self._lock:
            self._backend.encode_special_tokens = bool(self.files.config.get("split_special_tokens"))
            return list(self._backend.encode(text, add_special_tokens=template).ids)

    def special_in(self, text: str) -> str | None:
        """The name of a special token that a text holds; None where it holds none."""
        met = [i for i in self.encode_special(text, template=False) if i in self._special and i != self.unknown]
        return self._added[met[0]].content if met else None

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids. Special tokens are none of it, nor are ids that a model has beyond the tokenizer's."""
        ids = list(map(int, ids))
        if min(ids, default=0) < 0:
            raise InputError(f"token {min(ids)} is not in this tokenizer: its ids go from 0 to {self.vocab - 1}")
        text: str = self._backend.decode(ids, skip_special_tokens=True)
        for sign in CLEANED if self.cleans else ():
            text = text.replace(sign, sign.strip())
        return text

    def stream(self, before: Sequence[int] = ()) -> WindowStream:
        return WindowStream(self.decode, lambda i: 0 <= i < self.vocab and i not in self._special, self._is_byte,
                            self.cleans, before)  # fmt: skip

    def _is_byte(self, number: int) -> bool:
        return BYTE.fullmatch(self._backend.id_to_token(number) or "") is not None

    @cached_property
    def _cut(self) -> tuple[re.Pattern[str] | None, bool]:
        """How a long text may be cut so that its parts get the ids of the whole, found by trying each place of a text
        of many signs; None: nowhere, so a text is encoded at once."""
        text = PROBE.replace("\0", "") + "one two, three's 3.5 a-b c\nd (e)\n\nf  g"
        whole = self._ids([text])[0]
        bytes_alone = isinstance(self._backend.decoder, decoders.ByteLevel)
        for cut, blank in [*([(CUT, True)] if bytes_alone else []), *CUTS]:
            ends = [place.end() for place in cut.finditer(text)]
            halves = [self._ids([text[:end], text[end if blank else end + 1 :]]) for end in ends]
            if all(first + second == whole for first, second in halves):
                return cut, blank
        return None, True

    @cached_property
    def pieces(self) -> tuple[bytes, ...]:  # type: ignore[override]
        """The bytes that each id stands for after another: "##s" is "s", and "▁the" is " the"."""
        signs = self._backend.get_vocab(with_added_tokens=True)
        pieces = [b""] * self.vocab
        if isinstance(self._backend.decoder, decoders.ByteLevel):
            byte_of = bytes_by_sign()
            for name, i in signs.items():
                spelled = all(sign in byte_of for sign in name)
                pieces[i] = bytes(map(byte_of.__getitem__, name)) if spelled else name.encode()
        else:
            anchor = next((i for name, i in signs.items() if name.isalnum() and i not in self._added), 0)
            before = len(self._backend.decode([anchor], skip_special_tokens=False))
            numbers = sorted(signs.values())
            after = self._backend.decode_batch([[anchor, i] for i in numbers], skip_special_tokens=False)
            for i, text in zip(numbers, after, strict=True):
                byte = BYTE.fullmatch(self._backend.id_to_token(i) or "")
                pieces[i] = bytes([int(byte[1], 16)]) if byte else text[before:].encode()
        for i in self._special:
            pieces[i] = b""
        return tuple(pieces)

    @cached_property
    def word_start(self) -> str:  # type: ignore[override]
        first = self.encode("a")[:1]
        return "" if first and self.pieces[first[0]].startswith(b" ") else " "

    def fits(self, vocab: Any) -> bool:
        """Models of others have rows for more ids, of which nothing is learned."""
        return isinstance(vocab, int) and vocab >= self.vocab

    @cached_property
    def identity(self) -> str:
        digest = hashlib.sha256(self._backend.to_str().encode("utf-8", "surrogatepass"))
        digest.update(json.dumps([self.end_of_document, self.marks.opening, self.marks.between]).encode())
        return digest.hexdigest()[:32]

    def save(self, folder: Path | str) -> Path:
        """Write tokenizer.json, and what stands beside it, as transformers opens it."""
        return self.files.write(Path(folder))

    def in_library(self) -> library.Tokenizer:
        return library.Tokenizer.from_str(self._backend.to_str())

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        Pretrained.__init__(self, state["files"])


@readers.register("transformers", record={"asks": "transformula.tokenizers.published:is_published"})
def read_pretrained(named: Path, state: Any) -> Pretrained | None:
    """The tokenizer of a folder as transformers writes it; None for what is no such folder. Raises CheckpointError."""
    try:
        return Pretrained(read_published(named))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        known = f"known kinds: {', '.join(tokenizers.names())}, and the files of the tokenizers library"
        raise CheckpointError(f"{named}: not a tokenizer that can be read ({error}); {known}") from None
