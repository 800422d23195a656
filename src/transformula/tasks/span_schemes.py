"""Schemes of tags that mark spans, and which tag may follow which: BIO (IOB2); BIOES and its kin, BILOU and BMES."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from ..errors import DataError, setting
from .scores.tags import SAME, TAG


def span_letter(tag: str) -> str:
    """B, I, E or S of a tag such as "B-PER", and of those of BILOU and BMES; O of any other."""
    return SAME.get(tag[0], tag[0]) if tag[1:2] == "-" and tag[0] in "BIMELSU" else "O"


def may_follow(before: str, tag: str) -> bool:
    """Whether a tag of BIOES may follow another: what B-X begins goes on with I-X to E-X, and these stand nowhere
    else."""
    begun, within = span_letter(before) in "BI", span_letter(tag) in "IE"
    return begun == within and (not begun or before[2:] == tag[2:])


def bioes_moves(tags: Sequence[str]) -> Tensor:
    """The moves that BIOES tags allow (BILOU and BMES, too), for `allowed`. (n + 1, n + 1), bool. Before the first and
    after the last tag there is no span, as at O."""
    sides = [*tags, "O"]
    return torch.tensor([[may_follow(before, tag) for tag in sides] for before in sides])


def mark_spans(tags: Sequence[str]) -> bool:
    """Whether tags mark spans: each is O, or B-X, I-X and the like."""
    return all(tag == "O" or ((parts := TAG.fullmatch(tag)) and parts[2]) for tag in tags)


def in_bio(tags: Sequence[str]) -> bool:
    """Whether no I-X stands at the beginning of a span."""
    pairs = zip(["O", *tags], tags, strict=False)
    return all(tag[:2] != "I-" or before in (tag, f"B-{tag[2:]}") for before, tag in pairs)


def in_bioes(tags: Sequence[str]) -> bool:
    """Whether each span is S-X alone, or B-X, any I-X, E-X."""
    return all(may_follow(before, tag) for before, tag in pairwise(["O", *tags, "O"]))


SCHEMES = {
    "bio": (in_bio, "a span begins with I-"),
    "bioes": (in_bioes, "a span is neither S-X alone nor goes from B-X to E-X"),
}


def scheme_of(sentences: Sequence[tuple[str, Sequence[str]]], tags: Sequence[str], stated: str) -> str:
    """The scheme to which the tags of all sentences, each with its place, keep: "bio", "bioes" or "none". Raises
    DataError where they do not keep to the one that is `stated`."""
    if stated in SCHEMES:
        keeps, what = SCHEMES[stated]
        wrong = next(((place, each) for place, each in sentences if not keeps(each)), None)
        if wrong is not None:
            raise DataError(f"{wrong[0]}: {what}: {' '.join(wrong[1]):.200}; say {setting('scheme', 'none')}")
        return stated
    if stated == "none" or not mark_spans(tags):
        return "none"
    fitting = ["bioes"] if any(span_letter(tag) in ("E", "S") for tag in tags) else []
    return next((s for s in (*fitting, "bio") if all(SCHEMES[s][0](each) for _, each in sentences)), "none")
