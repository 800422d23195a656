"""Answers in a form: a JSON schema, a regular expression, a grammar or one of several texts, which every text keeps.

At each step the tokens after which no text of the form can follow are ruled out, by the library llguidance. A text ends
where the form allows nothing more, or where the model ends it and the form allows that; a model whose tokenizer has no
end of a text ends as soon as the form is complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..data.lines import utf8_of
from ..errors import InputError
from ..extras import need

if TYPE_CHECKING:
    from ..generation.settings import DrawingSettings
    from ..tokenizers.base import Tokenizer

COMPACT = {"whitespace_flexible": False}  # else a model may write white space for ever
BY_TOKENS = '%llguidance {"no_forcing": true}'  # else bytes that must come are written, whether or not tokens can
ANY_OBJECT: dict[str, Any] = {"type": "object"}


class FormVocabulary:
    """What llguidance asks of a tokenizer: the bytes of its tokens, and how a text becomes tokens. An id behind the
    last one stands for the end of a text where the tokenizer has none."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        ends = sorted(tokenizer.ends)
        count = tokenizer.vocab
        self.tokenizer, self.end = tokenizer, ends[0] if ends else count
        pieces = [bytes(piece) for piece in tokenizer.pieces]
        pieces += [b""] * (max(count, self.end + 1) - len(pieces))
        special = {number for number, piece in enumerate(pieces) if not piece or number in tokenizer.ends}
        self.tokens = [b"\xff<%d>" % n if n in special else piece for n, piece in enumerate(pieces)]
        self.eos_token_id, self.bos_token_id, self.special_token_ids = self.end, None, sorted(special)

    def __call__(self, text: bytes | str) -> list[int]:
        written = text if isinstance(text, str) else text.decode("utf-8", errors="replace")
        try:
            return self.tokenizer.encode(written)
        except InputError:  # a character that the tokenizer does not know
            return []


@lru_cache(maxsize=8)
def in_library(tokenizer: Tokenizer) -> tuple[Any, FormVocabulary]:
    """The library's own tokenizer for one of ours, made once for each of the last few."""
    library = need("llguidance", "an answer in a form")
    vocabulary = FormVocabulary(tokenizer)
    wrapped = library.TokenizerWrapper(vocabulary)
    return library.LLTokenizer(wrapped, n_vocab=len(vocabulary.tokens)), vocabulary


class Form:
    """What texts keep to; `begin` gives what watches one of them.

    grammar  in the notation of Lark, as llguidance reads it
    said     what it is called in errors
    """

    def __init__(self, grammar: str, said: str) -> None:
        self.grammar, self.said = grammar, said

    @classmethod
    def of_schema(cls, schema: Mapping[str, Any] | str) -> Form:
        """Texts that are JSON of a schema, written without superfluous white space. Raises InputError."""
        try:
            plain = json.loads(schema) if isinstance(schema, str) else dict(schema)
        except ValueError as error:
            raise InputError(f"the JSON schema is no JSON: {error}") from None
        if not isinstance(plain, dict):
            raise InputError("the JSON schema is JSON, but no object")
        written = json.dumps({**plain, "x-guidance": COMPACT})
        return cls(f"start: %json {written}", "the JSON schema")

    @classmethod
    def of_regex(cls, pattern: str) -> Form:
        """Texts that match a regular expression as a whole."""
        library = need("llguidance", "an answer in a form")
        return cls(f"start: /{library.regex_to_lark(pattern)}/", "the regular expression")

    @classmethod
    def of_choices(cls, texts: Sequence[str]) -> Form:
        """One of several texts. Raises InputError."""
        if not texts or not all(texts):
            raise InputError("choices: expected at least one text, none of them empty")
        return cls(f"start: {' | '.join(json.dumps(text, ensure_ascii=False) for text in texts)}", "the choices")

    @classmethod
    def of_grammar(cls, grammar: str) -> Form:
        """Texts of a grammar in the notation of Lark, whose rule `start` is a whole text."""
        return cls(grammar, "the grammar")

    def begin(self, tokenizer: Tokenizer) -> FormConstraint:
        """What watches one text. Raises InputError."""
        library = need("llguidance", "an answer in a form")
        theirs, vocabulary = in_library(tokenizer)
        grammar = library.LLMatcher.grammar_from_lark(f"{self.grammar}\n{BY_TOKENS}")
        matcher = library.LLMatcher(theirs, grammar, log_level=0)
        if matcher.is_error():
            raise InputError(f"{self.said} cannot be followed: {first_line(matcher.get_error())}")
        return FormConstraint(matcher, vocabulary, self.said)


class FormConstraint:
    """Watches one text that is written in a form; `complete`: it has come to its end."""

    def __init__(self, matcher: Any, vocabulary: FormVocabulary, said: str) -> None:
        self.matcher, self.vocabulary, self.said = matcher, vocabulary, said
        self.bits = np.zeros(-(-len(vocabulary.tokens) // 32), dtype=np.int32)
        self.bytes = self.bits.nbytes
        self.complete = False

    def rule_out(self, logits: Tensor) -> None:
        """Set the logits (vocab,) of tokens that may not come next to -inf, in place."""
        self.matcher.unsafe_compute_mask_ptr(self.bits.ctypes.data, self.bytes)
        allowed = np.unpackbits(self.bits.view(np.uint8), bitorder="little")[: len(logits)].astype(bool)
        allowed = np.pad(allowed, (0, len(logits) - len(allowed)))
        allowed[[each for each in self.vocabulary.tokenizer.ends if each < len(logits)]] = self.may_end
        if not allowed.any():
            raise InputError(f"{self.said}: what must come next cannot be written by this model's tokens")
        logits.masked_fill_(~torch.from_numpy(allowed).to(logits.device), float("-inf"))

    @property
    def may_end(self) -> bool:
        return bool(self.matcher.is_accepting())

    def take(self, token: int) -> bool:
        """Note the token that was chosen; whether the text ends with it."""
        if token in self.vocabulary.tokenizer.ends:
            self.complete = True
            return True
        self.matcher.consume_token(token)
        if self.matcher.is_error():
            raise InputError(f"{self.said} cannot be followed further: {first_line(self.matcher.get_error())}")
        self.complete = bool(self.matcher.is_stopped()) or (not self.vocabulary.tokenizer.ends and self.may_end)
        return self.complete


def first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0]


def form_of(settings: DrawingSettings) -> Form:
    """The form that settings ask for. Raises InputError."""
    if settings.json_schema is not None:
        return Form.of_schema(content_of(settings.json_schema, "{"))
    if settings.regex is not None:
        return Form.of_regex(settings.regex)
    if settings.grammar is not None:
        return Form.of_grammar(content_of(settings.grammar, "start:"))
    return Form.of_choices(settings.one_of)


def content_of(given: str, begins: str) -> str:
    """A text that is given as it is, if it has what it begins with, or as the name of a file. Raises InputError."""
    if begins in given:
        return given
    return str(utf8_of(Path(given).expanduser()), "utf-8")
