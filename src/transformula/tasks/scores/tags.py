"""Scores of tag sequences: accuracy of tokens, and precision, recall and F1 of named spans, which must be exact.

Tags of spans are IOB1, IOB2 (BIO), BIOES and its kin: B-X begins a span of type X, I-X goes on, E-X (or L-X) ends it,
S-X (or U-X) is a span of one token, M-X is I-X, O is outside. Mistakes of a sequence are read as conlleval.pl and
seqeval's default mode read them: I-X or E-X goes on with a span of type X that B-X or I-X left open; otherwise it
begins a span. So each tag but O is in a span, IOB1 and IOB2 need not be told apart, and "I-X O I-X" are two spans.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...errors import InputError
from .measured import Measured, check_as_many, ratio, share_of_sums

TAG = re.compile(r"([BIMELSU])(?:-(.*))?", re.DOTALL)
SAME_LETTERS = {"M": "I", "L": "E", "U": "S"}  # BMES and BILOU: letters for the same
Tags = Sequence[Sequence[str]]  # of each sentence the tags of its tokens


class Span(NamedTuple):
    """Tokens from `start` to before `end`, and what they are: "PER"; "" where the tags are B, I and O alone."""

    start: int
    end: int
    label: str


def spans_of(tags: Sequence[str]) -> list[Span]:
    """The spans of a sentence, in order. Raises InputError for a tag that is none of B-X, I-X, E-X, S-X, O."""
    spans: list[Span] = []
    before, label = "O", ""
    for place, tag in enumerate(tags):
        if tag == "O":
            before = "O"
            continue
        parts = TAG.fullmatch(tag)
        if parts is None:
            raise InputError(f"tag {tag!r} of token {place + 1}: spans have tags such as B-PER, I-PER and O")
        letter, ours = SAME_LETTERS.get(parts[1], parts[1]), parts[2] or ""
        if letter in "IE" and before in "BI" and ours == label:
            spans[-1] = spans[-1]._replace(end=place + 1)
        else:
            spans.append(Span(place, place + 1, ours))
        before, label = letter, ours
    return spans


def token_accuracy(predicted: Tags, references: Tags) -> Measured:
    """100 times the share of tokens whose tag is predicted; resamples draw sentences. Raises InputError."""
    check_tags(predicted, references)
    pairs = zip(predicted, references, strict=True)
    right = np.array([sum(map(str.__eq__, ours, theirs)) for ours, theirs in pairs], dtype=np.float64)
    tokens = np.array([len(tags) for tags in references], dtype=np.float64)
    kinds = {tag for tags in (*predicted, *references) for tag in tags}
    return share_of_sums("accuracy", f"tokens|tags:{len(kinds)}", right, tokens, 100 * ratio(right, tokens))


def entity_scores(predicted: Tags, references: Tags) -> list[Measured]:
    """F1, precision and recall of spans, from 0 to 100: a span is right if its start, its end and its type are. All
    spans count alike (micro average). Resamples draw sentences; alone, a sentence without spans on both sides has 100.
    Raises InputError."""
    check_tags(predicted, references)
    ours, theirs = ([set(spans_of(tags)) for tags in each] for each in (predicted, references))
    rows = [(len(one & other), len(one), len(other)) for one, other in zip(ours, theirs, strict=True)]
    both, stated, there = np.array(rows, dtype=np.float64).T
    kinds = {span.label for spans in (*ours, *theirs) for span in spans}
    signature = f"spans:exact|types:{len(kinds)}|mean:micro"
    parts = {"F1": (2 * both, stated + there), "precision": (both, stated), "recall": (both, there)}
    return [
        share_of_sums(f"entity {name}", signature, part, whole, np.where(whole > 0, 100 * ratio(part, whole), 100.0))
        for name, (part, whole) in parts.items()
    ]


def check_tags(predicted: Tags, references: Tags) -> None:
    """Raise InputError unless each sentence has as many tags on both sides."""
    check_as_many(predicted, references)
    for number, (ours, theirs) in enumerate(zip(predicted, references, strict=True), 1):
        if len(ours) != len(theirs):
            raise InputError(f"sentence {number:,}: {len(ours):,} tags are predicted for {len(theirs):,} tokens")
