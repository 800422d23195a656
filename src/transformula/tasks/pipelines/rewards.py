"""The number of a reply."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...data.conversations import REPLIES
from ..pipeline import Pipeline, pipeline
from ..rewards import SEPARATOR, ReplyScorer, TemplatedReplyScorer
from .dialogues import BY_TEMPLATE


@pipeline("templated-reply-scorer")
class TemplatedRewardPipeline(Pipeline[TemplatedReplyScorer]):
    @property
    def unscripted(self) -> str:
        return BY_TEMPLATE


@pipeline("reply-scorer")
class RewardPipeline(Pipeline[ReplyScorer]):
    def plain(self) -> dict[str, Any]:
        kind = self.predictor
        return {
            "roles": {role: ids.tolist() for role, ids in kind.chat.marks.items()},
            "end": kind.chat.end,
            "replies": REPLIES,
            "most": kind.context,
            "cut": "the oldest messages, then the end of the reply",
            "separator": SEPARATOR,
            "decoding": "the number at the last position, behind the end and all messages, each with the ids of its"
            " role before it and the end after it; the last message is the reply",
        }

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        """And dialogues."""
        roles = ["system" if "system" in self.predictor.template else "user", "user", REPLIES]
        dialogues = [
            [{"role": role, "content": text} for role, text in zip(roles, texts[first:], strict=False)]
            for first in range(0, max(0, len(texts) - 2), 3)
        ]
        pairs = [f"{one}{SEPARATOR}{other}" for one, other in pairwise(texts)]
        return [*pairs, f"{texts[-1]}{SEPARATOR}{texts[-1]}", *map(json.dumps, dialogues)]

    def inputs(self, lines: Sequence[str]) -> list[Any]:
        return [json.loads(line) if line.startswith('[{"') else line for line in lines]
