"""Dialogues as the chat template of a tokenizer's folder writes them, and which tokens of them are replies.

Which parts are replies is what the template marks by {% generation %}. One without these marks is asked twice for each
reply: what it writes of the messages before, up to where the reply begins, and what it writes of them and the reply.
Parts are encoded each for itself, as a reply is written behind what was encoded before it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from ..data.conversations import REPLIES, is_reply, messages_in
from ..data.messages import Message, message_text
from ..data.records import Record
from ..data.splits import SplitRows
from ..errors import ConfigError, DataError, InputError, setting
from .learned_parts import PartlyLearned
from .replies import TemplatedChat, tools_in
from .turns import TooLong, Turn

Part = tuple[str, bool]  # text, and whether it is learned


class TemplatedDialogues:
    """The dialogues of a split, each as a text, or as several where a context does not hold it, or where the template
    writes a reply otherwise once others follow: then each reply ends a text of its own."""

    def __init__(self, records: Sequence[Record], chat: TemplatedChat, context: int) -> None:
        self.records, self.chat, self.context = records, chat, context
        cut = [self._texts_of(record) for record in records]
        self._texts, left_out = [texts for texts, _ in cut], sum(count for _, count in cut)
        self.too_long = TooLong(left_out, 0)

    def texts(self, learn: str = "replies") -> list[PartlyLearned]:
        """All texts in which something counts."""
        texts = [text for each in self._texts for text in each if text.learned.any()]
        return texts if learn == "replies" else [text._replace(learned=np.ones_like(text.learned)) for text in texts]

    @property
    def replies(self) -> list[Turn]:
        """The tokens of all replies that count, with their ends."""
        found = []
        for text in self.texts():
            edges = np.flatnonzero(np.diff(text.learned.astype(np.int8), prepend=0, append=0))
            found += [Turn(text.ids[first + 1 : end + 1], 0, True) for first, end in edges.reshape(-1, 2)]
        return found

    def alone(self) -> list[PartlyLearned]:
        """Each reply without what precedes it."""
        first = [self.chat.end]
        return [PartlyLearned(np.concatenate([first, one.ids]), np.ones(len(one.ids), bool)) for one in self.replies]

    def part(self, rows: Sequence[int]) -> Self:
        part = copy.copy(self)
        part.records, part._texts = [self.records[row] for row in rows], [self._texts[row] for row in rows]
        return part

    def _texts_of(self, record: Record) -> tuple[list[PartlyLearned], int]:
        """The texts of a dialogue, and how many of its replies fit in none. Raises DataError for what the template
        refuses, with its place."""
        messages = messages_in(record)
        try:
            self.chat.check_roles(messages, record.place)
            parts = parts_of_dialogue(self.chat, messages)
            whole = None if parts is None else self._text(parts)
            if whole is not None and whole.positions <= self.context:
                return [whole], 0
            each = [self._fitting(messages, place) for place, one in enumerate(messages) if place and is_reply(one)]
        except InputError as error:
            raise row_refused(record, error) from None
        return [text for text in each if text is not None], sum(text is None for text in each)

    def _text(self, parts: Sequence[Part]) -> PartlyLearned:
        ids, learned = encoded_parts(self.chat.tokenizer, parts)
        return PartlyLearned(np.array(ids, dtype=np.int32), np.array(learned[1:], dtype=bool))

    def _fitting(self, messages: Sequence[Message], place: int) -> PartlyLearned | None:
        """A reply as the last message, behind as many messages as fit: the oldest ones are left out up to one of the
        user. None where it does not fit behind the last of these."""
        system, asked = beginnings(messages[:place])
        for older in asked:
            parts = _last_part(self.chat, [*messages[:system], *messages[older : place + 1]])
            text = self._text(parts)
            if text.positions <= self.context:
                return text
        return None


def row_refused(record: Record, error: InputError) -> DataError:
    """The error of a row that a template refuses, with its place."""
    known = "" if record.place in str(error) else f"{record.place}: "
    role = "; where it refuses a role, say the same in another message, such as the user's first"
    hint = role if "refuses" in str(error) else ""
    return DataError(f"{known}{error}; change the row, or leave it out{hint}")


def encoded_parts(tokenizer: Any, parts: Sequence[Part]) -> tuple[list[int], list[bool]]:
    """The tokens of parts, each encoded for itself, and whether each counts: what stands behind the end of a reply is
    not said."""
    whole: list[int] = []
    learned: list[bool] = []
    for text, says in parts:
        ids = tokenizer.encode_special(text, template=False)
        counts = max((place + 1 for place, one in enumerate(ids) if one in tokenizer.ends), default=len(ids))
        whole += ids
        learned += [says and place < counts for place in range(len(ids))]
    return whole, learned


def beginnings(messages: Sequence[Message]) -> tuple[int, list[int]]:
    """How many messages stay in any case, the list of tools and what the system says, and the places from which the
    others may be read: the first of them, and those of the user."""
    listed = len(tools_in(messages)) > 0
    system = next((n for n, one in enumerate(messages[listed:], listed) if one["role"] != "system"), len(messages))
    return system, [n for n in range(system, len(messages)) if messages[n]["role"] == "user" or n == system]


def replies_in(records: Sequence[Record]) -> list[str]:
    """All replies that are learned, as texts."""
    return [message_text(one) for row in records for one in messages_in(row) if is_reply(one)]


def chat_by_template(tokenizer: Any) -> TemplatedChat:
    """What replies by the chat template of a tokenizer. Raises ConfigError for one without."""
    if tokenizer.chat is None:
        raise ConfigError(
            "chat_template: the tokenizer has no chat template; name a folder that has one:"
            f" {setting('tokenizer', 'FOLDER')}, or leave this out: `template` then says how dialogues are written"
        )
    return TemplatedChat(tokenizer)


def by_chat_template(
    rows: SplitRows, tokenizer: Any, context: int
) -> tuple[TemplatedChat, TemplatedDialogues, TemplatedDialogues]:
    """What replies by the chat template of a tokenizer, and both sides of its data. Raises ConfigError for a tokenizer
    without one, DataError."""
    chat = chat_by_template(tokenizer)
    training, validation = (TemplatedDialogues(one, chat, context) for one in (rows.training, rows.validation))
    return chat, training, validation


def given_messages(messages: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
    """Messages as a template reads them, and the tools that they list."""
    tools = tools_in(messages)
    plain = [{key: each for key, each in one.items() if key != "weight"} for one in messages[bool(tools) :]]
    return plain, {"tools": tools} if tools else {}


def parts_of_dialogue(chat: TemplatedChat, messages: Sequence[Message]) -> list[Part] | None:
    """The text of a dialogue in parts; None where the template writes a reply otherwise once others follow. Raises
    InputError, CheckpointError."""
    assert chat.tokenizer.chat is not None
    template, (plain, values) = chat.tokenizer.chat, given_messages(messages)
    learned = [is_reply(one) for one in messages if one["role"] == REPLIES]
    if template.marks_replies:
        parts = template.render_parts(plain, **values)
        if sum(says for _, says in parts) != len(learned):
            if all(learned):
                return parts
            raise InputError("weight: the chat template does not mark each reply once, so none can be left out")
        says = iter(learned)
        return [(text, marked and next(says)) for text, marked in parts]
    whole, parts, known = template.render(plain, False, **values), [], 0
    for (before, after), counts in zip(_around(template, plain, values), learned, strict=True):
        if not whole.startswith(after) or not after.startswith(before) or len(before) < known:
            return None
        parts += [(whole[known : len(before)], False), (whole[len(before) : len(after)], counts)]
        known = len(after)
    return [(text, says) for text, says in [*parts, (whole[known:], False)] if text]


def _around(template: Any, plain: Sequence[Message], values: Any) -> Iterator[tuple[str, str]]:
    """What stands before each reply, and that with the reply."""
    for place, one in enumerate(plain):
        if one["role"] == REPLIES:
            before = template.render(plain[:place], True, **values) if place else ""
            yield before, template.render(plain[: place + 1], False, **values)


def _last_part(chat: TemplatedChat, messages: Sequence[Message]) -> list[Part]:
    """The text of a dialogue that ends with a reply, of which that reply alone is learned. Raises InputError where the
    template does not write it behind what it writes of the messages before."""
    assert chat.tokenizer.chat is not None
    plain, values = given_messages(messages)
    before = chat.tokenizer.chat.render(plain[:-1], True, **values)
    whole = chat.tokenizer.chat.render(plain, False, **values)
    if not whole.startswith(before):
        raise InputError("the chat template writes a reply otherwise than behind what it asks for one with")
    return [(before, False), (whole[len(before) :], True)]
