"""BPE, and what it shares with unigram: texts as words of bytes, by the `tokenizers` library, in that library's own
file, so that other programs open it, and byte-level files made elsewhere are read here.

A text becomes bytes, each written as one printable sign, and is cut into words as GPT-2 cuts it; only how a word is cut
into tokens differs from kind to kind. All 256 signs are tokens, so every text is known and none is lost.

Source: Radford et al. 2019.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
import tokenizers as library
from tokenizers import decoders, models, pre_tokenizers, trainers

from ..errors import InputError
from .base import END, Lossless, as_utf8, tokenizers
from .texts import Texts, groups, pieces_of, place_of, text_of

ENDS = (END, "<|end_of_text|>", "</s>", "<eos>")  # in files made elsewhere; the first that is there counts

USUAL = 2048  # tokens, where nothing is said
SMALLEST = 257  # all bytes and the end of a document: fewer tokens cannot be
TRAINED_ON = 64_000_000  # characters that a tokenizer is trained on at most; of larger data every n-th document is read
PART = 250_000  # characters from which on a document is encoded in parts, to bound the memory that the library takes
LEARNED_PART = 10_000  # characters of a part from which tokens are learned: the library holds 256 parts at a time
GROUP = 1_000_000  # characters that are encoded at a time, or little more: the library takes 120 bytes for each

CUT = re.compile(r"\S\n(?=\S)|\S(?= )|[^\W_](?=[!-&(-/:-@\[-`{-~、。！，：；？])")
"""Where a text may be cut, so that parts get the ids of the whole: after a single newline between words, before the
blank after a word, and between a letter or digit and a punctuation mark. GPT-2's pattern, and those of later models,
cut there in any case; none of them looks back, or ahead from there."""

# What normalizers and patterns like to change; one character of each length in UTF-8.
PROBE = "The  WITH statement.\n\n\t'naïve' 東京 e\u0301\u200b\ufeff \u00a0\r\n\U0001f600 x1234 \0\x7f <s> "
REMEDY = "take another file, or train one on the text: --tokenizer bpe, or --tokenizer unigram"


class ByteLevel(Lossless):
    """A tokenizer of bytes by the library. A text that holds the name of the end of a document is spelled out.

    model  what the library calls the way in which this kind cuts words
    """

    model: ClassVar[str]
    sized = True

    def __init__(self, backend: library.Tokenizer) -> None:
        # Otherwise the name of the end of a document, met in a text, would become that token.
        backend.encode_special_tokens = True
        backend.no_padding()
        backend.no_truncation()
        self._backend = backend
        special = {token.content: i for i, token in backend.get_added_tokens_decoder().items() if token.special}
        end = next((special[name] for name in ENDS if name in special), None)
        super().__init__(_pieces(backend), end)

    def encode_joined(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return joined_ids(texts, self._ids)

    def encode_pieces(self, pieces: Iterable[str]) -> Iterator[np.ndarray]:
        for group in groups(parts_of(pieces), GROUP):
            yield from (np.array(ids, dtype=np.int64) for ids in self._ids(group))

    def _ids(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._backend.encode_batch_fast(texts, add_special_tokens=False)]

    def state(self) -> dict[str, Any]:
        return dict(json.loads(self._backend.to_str()))

    def in_library(self) -> library.Tokenizer:
        """Without what a file of others puts around texts: a model here reads them as `marks` says."""
        return library.Tokenizer.from_str(json.dumps({**self.state(), "post_processor": None}))

    @classmethod
    def accepts(cls, state: dict[str, Any]) -> bool:
        model, decoder = state.get("model"), state.get("decoder")
        if not isinstance(model, dict) or not isinstance(decoder, dict) or decoder.get("type") != "ByteLevel":
            return False
        # Old files do not say what they are; a BPE is known by its merges.
        return model.get("type", "BPE" if "merges" in model else None) == cls.model

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        for loss in losses(state):
            raise InputError(f"{loss}, and no tokenizer here may lose anything of a text; {REMEDY}")
        text = PROBE + " ".join(token["content"] for token in state.get("added_tokens") or ())
        with library_errors():
            tokenizer = cls(library.Tokenizer.from_str(json.dumps(state)))
            back = tokenizer.decode(tokenizer.encode(text))
        if back != text:
            what = "a text of some signs and of the names of its tokens"
            raise InputError(f"{what} does not come back as it was; {REMEDY}")
        return tokenizer

    def __getstate__(self) -> dict[str, Any]:
        return {"state": self._backend.to_str()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ByteLevel.__init__(self, library.Tokenizer.from_str(state["state"]))


@tokenizers.register("bpe")
class BPE(ByteLevel):
    """Byte-level BPE: pairs of bytes that often stand together become one token, again and again, until `vocab` is
    reached. Knows every text. Id 0 ends a document; a text that holds its name is spelled like any other.

    Source: Sennrich, Haddow, Birch 2016; on bytes: Radford et al. 2019.
    """

    kind = "bpe"
    model = "BPE"

    @classmethod
    def train(cls, documents: Sequence[str], vocab: int | None = None) -> Self:
        """Learn the merges of these documents; fewer than `vocab` ids if the text has no more pairs that occur twice.
        `vocab` is by default 2,048. Raises InputError if it is below 257."""
        backend = backend_of(models.BPE())
        trainer = trainers.BpeTrainer(
            vocab_size=size_of(cls.kind, vocab),
            min_frequency=2,
            special_tokens=[END],
            initial_alphabet=alphabet(),
            show_progress=False,
        )
        backend.train_from_iterator(sample(documents), trainer=trainer)
        return cls(backend)


def backend_of(model: Any) -> library.Tokenizer:
    """The library's tokenizer around a way of cutting words."""
    backend = library.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    backend.decoder = decoders.ByteLevel()
    return backend


