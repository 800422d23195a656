"""Conversations: rows of messages, or of an instruction and its answer, as records of one kind.

    messages, conversations or turns     a list of messages, in the layouts that `messages` reads; the tools that may be
                                         called are listed in `tools`, where a row has them
    instruction, input, output           a question, what it is about (which may be empty), and the answer; also, as
                                         Dolly has it, instruction, context, response
    prompt, completion                   texts, or lists of messages; also prompt, response

Where a row has a text in `system`, it stands before the messages. A record holds them as its field `messages`: a list
of {"role": ..., "content": ...}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ..errors import ConfigError, DataError, setting
from .lines import BadRows, skip_or_raise
from .messages import ASSISTANT, Message, check_results, message_text, system_of
from .records import BadRecord, Record, Records, columns_in_words, columns_of, read_records

REPLIES = ASSISTANT  # who replies
COLUMNS = ("messages", "conversations", "turns")
INSTRUCTIONS = (("instruction", "input", "output"), ("instruction", "context", "response"))
COMPLETIONS = (("prompt", "completion"), ("prompt", "response"))


def read_conversations(
    sources: str | Path | Sequence[str | Path],
    column: str | None = None,
    notes: list[str] | None = None,
    **reading: Any,
) -> Iterator[Record]:
    """The conversations of files, without messages of white space. The group of a record is what precedes its first
    reply to anything, whatever tools it lists, so that no split asks on one side what is answered on the other.

    column   that of the messages; by default one of those above, or an instruction with its answer
    notes    to these is added, in the end, what a person is told of the files
    reading  see `Options`

    Raises DataError, with the row; ConfigError for files without such columns.
    """
    names, _ = columns_of(sources, **{key: value for key, value in reading.items() if key != "empty"})
    column = next((name for name in COLUMNS if name in names), None) if column is None else column
    records, messages_of_record = _reader(names, column, sources, reading)
    for record in records:
        if isinstance(record, BadRecord):
            yield record
            continue
        messages: Any = [
            {**message, "content": message["content"].strip()}
            for message in messages_of_record(record)
            if message_text(message).strip()
        ]
        begun = next((n for n, one in enumerate(messages) if one["role"] != REPLIES), len(messages))
        asked = next((n for n, one in enumerate(messages) if n > begun and one["role"] == REPLIES), len(messages))
        before = (message for message in messages[:asked] if "tools" not in message)
        group = [{"role": message["role"], "content": message_text(message)} for message in before]
        yield Record({"messages": messages}, record.place, str(group), record.row)
    if notes is not None:
        notes += [f"{records.name}: {records.tally}"] if records.tally.empty else []
        notes += records.notes


def _reader(
    names: Sequence[str], column: str | None, sources: Any, reading: Mapping[str, Any]
) -> tuple[Records, Callable[[Record], list[Message]]]:
    """The records of files with these columns, and how each becomes messages. Raises ConfigError."""
    if column is not None:
        return read_records(sources, {"messages": column}, kinds={"messages": "messages"}, **reading), messages_in
    for asked, about, answer in INSTRUCTIONS:
        if asked in names and answer in names:
            given = {"instruction": asked, "input": about, "output": answer, "system": "system"}
            fields = {field: name for field, name in given.items() if name in names}
            return read_records(sources, fields, optional=["input", "system"], **reading), of_instruction
    for asked, answer in COMPLETIONS:
        if asked in names and answer in names:
            kinds = {"prompt": "asked", "completion": "replied"}
            return read_records(sources, {"prompt": asked, "completion": answer}, kinds=kinds, **reading), of_completion
    raise ConfigError(
        f"column: {columns_in_words(sources, names)}; expected {', '.join(COLUMNS)}, or instruction and output, or"
        f" prompt and completion; say which holds the messages: {setting('column', names[0])}"
    )


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
    asked = "\n\n".join(filter(str.strip, (str(record.get(name, "")) for name in ("instruction", "input"))))
    messages: list[Message] = [{"role": "user", "content": asked}, {"role": REPLIES, "content": str(record["output"])}]
    return [*system_of(record, messages), *messages]


def of_completion(record: Record) -> list[Message]:
    """A prompt and its completion. Of replies in the prompt none is learned."""
    prompt, completion = (cast(list[Message], record[name]) for name in ("prompt", "completion"))
    messages = [*({**one, "weight": 0} if one["role"] == REPLIES else one for one in prompt), *completion]
    check_results(messages, record.place)
    return messages
