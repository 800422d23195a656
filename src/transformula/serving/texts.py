"""A text that a client asked for: made by a worker, told of piece by piece or as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..generation import StoppingStream
from ..generation.continuous import TextRequest, Token
from ..generation.decoding import Constraint
from ..generation.settings import SamplingSettings
from ..tokenizers.base import Tokenizer
from .worker import ModelWorker


class TextPiece(NamedTuple):
    """What became certain of a text: characters, and the tokens that were chosen since the piece before."""

    text: str
    tokens: Sequence[Token]


class Ending(NamedTuple):
    """How a text ended: "stop" or "length", and an error where there was one; how many tokens were written, and how
    many of the prompt were not read again."""

    reason: str
    error: Exception | None
    written: int
    reused: int


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a text.

    prompt     its tokens
    most       tokens that are written at most
    apart      what is written is a text of its own, not the rest of one with the prompt
    top_logprobs  with each token the log probabilities of so many, None: none
    """

    prompt: Sequence[int]
    settings: SamplingSettings
    most: int
    apart: bool = False
    top_logprobs: int | None = None
    bias: Mapping[int, float] = field(default_factory=dict)
    presence: float = 0.0
    frequency: float = 0.0
    constraint: Constraint | None = None


class Text:
    """A text in the making. `streamed`: pieces are told as they are written, else one at the end. Who stops listening
    calls `cancel`."""

    def __init__(self, worker: ModelWorker, tokenizer: Tokenizer, wanted: Wanted, streamed: bool) -> None:
        self._worker, self._streamed = worker, streamed
        self._events: asyncio.Queue[TextPiece | Ending] = asyncio.Queue()
        pieces = tokenizer.stream(() if wanted.apart else wanted.prompt)
        self._stream = StoppingStream(pieces, stop=wanted.settings.stop, end=tokenizer.ends)
        self._tokens: list[Token] = []
        self._text = ""
        self._listens = wanted.top_logprobs is not None
        self.ended = False
        self.request = TextRequest(
            list(wanted.prompt), wanted.settings, wanted.most, self._on_token, self._on_end, wanted.top_logprobs,
            wanted.bias, wanted.presence, wanted.frequency, wanted.constraint,
        )  # fmt: skip

    def start(self) -> None:
        self._worker.load += 1
        self._worker.write(self.request)

    def cancel(self) -> None:
        self.request.canceled = True

    async def events(self) -> AsyncIterator[TextPiece | Ending]:
        """Pieces, then the ending."""
        while True:
            event = await self._events.get()
            yield event
            if isinstance(event, Ending):
                return

    # In the worker's thread ------------------------------------------------------------------------------------------

    def _on_token(self, token: Token) -> bool:
        if self._listens:
            self._tokens.append(token)
        self._add(self._stream.push(token.id))
        return self._stream.finished

    def _add(self, text: str) -> None:
        self._text += text
        if self._streamed and text:
            self._tell_piece()

    def _tell_piece(self) -> None:
        self._worker.tell(self._events.put_nowait, TextPiece(self._text, self._tokens))
        self._text, self._tokens = "", []

    def _on_end(self, error: Exception | None) -> None:
        stopped = self._stream.finished or (
            error is None and len(self.request.tokens) - self.request.prompt < self.request.most
        )
        self._text += self._stream.close()
        if self._text or self._tokens or not self._streamed:
            self._tell_piece()
        written = len(self.request.tokens) - self.request.prompt
        self._worker.counts.written_tokens += written
        reason = "stop" if stopped else "length"
        self._worker.tell(self._finish, Ending(reason, error, written, self.request.reused))

    # In the event loop -----------------------------------------------------------------------------------------------

    def _finish(self, ending: Ending) -> None:
        self.ended = True
        self._worker.load -= 1
        self._events.put_nowait(ending)
