"""Dialogues about pictures, as LLaVA's files and their kin have them, as rows of a question and its answer.

    {"image": "1.jpg", "conversations": [{"from": "human", "value": "<image>\\nWhat is it?"}, {"from": "gpt", ...}]}
    {"images": [...], "messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", ...}]}, ...]}
"""

from __future__ import annotations

from collections.abc import Sequence

from ..data.conversations import is_reply, messages_in
from ..data.messages import SYSTEM, message_text
from ..data.records import Record
from ..errors import DataError

SIGN = "<image>"  # stands in a text where its picture is shown


def first_questions(rows: Sequence[Record], key: str, notes: list[str]) -> list[Record]:
    """Each dialogue's first question, with its answer, in the fields `source` and `target`. What a user asks later
    depends on what was said before: such replies are left out and counted, and so is what the system says. Raises
    DataError for a dialogue that does not begin with a question and a reply."""
    questions, later, above = [], 0, 0
    for row in rows:
        messages = messages_in(row)
        said = [one for one in messages if one["role"] != SYSTEM]
        if [is_reply(one) for one in said[:2]] != [False, True]:
            raise DataError(f"{row.place}: the dialogue does not begin with a question and its reply: take the row out")
        source, target = (message_text(one) for one in said[:2])
        held = {name: row.held(name) for name in row if name != "messages"}
        values = {**held, "source": source.replace(SIGN, "").strip(), "target": target}
        questions.append(Record(values, row.place, row.group, row.row))
        later += sum(map(is_reply, said[2:]))
        above += len(messages) - len(said)
    counted = {"later replies of dialogues": later, "messages of the system": above}
    notes += [f"{key}: {count:,} {what}: left out" for what, count in counted.items() if count]
    return questions