def joined_ids(
    texts: Sequence[str],
    encode: Callable[[list[str]], list[list[int]]],
    cut: re.Pattern[str] | None = CUT,
    blank: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """What `Tokenizer.encode_joined` gives, by a way to encode many short texts at once. Long ones are cut where `cut`
    matches; None: not at all. For `blank` see `parts_of`."""
    ids, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for group in groups(texts, GROUP):
        for text in group:
            if not text.isascii():
                as_utf8(text)
        counts = [1] * len(group)
        if cut is not None and any(len(text) > PART for text in group):
            parts = [list(parts_of([text], cut=cut, blank=blank)) for text in group]
            group, counts = list(itertools.chain.from_iterable(parts)), list(map(len, parts))
        encoded = encode(group)
        ids.append(np.fromiter(itertools.chain.from_iterable(encoded), dtype=np.int32))
        lengths.append(np.add.reduceat(list(map(len, encoded)), np.cumsum([0, *counts[:-1]])))
    return np.concatenate(ids), np.concatenate(lengths)


def alphabet() -> list[str]:
    """The 256 signs that stand for bytes, sorted."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def bytes_by_sign() -> dict[str, int]:
    """The byte that each sign stands for: printable Latin-1 is the sign of itself; the other bytes, in order, are the
    signs from U+0100 on."""
    letters = alphabet()
    others = iter(byte for byte in range(256) if chr(byte) not in letters)
    return {sign: ord(sign) if ord(sign) < 256 else next(others) for sign in letters}


def size_of(kind: str, vocab: int | None) -> int:
    """The size asked for, 2,048 where nothing is said. Raises InputError below 257."""
    if vocab is not None and vocab < SMALLEST:
        raise InputError(
            f"a {kind} tokenizer of {vocab} tokens: at least {SMALLEST} are needed, all bytes and the end of a"
            f" document; write vocab: {SMALLEST} or more, or leave it out, or take `tokenizer: bytes`"
        )
    return USUAL if vocab is None else vocab


def sample(documents: Sequence[str]) -> Iterator[str]:
    """What is trained on, in small parts: all documents, every n-th of large data, or the beginnings of a few large
    ones."""
    texts = Texts.of(documents)
    every = -(-texts.characters // TRAINED_ON)
    if 1 < every <= len(texts) / 10:
        texts = texts[::every]
    elif every > 1:
        most = TRAINED_ON // len(texts)
        texts = Texts([content[: place_of(content, most)] for content in texts.contents])
    for content in texts.contents:
        if len(content) <= LEARNED_PART:
            yield text_of(content)
        else:
            yield from parts_of(pieces_of(content), LEARNED_PART)


def parts_of(
    pieces: Iterable[str], least: int | None = None, cut: re.Pattern[str] = CUT, blank: bool = True
) -> Iterator[str]:
    """One text, which comes in pieces, in parts of at least so many characters (`PART`), which together get the ids of
    the whole. A run of as many more characters without a place to cut is cut all the same. Without `blank` a part that
    would begin with a blank begins after it, for a tokenizer that puts one before each. Raises InputError for half a
    character."""
    least = PART if least is None else least
    text, start = "", 0
    for piece in pieces:
        as_utf8(piece)
        text, start = text[start:] + piece, 0
        while len(text) - start > least:
            place = cut.search(text, start + least, start + 2 * least)
            if place is None and len(text) - start <= 2 * least:
                break  # where to cut is not known before more of the text is there
            end = start + least if place is None else place.end()
            yield text[start:end]
            start = end if blank or text[end : end + 1] != " " else end + 1
    if start < len(text) or not text:
        yield text[start:]


def _pieces(backend: library.Tokenizer) -> list[bytes]:
    """The bytes of each id; special tokens have none, as no text spells them. The library writes each byte as a
    printable character of its own, which is undone here; tokens that were added to a vocabulary are met in the text as
    they are. Raises ValueError where the ids are not 0, 1, 2, ..., or a name has other characters."""
    added = backend.get_added_tokens_decoder()
    vocabulary = backend.get_vocab(with_added_tokens=True)
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise ValueError("the ids of its tokens have gaps, or are given twice")
    byte_of = bytes_by_sign()
    pieces = [b""] * len(vocabulary)
    for name, i in vocabulary.items():
        signs = bytes(byte_of[sign] for sign in name if sign in byte_of)
        if i not in added:
            if len(signs) != len(name):
                raise ValueError(f"the token {name!r} is not written in the signs that stand for bytes")
            pieces[i] = signs
        elif not added[i].special:
            pieces[i] = as_utf8(name)
            if i < backend.get_vocab_size(with_added_tokens=False) and pieces[i] != signs:
                raise ValueError(f"the token {name!r} was added, and stands for other bytes in the vocabulary")
    return pieces


# Files made elsewhere may lower, strip, normalize, drop what matches a pattern, or cut by chance. They are read if each
# of their parts keeps all of a text, and a probe comes back as it was.


@contextmanager
def library_errors() -> Iterator[None]:
    """The library's errors, bare Exceptions and panics that are no Exception, as ValueError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise ValueError(str(error)) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"the tokenizers library panics: {error}") from None


def losses(state: dict[str, Any]) -> Iterator[str]:
    """What of a file's parts does not keep each text, in words."""
    model, vocab = state["model"], state["model"]["vocab"]
    known = set(vocab) if isinstance(vocab, dict) else {piece for piece, _ in vocab}
    if missing := [sign for sign in alphabet() if sign not in known]:
        yield f"{len(missing)} of the 256 bytes are no token"
    for part in parts_in_sequence(state.get("normalizer"), "normalizers"):
        yield f"its normalizer {part.get('type')} changes texts"
    cuts = parts_in_sequence(state.get("pre_tokenizer"), "pretokenizers")
    yield from filter(None, map(loss_of_cut, cuts))
    if [part.get("type") for part in cuts].count("ByteLevel") != 1:
        yield "it has no one pre-tokenizer ByteLevel, which makes bytes of a text"
    if model.get("dropout"):
        yield "its dropout cuts words by chance"
    for affix in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(affix):
            yield f"its {affix} {model[affix]!r} is no part of the text"
    for token in state.get("added_tokens") or ():
        if not token["special"] and (token["lstrip"] or token["rstrip"]):
            yield f"its token {token['content']!r} takes the blanks beside it (lstrip, rstrip)"


def loss_of_cut(part: dict[str, Any]) -> str:
    """What a pre-tokenizer does not keep, in words; "" where it keeps all."""
    kind = part.get("type")
    if kind not in ("ByteLevel", "Split", "Punctuation", "Digits"):
        return f"its pre-tokenizer {kind} is not known to keep all"
    if kind == "ByteLevel" and part.get("add_prefix_space", True):
        return "its pre-tokenizer ByteLevel adds a space (add_prefix_space)"
    removes = kind in ("Split", "Punctuation") and part.get("behavior") == "Removed"
    return f"its pre-tokenizer {kind} removes what it finds" if removes else ""


def parts_in_sequence(part: Any, inner: str) -> list[dict[str, Any]]:
    """The parts of a Sequence, and of those within it; a part alone is one, none is none."""
    if part is None or part.get("type") != "Sequence":
        return [] if part is None else [part]
    return [one for each in part[inner] for one in parts_in_sequence(each, inner)]
