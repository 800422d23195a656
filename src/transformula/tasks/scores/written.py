"""What replies that a model wrote are like, whatever they should say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ...data.unicode_words import PIECE

if TYPE_CHECKING:
    from ..replies import Reply


def is_in_form(reply: Reply, template: Mapping[str, str]) -> bool:
    """Whether a reply ended, says something, and holds no mark of a role as a line."""
    marks = {text.strip() for text in template.values()}
    return reply.ended and bool(reply.text.strip()) and not marks & {line.strip() for line in reply.text.split("\n")}


def distinct_pairs(texts: Sequence[str]) -> float:
    """Distinct-2 (Li et al. 2016): different pairs of words (signs, of a script without blanks) that follow each other,
    of all such pairs; 0 for none."""
    pairs = [pair for text in texts for pair in pairwise(PIECE.findall(text))]
    return len(set(pairs)) / len(pairs) if pairs else 0.0
