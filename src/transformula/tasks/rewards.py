"""What scores replies: a model of one number, read at the last token of a dialogue and its reply."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.conversations import REPLIES
from ..data.encoded import pad_rows
from ..data.messages import Message, message_text, messages_of
from ..errors import InputError
from ..generation.steps import device_of
from ..model.transformer import evaluating
from ..tokenizers.base import Tokenizer
from ..tokenizers.pretrained import Pretrained
from .base import Progress
from .cut_rows import noted
from .dialogue import Chat
from .predictor import Answer, Predictor, predictor
from .preference_pairs import prompt_within, size_of, system_messages, text_after
from .replies import TemplatedChat, is_dialogue
from .row_predictor import like_lengths
from .templated_pairs import fitted

SEPARATOR = "\t"  # between a prompt and its reply, on one line


def at_last(output: Tensor, lengths: Tensor) -> Tensor:
    """(rows,) float32: the number of each row at its last token, of outputs (rows, length, 1); that of a pooled output,
    (rows, 1, 1)."""
    places = (lengths - 1).clamp(max=output.shape[1] - 1)
    return output[torch.arange(len(output), device=output.device), places, 0].float()


def rewards_of(model: Any, texts: Sequence[np.ndarray], progress: Progress | None = None) -> np.ndarray:
    """(texts,) float64: what a model says of token ids; texts of like lengths share a batch, which changes none."""
    view, device, rewards = evaluating(model), device_of(model), np.zeros(len(texts))
    sizes, done = np.array([len(ids) for ids in texts], dtype=np.int64), 0
    for places in like_lengths(sizes):
        tokens = pad_rows([texts[place] for place in places]).to(device)
        lengths = torch.from_numpy(sizes[places]).to(device)
        padding = {"lengths": {"tokens": lengths}} if int(lengths.min()) < tokens.shape[1] else {}
        with torch.no_grad():
            rewards[places] = at_last(view(tokens=tokens, **padding), lengths).cpu().numpy()
        done += len(places)
        if progress is not None:
            progress(done, len(texts))
    return rewards


class Scoring(Predictor):
    """A dialogue whose last message is a reply -> a number, higher for a reply that is preferred.

    task     by which it was trained
    context  tokens that it reads at most
    chat     what reads the dialogue, which the model does to its last token
    """

    task: str
    context: int
    chat: Any

    @property
    def verb(self) -> str:
        return "score"

    @abstractmethod
    def encode(self, dialogues: Sequence[Sequence[Message]]) -> tuple[list[np.ndarray], list[bool]]:
        """The tokens of dialogues, and whether each was cut. Raises InputError."""

    def is_one(self, given: Any) -> bool:
        return is_dialogue(given)

    def opened(self, inputs: Sequence[Any]) -> list[list[Message]]:
        """Each input as messages, the last of them the reply; a text has a tab before it. Raises InputError,
        DataError."""
        dialogues = []
        for number, source in enumerate(inputs, 1):
            place = f"source {number}"
            given = source.get("messages") if isinstance(source, Mapping) else source
            if isinstance(given, str):
                prompt, tab, reply = given.partition(SEPARATOR)
                if not tab:
                    raise InputError(f"{place}: has no reply: put a tab between the message and the reply to it")
                given = [{"role": "user", "content": prompt}, {"role": REPLIES, "content": reply}]
            messages = messages_of(given, place)
            self.chat.check_roles(messages, place)
            if not messages or messages[-1]["role"] != REPLIES:
                raise InputError(f"{place}: ends without a reply of the role {REPLIES}, which is what is scored")
            stripped = [{**one, "content": one["content"].strip()} for one in messages]  # as in training
            dialogues.append([*filter(message_text, stripped[:-1]), stripped[-1]])
        return dialogues

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: Any = None, *, progress: Progress | None = None
    ) -> Sequence[Sequence[Answer]]:
        texts, cut = self.encode(inputs)
        rewards = rewards_of(models[0], texts, progress).tolist()
        return noted([[Answer(f"{reward:.4f}", reward)] for reward in rewards], cut, self.context)


@predictor("reply-scorer")
@dataclass(frozen=True)
class ReplyScorer(Scoring):
    """Scores replies to dialogues by our own template: role -> the text before its messages."""

    task: str
    template: dict[str, str]
    context: int
    tokenizer: Tokenizer

    @cached_property
    def chat(self) -> Chat:
        return Chat(self.task, self.template, self.context - 1, self.context, self.tokenizer)

    def encode(self, dialogues: Sequence[Sequence[Message]]) -> tuple[list[np.ndarray], list[bool]]:
        texts, cut = [], []
        for messages, turns in zip(dialogues, self.chat.turns(dialogues), strict=True):
            *asked, reply = turns
            most = self.chat.context
            before = prompt_within(asked, system_messages(messages[:-1]), max(most - len(reply.ids), most // 2))
            left = most - size_of(before)
            texts.append(text_after(self.chat.end, before, [reply], left).ids)
            cut.append(len(reply.ids) > left or size_of(before) < size_of(asked))
        return texts, cut


@predictor("templated-reply-scorer")
@dataclass(frozen=True)
class TemplatedReplyScorer(Scoring):
    """Scores replies to dialogues as the chat template of the tokenizer's folder writes them, up to the reply's end."""

    task: str
    context: int
    tokenizer: Pretrained

    by_chat_template = True

    @cached_property
    def chat(self) -> TemplatedChat:
        return TemplatedChat(self.tokenizer, self.context - 1)

    def encode(self, dialogues: Sequence[Sequence[Message]]) -> tuple[list[np.ndarray], list[bool]]:
        texts, cut = [], []
        for messages in dialogues:
            made = fitted(self.chat, messages[:-1], [messages[-1:]])
            if made is None:
                what = f"the model reads {self.context:,} tokens, of the dialogue and its reply"
                raise InputError(f"a message is longer than there is room for before the reply: {what}; shorten it")
            texts.append(made.texts[0].ids)
            cut.append(made.prompt_cut or made.reply_cut)
        return texts, cut
