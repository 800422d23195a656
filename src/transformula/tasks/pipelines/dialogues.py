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
from .texts import TRIED, decoding


@pipeline("templated-chat")
class TemplatedChatPipeline(Pipeline[TemplatedChat]):
    @property
    def unscripted(self) -> str:
        return "the chat template of others is a program, which this package renders within limits"

    def answers(self, module: Any, lines: Sequence[str]) -> list[str]:
        return [best.text for best in self.predicted(module, lines, max_tokens=TRIED)]


@pipeline("chat")
class ChatPipeline(Pipeline[Chat]):
    def __init__(self, predictor: Chat) -> None:
        super().__init__(predictor)
        self.tried = {"max_tokens": TRIED, "room": predictor.room(self._settings(TRIED))}

    def _settings(self, most: int | None = None) -> ReplySettings:
        return ReplySettings(max_tokens=most)

    def plain(self) -> dict[str, Any]:
        kind = self.predictor
        return {
            "roles": {role: ids.tolist() for role, ids in kind.marks.items()},
            "end": kind.end,
            "ends": sorted(kind.tokenizer.ends),
            "context": kind.context,
            "most": kind.context,
            "cut": "the oldest messages",
            "room": kind.room(self._settings()),
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

    def answers(self, module: Any, lines: Sequence[str]) -> list[str]:
        dialogues = [json.loads(line) if line.startswith('[{"') else line for line in lines]
        answers = self.predictor.predict([module], self.predictor.opened(dialogues), self._settings(TRIED))
        return [best.text for best, *_ in answers]
