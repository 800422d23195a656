"""A language model that guides a search by CTC: what is heard, and what is likely to be said.

    score(text) = log P(text | sound) + weight log P(text)

The texts are those of the model: between two of its marks, the end of a document or a new line, whichever it says more
often behind a letter. Where each letter is a token, it counts as soon as it is searched. With tokens of other kinds the
texts that the search ends with are rescored: the sum is the same, and the beam is that of the sound alone. What the
model has said is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import InputError, setting
from ..generation.steps import device_of, logits_of, pad_ids
from ..language.graph import Architecture
from ..model.transformer import evaluating
from ..tokenizers.base import Tokenizer
from .ctc import BLANK, Prefix
from .predictor import Predictor
from .writing import TextGenerator

LETTER_BY_LETTER = ("characters", "bytes")  # kinds of tokenizers that cut a letter as they cut it within a word
ROWS = 64  # of texts that the model reads at once
CONTEXT = 256  # tokens that it reads at most, where its text says no context
KEPT = 20_000  # beginnings and words, of which is kept what the model has said


@dataclass(frozen=True)
class GuidingModel:
    """A model that a setting names: as it was called, its module, what it does, its text."""

    named: str
    module: nn.Module
    predictor: Predictor | None
    architecture: Architecture

    def check_writes(self, symbols: Sequence[str]) -> Tokenizer:
        """The tokenizer of a language model that knows these symbols. Raises InputError for any other."""
        where, kind = setting("lm", self.named), self.predictor
        if not isinstance(kind, TextGenerator):
            does = f"its verb is {kind.verb}" if kind is not None and kind.verb else "it was trained for another task"
            raise InputError(f"{where}: this is no language model, {does}; name one that goes on with texts")
        if not set(self.architecture.inputs) <= {"tokens", "document"}:
            raise InputError(f"{where}: it reads {', '.join(self.architecture.inputs)}, and there are texts alone")
        missing = [sign for sign in symbols if len(sign) == 1 and not knows(kind.tokenizer, sign)]
        if missing:
            listed = "".join(missing[:20])
            raise InputError(
                f"{where}: it does not know {listed!r}, of the letters of the transcripts; train it on texts that are"
                " spelled as these are, or with --tokenizer bytes"
            )
        return kind.tokenizer


def knows(tokenizer: Tokenizer, sign: str) -> bool:
    try:
        ids = tokenizer.encode(sign)
    except InputError:
        return False
    return tokenizer.unknown is None or tokenizer.unknown not in ids


class NewWords(NamedTuple):
    """Tokens of which those from `first` on count, and whether the text ends behind them."""

    ids: tuple[int, ...]
    first: int
    ends: bool


class TextGuide:
    """What a language model adds to beginnings of a text as they grow: see `search` in ctc.py."""

    def __init__(self, model: GuidingModel, symbols: Sequence[str], weight: float) -> None:
        self.tokenizer, self.module = model.check_writes(symbols), model.module
        self.symbols, self.weight = symbols, weight
        self.most = int(model.architecture.numbers.get("context", CONTEXT))
        self.reads_document = "document" in model.architecture.inputs
        self.said: dict[tuple[str, str, bool], float] = {}
        self.after: dict[Prefix, np.ndarray] = {}
        alone = self.tokenizer.kind in LETTER_BY_LETTER and all(knows(self.tokenizer, sign) for sign in symbols)
        letters = [self.tokenizer.encode(sign) for sign in symbols] if alone else []
        self.letters = [ids[0] for ids in letters if len(ids) == 1]
        self.opening, self.ends = self.marks(model.named)

    def marks(self, named: str) -> tuple[tuple[int, ...], list[int]]:
        """The tokens before a text, and those each of which ends it. Raises InputError where there are none."""
        tokenizer = self.tokenizer
        opening, ends = tokenizer.marks.opening, sorted(tokenizer.ends)
        known = [(opening, ends)] if opening and ends else []
        if knows(tokenizer, "\n") and len(line := tokenizer.encode("\n")) == 1:
            known.append(((line[0],), line))
        if not known:
            where = setting("lm", named)
            raise InputError(f"{where}: it has neither an end of documents nor a new line, between which texts stand")
        if len(known) == 1:
            return known[0]
        letters = [tuple(ids) for sign in self.symbols if sign.strip() and (ids := tokenizer.encode(sign))]
        behind = torch.cat([row[-1:] for row in self.logs(letters)]).exp().mean(0)
        return max(known, key=lambda marks: float(behind[marks[1]].sum()))

    def __call__(self, beginnings: Sequence[Prefix]) -> list[float]:
        if max(len(self.after), len(self.said)) > KEPT:
            self.after.clear()
            self.said.clear()
        by_letter = len(self.letters) == len(self.symbols)
        return self.of_letters(beginnings) if by_letter else self.of_texts(beginnings)

    def of_letters(self, beginnings: Sequence[Prefix]) -> list[float]:
        """weight log P of the last letter of each beginning; a blank symbol is the end of the text."""
        new = [each for each in dict.fromkeys(each[:-1] for each in beginnings) if each not in self.after]
        for start in range(0, len(new), ROWS):
            some = new[start : start + ROWS]
            texts = [(*self.opening, *(self.letters[number - 1] for number in each))[-self.most :] for each in some]
            for each, logs in zip(some, self.logs(texts), strict=True):
                last = logs[-1].double()
                end = last[self.ends].logsumexp(0, keepdim=True)
                self.after[each] = torch.cat([end, last[self.letters]]).numpy()
        return [self.weight * float(self.after[each[:-1]][each[-1]]) for each in beginnings]

    def of_texts(self, beginnings: Sequence[Prefix]) -> list[float]:
        """weight log P of each text, word by word and then its end, where a blank symbol says that it ends; else 0."""
        wanted = [self.parts(beginning) if beginning[-1] == BLANK else [] for beginning in beginnings]
        new = list(dict.fromkeys(each for parts in wanted for each in parts if each not in self.said))
        for start in range(0, len(new), ROWS):
            some = new[start : start + ROWS]
            self.said.update(zip(some, self.nats([self.asked(*each) for each in some]), strict=True))
        return [-self.weight * sum(self.said[each] for each in parts) if parts else 0.0 for parts in wanted]

    def parts(self, beginning: Prefix) -> list[tuple[str, str, bool]]:
        """The words of a text: of each what stands before it, that with it, and whether the text ends there."""
        words = "".join(self.symbols[number - 1] for number in beginning if number != BLANK).split()
        texts = [" ".join(words[:count]) for count in range(len(words) + 1)]
        steps = list(pairwise(texts)) or [("", "")]
        return [(before, after, number == len(steps)) for number, (before, after) in enumerate(steps, 1)]

    def asked(self, before: str, after: str, ends: bool) -> NewWords:
        """What of a text is new: the tokens behind those that it had."""
        had, has = (self.tokenizer.encode(text) for text in (before, after))
        alike = 0
        while alike < min(len(had), len(has)) and had[alike] == has[alike]:
            alike += 1
        opening = self.opening if len(self.opening) + len(has) <= self.most else ()
        left_out = 0 if opening else max(0, len(has) - self.most)
        ids = (*opening, *has[left_out:])
        return NewWords(ids, max(1, len(opening) + alike - left_out), ends)

    def nats(self, texts: Sequence[NewWords]) -> list[float]:
        """-log P of what is new in each text."""
        found = []
        for text, logs in zip(texts, self.logs([text.ids for text in texts]), strict=True):
            places = torch.arange(text.first, len(text.ids))
            ids = torch.tensor(text.ids)[text.first :]
            total = -float(logs[places - 1, ids].double().sum())
            if text.ends:
                total -= float(logs[-1, self.ends].double().logsumexp(0))
            found.append(total)
        return found

    def logs(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """The logarithms of the probabilities of the token behind each of a text, (tokens, vocab) float32."""
        view, device = evaluating(self.module), device_of(self.module)
        tokens, lengths = pad_ids(texts, device)
        given: dict[str, Any] = {"tokens": tokens}
        if self.reads_document:
            given["document"] = torch.zeros_like(tokens)
        with torch.no_grad():
            logits = logits_of(self.module, view(**given)).float().log_softmax(-1).cpu()
        return [row[: len(text)] for row, text in zip(logits, texts, strict=True)]
