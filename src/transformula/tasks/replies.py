"""What replies to dialogues: by what it learned of them here, or by the chat template of a model of others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data.conversations import REPLIES
from ..data.lines import shown
from ..data.messages import Message, messages_of, texts_in
from ..errors import InputError, setting
from ..generation.settings import ReplySettings, SamplingSettings
from ..tokenizers.base import Tokenizer
from ..tokenizers.pretrained import Pretrained
from .base import Progress
from .learned_parts import PartlyLearned, text_scores
from .predictor import Answer, Predictor, predictor
from .writing import end_of, written_after

AT_ONCE = 64  # replies that are written together
LONGEST = 256  # tokens of a reply of a model of others, at most, where nothing is said


@dataclass(frozen=True)
class Reply(Answer):
    """A reply.

    score  log P of a token of it, on average
    ended  it came to the end of its turn; else it was cut at the maximum number of tokens
    note   what of the dialogue the model could not read
    """

    ended: bool = True
    note: str = ""


class Replying(Predictor):
    """A dialogue, a list of messages -> the next reply."""

    tokenizer: Tokenizer
    settings = ReplySettings

    @property
    def verb(self) -> str:
        return "chat"

    @property
    def end(self) -> int:
        return end_of(self.tokenizer)

    def of(self, model: Any) -> Replying:
        """This, as it is of a model: with how much that reads."""
        return self

    @abstractmethod
    def most(self, settings: ReplySettings) -> int:
        """Tokens of a reply, its end included, at most."""

    @abstractmethod
    def prompt(self, messages: Sequence[Message], settings: ReplySettings, most: int) -> tuple[list[int], str]:
        """What the model goes on from, and a note where it could not read all. Raises InputError."""

    @abstractmethod
    def scores(
        self, model: Any, prompts: Sequence[list[int]], replies: Sequence[str], written: Sequence[list[int]]
    ) -> list[float]:
        """Log P of a token of each reply after its prompt, on average, its end included."""

    def check_roles(self, messages: Sequence[Message], place: str) -> None:
        """Raise DataError or InputError for messages that cannot be replied to."""

    def is_one(self, given: Any) -> bool:
        listed = isinstance(given, (list, tuple)) and bool(given)
        return isinstance(given, str) or (listed and all(isinstance(one, Mapping) for one in given))

    def opened(self, inputs: Sequence[Any]) -> list[list[Message]]:
        """Each input as messages; a text is a message of the user. Raises DataError, InputError."""
        histories = []
        for number, source in enumerate(inputs, 1):
            if not isinstance(source, (str, list, tuple)):
                raise InputError(f"source {number}: expected a text or a list of messages, not {source!r:.40}")
            given = [{"role": "user", "content": source}] if isinstance(source, str) else source
            messages = [one for one in messages_of(given, f"source {number}") if one["content"].strip()]
            self.check_roles(messages, f"source {number}")
            if messages and messages[-1]["role"] == REPLIES:
                raise InputError(f"source {number}: ends with a reply; leave it out, or add what is replied to")
            histories.append(messages)
        return histories

    def predict(
        self,
        models: Sequence[Any],
        inputs: Sequence[Any],
        settings: ReplySettings | None = None,
        *,
        progress: Progress | None = None,
        on_text: Callable[[int, str], None] | None = None,
    ) -> list[list[Reply]]:
        """The reply to each dialogue, a list of messages; to one without a word there is none."""
        settings, chat = settings or ReplySettings(), self.of(models[0])
        most, replies = chat.most(settings), [[Reply("")] for _ in inputs]
        plain = settings.model_dump(exclude={"system", "seed", "max_tokens"})
        rows = [row for row, messages in enumerate(inputs) if messages]
        for first in range(0, len(rows), AT_ONCE):
            some = rows[first : first + AT_ONCE]
            prompts, notes = zip(*(chat.prompt(inputs[row], settings, most) for row in some), strict=True)
            drawing = SamplingSettings(**plain, seed=settings.seed + first, max_tokens=most)
            apart = not self.continues
            written = written_after(models[0], self.tokenizer, prompts, drawing, on_text, apart=apart)
            texts, ids = [one.text for one in written], [one.ids for one in written]
            scores = chat.scores(models[0], prompts, texts, ids)
            for row, one, note, score in zip(some, written, notes, scores, strict=True):
                replies[row] = [Reply(one.text, score, one.ended, note)]
            if progress is not None:
                progress(some[-1] + 1, len(inputs))
        return replies

    def conversation(self, model: Any, settings: ReplySettings) -> Conversation:
        return Conversation(self, model, settings)


class Conversation:
    """A dialogue that goes on: `reply` adds a message and its reply to `messages`."""

    def __init__(self, chat: Replying, model: Any, settings: ReplySettings) -> None:
        self.chat, self.model, self.settings = chat, model, settings
        self.messages: list[Message] = []

    def reply(self, text: str, on_text: Callable[[str], None]) -> Reply:
        """The reply to a message; `on_text` is called with each piece of it as it is written."""
        messages = [*self.messages, *self.chat.opened([text])[0]]
        ((reply,),) = self.chat.predict(
            [self.model], [messages], self.settings, on_text=lambda _, piece: on_text(piece)
        )
        self.messages = [*messages, {"role": REPLIES, "content": reply.text}]
        return reply


@predictor("templated-chat")
@dataclass(frozen=True)
class TemplatedChat(Replying):
    """Replies by the chat template of the tokenizer's folder; texts it goes on with like any other. Its folder is known
    by the tokenizer alone.

    context  tokens that the model reads at most; None where that is not known
    """

    tokenizer: Pretrained
    context: int | None = None

    method = "generate"

    @property
    def continues(self) -> bool:
        return True

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)

    def of(self, model: Any) -> TemplatedChat:
        context = getattr(getattr(model, "architecture", None), "numbers", {}).get("context")
        return replace(self, context=None if context is None else int(context))

    def most(self, settings: ReplySettings) -> int:
        return settings.max_tokens or (LONGEST if self.context is None else max(1, min(LONGEST, self.context // 2)))

    def check_roles(self, messages: Sequence[Message], place: str) -> None:
        """Raise InputError for a message that names a special token, whatever part of it does, as the template may
        print each: it could end its turn, and begin another's."""
        for number, message in enumerate(messages, 1):
            for key, text in texts_in(message):
                name = self.tokenizer.special_in(text)
                if name is not None:
                    where = "" if key == "content" else f" in {shown(key)}"
                    raise InputError(
                        f"{place}: message {number} holds {name}{where}, which to this model is no text but a sign of"
                        " its own: take it out, or write it otherwise"
                    )

    def prompt(self, messages: Sequence[Message], settings: ReplySettings, most: int) -> tuple[list[int], str]:
        """What the template makes of the messages; the oldest are left out where they do not fit."""
        assert self.tokenizer.chat is not None
        begun = next((n for n, one in enumerate(messages) if one["role"] != "system"), 0)
        system = [] if settings.system is None else [{"role": "system", "content": settings.system}]
        self.check_roles(system, "system")
        asked = [n for n, one in enumerate(messages) if n >= begun and one["role"] == "user"] or [begun]
        for first in asked:
            kept = [*system, *messages[:begun], *messages[first:]]
            ids = self.tokenizer.encode_special(self.tokenizer.chat.render(kept), template=False)
            if self.context is None or len(ids) + most <= self.context:
                note = f"the oldest messages were left out: the model reads {self.context} tokens"
                return ids, "" if first == asked[0] else note
        raise InputError(
            f"the dialogue has {len(ids)} tokens, and a reply may have {most}: together more than the {self.context}"
            f" that the model reads; shorten it, or the reply: {setting('max_tokens', str(max(1, most // 4)))}"
        )

    def scores(
        self, model: Any, prompts: Sequence[list[int]], replies: Sequence[str], written: Sequence[list[int]]
    ) -> list[float]:
        wholes = [np.array([*prompt, *ids]) for prompt, ids in zip(prompts, written, strict=True)]
        firsts = [np.arange(1, len(whole)) >= len(prompt) for whole, prompt in zip(wholes, prompts, strict=True)]
        texts = [PartlyLearned(whole, learned) for whole, learned in zip(wholes, firsts, strict=True)]
        return [-score.nats / score.tokens for score in text_scores(model, texts)]
