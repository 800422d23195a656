"""Whether a file of the `tokenizers` library loses nothing of a text: its parts by name, then a text as a probe.

The library's files may lower, strip, normalize, drop what matches a pattern, or cut by chance. Here a text is the same
after it was encoded and decoded: files made elsewhere are read if each of their parts keeps all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from .byte_level import ByteLevel

PROBE = "The  WITH statement.\n\n\t'naïve' 東京 e\u0301\u200b\ufeff \u00a0\r\n\U0001f600 x1234 \0\x7f <s> "
"""What normalizers and patterns like to change; one character of each length in UTF-8."""

REMEDY = "take another file, or train one on the text: --tokenizer bpe, or --tokenizer unigram"


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


def check_parts(state: dict[str, Any], alphabet: list[str]) -> None:
    """Raise InputError, with the name of the part, where a file may change or lose what it reads.

    alphabet  the signs that stand for the 256 bytes
    """
    for loss in losses(state, alphabet):
        raise InputError(f"{loss}, and no tokenizer here may lose anything of a text; {REMEDY}")


def losses(state: dict[str, Any], alphabet: list[str]) -> Iterator[str]:
    """What of a file's parts does not keep each text, in words."""
    model = state["model"]
    vocab = model["vocab"]
    known = set(vocab) if isinstance(vocab, dict) else {piece for piece, _ in vocab}
    if missing := [sign for sign in alphabet if sign not in known]:
        yield f"{len(missing)} of the 256 bytes are no token"
    for part in flat(state.get("normalizer"), "normalizers"):
        yield f"its normalizer {part.get('type')} changes texts"
    cuts = flat(state.get("pre_tokenizer"), "pretokenizers")
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


def flat(part: Any, inner: str) -> list[dict[str, Any]]:
    """The parts of a Sequence, and of those within it; a part alone is one, none is none."""
    if part is None or part.get("type") != "Sequence":
        return [] if part is None else [part]
    return [one for each in part[inner] for one in flat(each, inner)]


def check_probe(tokenizer: ByteLevel, special: list[str]) -> None:
    """Raise InputError where a text that holds what is hard to keep does not come back.

    special  names of tokens that no text spells; the text holds them
    """
    text = PROBE + " ".join(special)
    if tokenizer.decode(tokenizer.encode(text)) != text:
        raise InputError(f"a text of some signs and of the names of its tokens does not come back as it was; {REMEDY}")
