"""Dialogues with pictures: what replies is a model that answers questions about them.

A model of others reads the whole dialogue, as its chat template writes it. One that was trained here learned single
questions: it reads the last message, about the pictures that were shown last.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch

from ..data.messages import Message
from ..errors import InputError, setting
from ..generation.settings import ReplySettings
from ..generation.steps import device_of, logits_of
from ..language.graph import Architecture
from ..model.transformer import evaluating
from .base import Progress
from .picture_answering import MESSAGES, PictureAnswering, ids_asked
from .picture_messages import pictured_messages, plain_messages
from .picture_rows import each_of, opened_picture
from .predictor import Predictor, predictor
from .replies import MAX_REPLY_TOKENS, PICTURE, Prompt, Reply, Replying, ReplyWritten, TemplatedChat

SHOWN = "pictures"  # of a message, beside its content
ONE_QUESTION = "older messages are not read: this model answers one question at a time"


class SeeingChat(Replying):
    """What replies to messages with pictures. A message has its pictures beside its text, and they stand before it."""

    answering: PictureAnswering
    reads = "both"

    @classmethod
    def view(cls, predictor: Predictor | None, architecture: Architecture) -> Any:
        """What chats by a model: that itself, where it answers no questions about pictures."""
        if not isinstance(predictor, PictureAnswering):
            return predictor
        context = architecture.numbers.get("context")
        kind: Any = TemplatedSeeing if predictor.templated else QuestionChat
        return kind(predictor.target, None if context is None else int(context), predictor)

    def of(self, model: Any) -> Self:
        return self

    def opened(self, inputs: Sequence[Any]) -> list[list[Message]]:
        """Each input as messages: a text, a list of messages, whose parts may be pictures, or an object with `messages`
        and `picture`, one or several of the last message. Raises DataError, InputError."""
        return [opened_dialogue(self, each, f"source {number}") for number, each in enumerate(inputs, 1)]

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: ReplySettings | None = None, *,
        progress: Progress | None = None, on_text: Callable[[int, str], None] | None = None,
    ) -> list[list[Reply]]:  # fmt: skip
        settings = settings or ReplySettings()
        for key in ("tools", "tool_choice", "speculate"):
            if getattr(settings, key):
                raise InputError(f"{setting(key)}: a model that reads pictures does not follow it; leave it out")
        return super().predict(models, inputs, settings, progress=progress, on_text=on_text)

    @abstractmethod
    def inputs(self, messages: Sequence[Message], prompt: Prompt) -> Mapping[str, Any]:
        """What the model is given beside the prompt of a dialogue, by name."""

    def scores(self, model: Any, replies: Sequence[ReplyWritten]) -> list[float]:
        view, device, scores = evaluating(model), device_of(model), []
        for reply, ids in zip(replies, self.replied([one.written for one in replies]), strict=True):
            prompt = reply.prompt
            whole = torch.tensor([[*prompt.ids, *ids]], device=device)
            if self.context is not None:
                whole = whole[:, : self.context + 1]
            given = {name: each.to(device) for name, each in reply.inputs.items()}
            given = {name: each if len(each) else each.new_zeros(1, *each.shape[1:]) for name, each in given.items()}
            with torch.no_grad():
                logits = logits_of(model, view(tokens=whole[:, :-1], **given)).float()
            logs = logits.log_softmax(-1).gather(2, whole[:, 1:, None])[0, len(prompt.ids) - 1 :]
            scores.append(float(logs.mean()))
        return scores


def shown_last(messages: Sequence[Message]) -> list[Any]:
    """The pictures of the last message that has some."""
    return next((list(one[SHOWN]) for one in reversed(messages) if SHOWN in one), [])


@predictor("picture-chat")
@dataclass(frozen=True)
class QuestionChat(SeeingChat):
    """Answers each message as a question about the pictures that were shown last."""

    tokenizer: Any
    context: int | None
    answering: PictureAnswering

    def usual(self) -> tuple[int, int]:
        return self.answering.usual, self.answering.usual

    def prompt(self, messages: Sequence[Message], settings: ReplySettings) -> Prompt:
        for role in ("system", "tool"):
            if (role == "system" and settings.system) or any(one["role"] == role for one in messages):
                raise InputError(f"this model learned to answer questions, and reads no message of the role {role}")
        shown = shown_last(messages)
        if not shown:
            raise InputError("this model answers questions about a picture, and none is shown: --picture FILE, or in a"
                             " conversation /picture FILE")  # fmt: skip
        source = {"question": messages[-1]["content"], "picture": shown}
        (ids,) = self.answering.ids([source])
        if self.context is not None and len(ids) > self.context:
            raise InputError(
                f"the question and its pictures have {len(ids)} tokens, and the model has learned {self.context}"
                " positions: shorten it, or show fewer"
            )
        older = len(messages) - 1
        return Prompt(ids.tolist(), ONE_QUESTION if older else "", older)

    def inputs(self, messages: Sequence[Message], prompt: Prompt) -> Mapping[str, Any]:
        return {"image": self.answering.pictures([{"picture": shown_last(messages)}])[0]}


@dataclass(frozen=True)
class TemplatedSeeing(SeeingChat, TemplatedChat):
    """Replies to a whole dialogue by the chat template of its folder."""

    answering: PictureAnswering = None  # type: ignore[assignment]

    method = "predict"
    continues = False

    def usual(self) -> tuple[int, int]:
        return MAX_REPLY_TOKENS, MAX_REPLY_TOKENS

    def begun(self, messages: Sequence[Message], tools: Mapping[str, Any]) -> Prompt:
        parts = [
            {**one, "content": [*({"type": "image", "image": each} for each in one.get(SHOWN, ())),
                                {"type": "text", "text": one["content"]}]}
            for one in messages
        ]  # fmt: skip
        shown = [each for one in messages for each in one.get(SHOWN, ())]
        plain = [{key: each for key, each in one.items() if key != SHOWN} for one in plain_messages(parts)]
        return Prompt(ids_asked(self.answering, {"question": "", "picture": shown, MESSAGES: plain}))

    def inputs(self, messages: Sequence[Message], prompt: Prompt) -> Mapping[str, Any]:
        """The pictures of the messages that are read: those that are left out are the oldest that no system says."""
        begun = next((n for n, one in enumerate(messages) if one["role"] != "system"), 0)
        read = [*messages[:begun], *messages[begun + prompt.left_out :]]
        shown = [each for one in read for each in one.get(SHOWN, ())]
        return {"image": self.answering.pictures([{"picture": shown}])[0]}


def opened_dialogue(chat: SeeingChat, given: Any, place: str) -> list[Message]:
    """An input as messages. Raises InputError, DataError."""
    row = dict(given) if isinstance(given, Mapping) else {MESSAGES: given}
    pictures = [opened_picture(chat.answering, one, place) for one in each_of(row.pop(PICTURE, []))]
    if {*row} != {MESSAGES}:
        what = f"{place}: a model that reads pictures is given `messages` and `picture` and nothing else"
        raise InputError(f"{what}; here: {', '.join(key for key in map(str, row) if key != MESSAGES) or PICTURE}")
    messages = []
    for one in pictured_messages(row[MESSAGES], place):
        texts = [part["text"] for part in one["content"] if "text" in part]
        shown = [opened_picture(chat.answering, part["image"], place) for part in one["content"] if "image" in part]
        messages.append({**one, "content": "\n".join(texts), **({SHOWN: shown} if shown else {})})
    if messages and pictures:
        messages[-1] = {**messages[-1], SHOWN: [*pictures, *messages[-1].get(SHOWN, [])]}
    messages = [one for one in messages if one["content"].strip() or SHOWN in one]
    chat.check_roles(messages, place)
    if messages and (messages[-1]["role"] != "user" or not messages[-1]["content"].strip()):
        raise InputError(f"{place}: expected a message of the user at the end, with a text: ask something")
    return messages
