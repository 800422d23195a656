"""Messages: who speaks in a dialogue, and what is said, as files have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from unicodedata import category

from ..errors import DataError
from .format import kind_of
from .lines import shown

Message = dict[str, str]  # {"role": "user", "content": "Hello."}

# Names of the role, and of what is said, in the layouts of chat messages and of ShareGPT.
LAYOUTS = (("role", "content"), ("from", "value"), ("speaker", "text"), ("speaker", "utterance"))
ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant", "chatbot": "assistant"}
SIGNS = frozenset(" _-.,'()&/+#@")  # which a role may hold beside letters and digits: with none of them a turn begins
LONGEST = 64  # characters of a role
EXPECTED = """expected {"role": "user", "content": "..."}, {"from": "human", "value": "..."} or ["USER", "..."]"""


def messages_of(value: Any, place: str) -> list[Message]:
    """The messages of a dialogue: a list of objects with `role` and `content` (or `from` and `value`), or of pairs of
    these. Roles, each a line of letters and digits, are lowercased; a human is the `user`, a gpt, bot or model the
    `assistant`; and so is a system that replies, in a dialogue of which no other is the assistant. Raises DataError
    with the message that is none."""
    if not isinstance(value, (list, tuple)):
        raise DataError(f"{place}: the messages are {kind_of(value)}; expected a list of them")
    messages = [_message(each, f"{place}, message {number}") for number, each in enumerate(value, 1)]
    roles = Counter(message["role"] for message in messages[1:])
    if roles["system"] and "assistant" not in roles:
        return [{**message, "role": message["role"].replace("system", "assistant")} for message in messages]
    return messages


def _message(value: Any, place: str) -> Message:
    if isinstance(value, Mapping):
        pair = next(([value[key] for key in keys] for keys in LAYOUTS if all(key in value for key in keys)), None)
    else:
        pair = list(value) if isinstance(value, (list, tuple)) and len(value) == 2 else None
    if pair is None or not all(isinstance(each, str) for each in pair):
        raise DataError(f"{place}: is {shown(repr(value))}; {EXPECTED}")
    role = pair[0].strip().lower()
    if not 0 < len(role) <= LONGEST or not all(sign in SIGNS or category(sign)[0] in "LMN" for sign in role):
        raise DataError(
            f"{place}: the role is {shown(pair[0])}; expected one line of letters and digits, at most {LONGEST}, such"
            " as user: another role could be read as a turn of its own"
        )
    return {"role": ROLES.get(role, role), "content": pair[1]}


def texts_in(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """(where it stands, text) of all texts in a value as JSON has them, the names in objects too: a message may nest,
    and all of it may come before a model. 'tool_calls.1.function.name' is of the first call."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield name or "a name", str(key)
            yield from texts_in(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value, 1):
            yield from texts_in(each, f"{name}.{number}")
