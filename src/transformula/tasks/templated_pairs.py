"""Replies to one prompt as the chat template of a tokenizer's folder writes them: pairs, and replies that are scored.

    before   what the template writes of the prompt and asks for a reply with: one part, the same for each reply
    reply    what it writes behind that, up to the end of the turn; of it counts what the template marks by
             {% generation %}, and all where it marks nothing

A prompt that is too long beside its replies loses its oldest messages, up to one of the user, and no message is cut.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.messages import Message
from ..data.records import Record
from ..errors import InputError
from .learned_parts import PartlyLearned
from .preference_pairs import SIDES, Fitted
from .replies import TemplatedChat
from .templated_dialogues import Part, beginnings, encoded_parts, given_messages, parts_of_dialogue, row_refused


def templated_pair(record: Record, chat: TemplatedChat) -> Fitted | None:
    """A pair as a model reads it; None where the context has no room for its prompt. Raises DataError for what the
    template refuses, with its place."""
    prompt, *sides = (record[name] for name in ("prompt", *SIDES))
    try:
        return fitted(chat, prompt, sides)  # type: ignore[arg-type]
    except InputError as error:
        raise row_refused(record, error) from None


def fitted(chat: TemplatedChat, prompt: Sequence[Message], replies: Sequence[Sequence[Message]]) -> Fitted | None:
    """Texts of a prompt and each of some replies, of at most `chat.context` positions; None where its latest message
    takes more than a half of them, and more than the replies leave. Raises InputError for what the template refuses."""
    assert chat.context is not None and chat.tokenizer.chat is not None
    kept, asked = beginnings(prompt)
    for older in asked or [kept]:
        read = [*prompt[:kept], *prompt[older:]]
        plain, values = given_messages(read)
        before = chat.tokenizer.chat.render(plain, True, **values)
        ids, _ = encoded_parts(chat.tokenizer, [(before, False)])
        said = [encoded_parts(chat.tokenizer, parts_behind(chat, read, reply, before)) for reply in replies]
        said = [up_to_the_end(*one) for one in said]
        room = max(chat.context - max(len(one) for one, _ in said), chat.context // 2)
        if len(ids) - 1 > room:
            continue
        left = chat.context + 1 - len(ids)
        texts = [
            PartlyLearned(
                np.array([*ids, *one[:left]], dtype=np.int32),
                np.array([*[False] * (len(ids) - 1), *counts[:left]], dtype=bool),
            )
            for one, counts in said
        ]
        return Fitted(texts, older > kept, any(len(one) > left for one, _ in said))
    return None


def up_to_the_end(ids: list[int], learned: list[bool]) -> tuple[list[int], list[bool]]:
    """A reply up to the last token that counts."""
    last = max((place + 1 for place, counts in enumerate(learned) if counts), default=0)
    return ids[:last], learned[:last]


def parts_behind(
    chat: TemplatedChat, prompt: Sequence[Message], reply: Sequence[Message], before: str
) -> list[Part]:
    """What the template writes of a reply, a message or several, behind what it asks for one with."""
    assert chat.tokenizer.chat is not None
    parts: Sequence[Part] | None
    if chat.tokenizer.chat.marks_replies or len(reply) > 1:
        parts = parts_of_dialogue(chat, [*prompt, *reply])
    else:
        plain, values = given_messages([*prompt, *reply])
        parts = [(chat.tokenizer.chat.render(plain, False, **values), True)]
    if parts is None or not "".join(text for text, _ in parts).startswith(before):
        raise InputError("the chat template writes a reply otherwise than behind what it asks for one with")
    behind, known = [], len(before)
    for text, says in parts:
        behind.append((text[known:], says))
        known = max(0, known - len(text))
    return [(text, says) for text, says in behind if text]
