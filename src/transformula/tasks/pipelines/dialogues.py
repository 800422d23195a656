"""The reply to a message, or to a dialogue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...data.conversations import REPLIES
from ...generation.settings import ReplySettings
from ..dialogue import Chat
from ..pipeline import Pipeline, pipeline
from ..replies import TemplatedChat
from .texts import TRIED_TOKENS, decoding

BY_TEMPLATE = "the chat template of others is a program, which this package renders within limits"


@pipeline("templated-chat")
class TemplatedChatPipeline(Pipeline[TemplatedChat]):
    settings = {"max_tokens": TRIED_TOKENS}

    @property
    def unscripted(self) -> str:
        return BY_TEMPLATE


@pipeline("chat")
class ChatPipeline(Pipeline[Chat]):
    settings = {"max_tokens": TRIED_TOKENS}

    def __init__(self, predictor: Chat) -> None:
        super().__init__(predictor)
        room = predictor.room(ReplySettings(max_tokens=TRIED_TOKENS))
        self.tried = {"max_tokens": TRIED_TOKENS, "room": room}

    def plain(self) -> dict[str, Any]:
        kind = self.predictor
        return {
            "roles": {role: ids.tolist() for role, ids in kind.marks.items()},
            "end": kind.end,
            "ends": sorted(kind.tokenizer.ends),
            "context": kind.context,
            "most": kind.context,
            "cut": "the oldest messages",
            "room": kind.room(ReplySettings()),
            "max_tokens": kind.usual()[1],
            "decoding": "greedy, behind the end and all messages, each with the ids of its role before it and the end"
            " after it, and the ids of who replies",
            **decoding(kind.tokenizer),
        }

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        """And dialogues."""
        roles = ["user", REPLIES, "user"] if REPLIES in self.predictor.template else ["user"]
        dialogues = [
            [{"role": role, "content": text} for role, text in zip(roles, texts[first:], strict=False)]
            for first in range(0, max(0, len(texts) - 2), 2)
        ]
        return [*texts, *map(json.dumps, dialogues)]

    def inputs(self, lines: Sequence[str]) -> list[Any]:
        return [json.loads(line) if line.startswith('[{"') else line for line in lines]
