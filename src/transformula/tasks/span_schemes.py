"""Schemes of tags that mark spans, and which tag may follow which: BIO (IOB2); BIOES and its kin, BILOU and BMES.

Before the first and after the last tag of a sentence there is no span, as at O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import DataError, setting
from .scores.tags import SAME_LETTERS, TAG


def mark_spans(tags: Sequence[str]) -> bool:
    """Whether tags mark spans: each is O, or B-X, I-X and the like."""
    return all(tag == "O" or ((parts := TAG.fullmatch(tag)) and parts[2]) for tag in tags)


def span_letter(tag: str) -> str:
    """B, I, E or S of a tag such as "B-PER", and of those of BILOU and BMES; O of any other."""
    return SAME_LETTERS.get(tag[0], tag[0]) if tag[1:2] == "-" and tag[0] in "BIMELSU" else "O"


def may_follow_in_bio(before: str, tag: str) -> bool:
    """I-X stands after B-X and I-X alone; all else, anywhere."""
    return not tag.startswith("I-") or before in (tag, f"B-{tag[2:]}")


def may_follow_in_bioes(before: str, tag: str) -> bool:
    """What B-X begins goes on with I-X to E-X, and these stand nowhere else."""
    begun, within = span_letter(before) in "BI", span_letter(tag) in "IE"
    return begun == within and (not begun or before[2:] == tag[2:])


class Scheme(NamedTuple):
    """Whether one tag may follow another, and what is wrong with a sentence where one does not."""

    may_follow: Callable[[str, str], bool]
    mistake: str


SCHEMES = {
    "bio": Scheme(may_follow_in_bio, "a span begins with I-"),
    "bioes": Scheme(may_follow_in_bioes, "a span is neither S-X alone nor goes from B-X to E-X"),
}


def keeps_to(scheme: str, tags: Sequence[str]) -> bool:
    """Whether the tags of a sentence keep to a scheme."""
    return all(SCHEMES[scheme].may_follow(*pair) for pair in pairwise(["O", *tags, "O"]))


def allowed_moves(scheme: str, tags: Sequence[str]) -> Tensor:
    """The moves between tags that a scheme allows, (n + 1, n + 1) bool; see `allowed` of `chain`."""
    sides = [*tags, "O"]
    return torch.tensor([[SCHEMES[scheme].may_follow(before, tag) for tag in sides] for before in sides])


def scheme_of(sentences: Sequence[tuple[str, Sequence[str]]], tags: Sequence[str], stated: str) -> str:
    """The scheme to which the tags of all sentences, each with its place, keep: "bio", "bioes" or "none". Raises
    DataError where they do not keep to the one that is `stated`."""
    if stated in SCHEMES:
        wrong = next(((place, each) for place, each in sentences if not keeps_to(stated, each)), None)
        if wrong is not None:
            what = f"{SCHEMES[stated].mistake}: {' '.join(wrong[1]):.200}"
            raise DataError(f"{wrong[0]}: {what}; say {setting('scheme', 'none')}")
        return stated
    if stated == "none" or not mark_spans(tags):
        return "none"
    fitting = ["bioes", "bio"] if any(span_letter(tag) in "ES" for tag in tags) else ["bio"]
    return next((scheme for scheme in fitting if all(keeps_to(scheme, each) for _, each in sentences)), "none")
