"""Conversations: rows of messages, or of an instruction and its answer, as records of one kind.

    messages, conversations or turns     a list of messages, in the layouts that `messages` reads; the tools that may be
                                         called are listed in `tools`, where a row has them
    instruction, input, output           a question, what it is about (which may be empty), and the answer

A record holds them as its field `messages`: a list of {"role": ..., "content": ...}.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from ..errors import ConfigError, DataError, setting
from .lines import BadRows, skip_or_raise
from .messages import Message, message_text
from .records import BadRecord, Record, columns_in_words, columns_of, read_records

REPLIES = "assistant"  # who replies
COLUMNS = ("messages", "conversations", "turns")
INSTRUCTION = ("instruction", "input", "output")


def read_conversations(
    sources: str | Path | Sequence[str | Path],
    column: str | None = None,
    notes: list[str] | None = None,
    **reading: Any,
) -> Iterator[Record]:
    """The conversations of files, without messages of white space. The group of a record is what precedes its first
    reply, so that no split asks on one side what is answered on the other.

    column   that of the messages; by default one of those above, or an instruction with its answer
    notes    to these is added, in the end, what a person is told of the files
    reading  see `Options`

    Raises DataError, with the row; ConfigError for files without such columns.
    """
    names, _ = columns_of(sources, **{key: value for key, value in reading.items() if key != "empty"})
    column = next((name for name in COLUMNS if name in names), None) if column is None else column
    if column is not None:
        records = read_records(sources, {"messages": column}, kinds={"messages": "messages"}, **reading)
    elif "instruction" in names and "output" in names:
        fields = [name for name in INSTRUCTION if name in names]
        records = read_records(sources, fields, optional=["input"], **reading)
    else:
        raise ConfigError(
            f"column: {columns_in_words(sources, names)}; expected {', '.join(COLUMNS)}, or"
            f" instruction and output; say which holds the messages: {setting('column', names[0])}"
        )
    for record in records:
        if isinstance(record, BadRecord):
            yield record
            continue
        messages: Any = [
            {**message, "content": message["content"].strip()}
            for message in (messages_in(record) if column else of_instruction(record))
            if message_text(message).strip()
        ]
        asked = next((n for n, one in enumerate(messages) if one["role"] == REPLIES), len(messages))
        group = [{"role": message["role"], "content": message_text(message)} for message in messages[:asked]]
        yield Record({"messages": messages}, record.place, str(group), record.row)
    if notes is not None:
        notes += records.notes


def read_histories(path: Path, column: str | None = None, bad_rows: BadRows = None) -> Iterator[Record]:
    """The conversations of a file, as the field `source`, up to the last message that is no reply: what is to be
    replied to."""
    for record in read_conversations(path, column, empty="keep", whole=True, bad_rows=bad_rows):
        if isinstance(record, BadRecord):
            yield record
            continue
        messages = messages_in(record)
        while messages and messages[-1]["role"] == REPLIES:
            messages = messages[:-1]
        if messages:
            yield Record({"source": messages}, record.place, row=record.row)
        else:
            error = DataError(f"{record.place}: holds no message that could be replied to")
            yield BadRecord(skip_or_raise(error, bad_rows), record.place, record.row)


def messages_in(record: Record) -> list[Message]:
    """The messages of a record."""
    return cast(list[Message], record["messages"])


def is_reply(message: Message) -> bool:
    """Whether a message is a reply that is learned: one of the weight 0 is read alone."""
    return bool(message["role"] == REPLIES and message.get("weight", 1))


def of_instruction(record: Record) -> list[Message]:
    """An instruction, with what it is about, as the user's message; the output as the reply."""
    asked = "\n\n".join(filter(str.strip, (str(record.get(name, "")) for name in INSTRUCTION[:2])))
    return [{"role": "user", "content": asked}, {"role": REPLIES, "content": str(record["output"])}]
