"""Messages: who speaks in a dialogue, and what is said, as files have them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unicodedata import category

from ..errors import DataError
from ..structured import Malformed, parse_json
from .format import kind_of
from .lines import excerpt

Message = dict[str, Any]
"""{"role": "user", "content": "Hello."}, and what else a message has: "tool_calls", "name", ..."""

# Names of the role, and of what is said, in the layouts of chat messages and of ShareGPT.
LAYOUTS = (("role", "content"), ("from", "value"), ("speaker", "text"), ("speaker", "utterance"))
ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant", "chatbot": "assistant"}
ROLES |= {"function": "tool", "observation": "tool", "tool_response": "tool"}  # what a call gave, by other names
ROLES |= {"developer": "system"}  # OpenAI's later name
CALLERS = ("function_call", "tool_call")  # roles of a message whose whole text is a call of the assistant, as JSON
SIGNS = frozenset(" _-.,'()&/+#@")  # which a role may hold beside letters and digits: with none of them a turn begins
MAX_ROLE_CHARACTERS = 64
EXPECTED = """expected {"role": "user", "content": "..."}, {"from": "human", "value": "..."} or ["USER", "..."]"""

ASSISTANT, TOOL = "assistant", "tool"
TOOLS = "tools"  # the role of the message that says which tools may be called
LISTS = ("tools", "functions")  # columns of a row that list these; the latter is OpenAI's earlier name
CALLED = ("tool_calls", "function_call", "refusal")  # what a message may have in place of a text
SYSTEM = "system"  # the role of what stands above a dialogue, and the column of a row that has it beside the messages
PICTURE = "image"  # type of a part that stands where a picture of the row is shown
PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}  # type of a part: its key
CALL = "<tool_call>{}</tool_call>"  # a call as text


def messages_of(value: Any, place: str, whole: bool = True, pictured: bool = False) -> list[Message]:
    """The messages of a dialogue: a list of objects with `role` and `content` (or `from` and `value`), or of pairs of
    these. Roles, each a line of letters and digits, are lowercased; a human is the `user`, a gpt, bot or model the
    `assistant`; and so is a system that replies, in a dialogue of which no other is the assistant.

    The content is a text, or a list of parts that are texts, each on lines of its own. A message with `tool_calls` may
    have none. What else an object has is kept as it is. Of `pictured` messages, parts that stand for a picture of the
    row are passed over. Raises DataError with the message that is none, and with the
    result of a tool that no reply before it can have called, unless these are a part of a dialogue and not the `whole`.
    """
    if not isinstance(value, (list, tuple)):
        raise DataError(f"{place}: the messages are {kind_of(value)}; expected a list of them")
    messages = [_message(each, f"{place}, message {number}", pictured) for number, each in enumerate(value, 1)]
    if whole:
        check_results(messages, place)
    roles = Counter(message["role"] for message in messages[1:])
    if roles["system"] and "assistant" not in roles:
        return [{**message, "role": message["role"].replace("system", "assistant")} for message in messages]
    return messages


def _message(value: Any, place: str, pictured: bool) -> Message:
    pair, more = None, {}
    if isinstance(value, Mapping):
        keys = next((keys for keys in LAYOUTS if all(key in value for key in keys)), None)
        keys = keys or (LAYOUTS[0] if "role" in value and any(value.get(key) for key in CALLED) else None)
        pair = None if keys is None else [value.get(key) for key in keys]
        more = {str(key): each for key, each in value.items() if each not in (None, [], {}) and key not in (keys or ())}
    elif isinstance(value, (list, tuple)) and len(value) == 2:
        pair = list(value)
    if pair is not None and isinstance(pair[0], str) and pair[0].strip().lower() in CALLERS:
        pair, more["tool_calls"] = [ASSISTANT, None], _call_of(pair[1], place)
    calls = _calls(more, place)
    content = None if pair is None else _text(pair[1], place, pictured)
    content = more.pop("refusal", "" if calls else None) if content is None else content
    if pair is None or not isinstance(pair[0], str) or not isinstance(content, str):
        raise DataError(f"{place}: is {excerpt(repr(value))}; {EXPECTED}")
    if more.get("weight", 1) not in (0, 1):
        raise DataError(f"{place}: its weight is {excerpt(repr(more['weight']))}; expected 1, or 0: it is not learned")
    return {"role": _role(pair[0], place), "content": content, **calls, **more}


def _role(given: str, place: str) -> str:
    role = given.strip().lower()
    plain = all(sign in SIGNS or category(sign)[0] in "LMN" for sign in role)
    if not plain or not 0 < len(role) <= MAX_ROLE_CHARACTERS:
        raise DataError(
            f"{place}: the role is {excerpt(given)}; expected one line of letters and digits, at most"
            f" {MAX_ROLE_CHARACTERS}, such as user: another role could be read as a turn of its own"
        )
    return ROLES.get(role, role)


def _text(value: Any, place: str, pictured: bool) -> Any:
    """The text of a list of parts; anything else as it is. Raises DataError for a part that is none."""
    if not isinstance(value, (list, tuple)):
        return value
    texts = []
    for number, part in enumerate(value, 1):
        of = part if isinstance(part, Mapping) else {"text": part}
        kind = of.get("type", "text")
        if pictured and kind == PICTURE:
            continue
        text = of.get(PARTS.get(kind, "")) if isinstance(kind, str) else None
        if not isinstance(text, str):
            what = f"of the type {excerpt(str(kind))}" if kind not in PARTS else excerpt(repr(part))
            raise DataError(
                f"{place}: part {number} is {what}, and a chat reads texts alone; expected"
                ' {"type": "text", "text": "..."}: take the part out, or leave the row out'
            )
        texts.append(text)
    return "\n".join(texts)


def _calls(more: dict[str, Any], place: str) -> Message:
    """The calls of tools, taken out of what a message has, in one form: arguments that JSON writes as an object are
    one, as chat templates expect them. Raises DataError."""
    earlier = more.pop("function_call", None)
    given = more.pop("tool_calls", [] if earlier is None else [{"type": "function", "function": earlier}])
    calls = []
    for number, call in enumerate(given if isinstance(given, (list, tuple)) else [given], 1):
        called = call.get("function", call) if isinstance(call, Mapping) else None
        if not isinstance(called, Mapping) or not isinstance(called.get("name"), str):
            raise DataError(
                f"{place}: call {number} is {excerpt(repr(call))}; expected"
                ' {"type": "function", "function": {"name": "...", "arguments": {...}}}'
            )
        arguments = called.get("arguments")
        try:
            parsed = parse_json(arguments) if isinstance(arguments, str) else arguments
        except Malformed:
            parsed = arguments
        arguments = {} if parsed in (None, "") else parsed if isinstance(parsed, Mapping) else arguments
        beside = {key: each for key, each in call.items() if key in ("id", "type") and each is not None}
        calls.append({"type": "function", **beside, "function": {"name": called["name"], "arguments": arguments}})
    return {"tool_calls": calls} if calls else {}


def _call_of(value: Any, place: str) -> list[Any]:
    """The calls that a message of ShareGPT's role function_call is: JSON of one or a list. Raises DataError."""
    try:
        given = parse_json(value) if isinstance(value, str) else value
    except Malformed as error:
        expected = 'expected {"name": "...", "arguments": {...}}'
        raise DataError(f"{place}: the call is {error.said}; {expected}") from None
    return list(given) if isinstance(given, (list, tuple)) else [given]


def check_results(messages: Sequence[Message], place: str) -> None:
    """Raise DataError for a result of a tool that stands after no reply, or that names none of its calls."""
    reply: Message | None = None
    for number, message in enumerate(messages, 1):
        if message["role"] != TOOL:
            reply = message if message["role"] == ASSISTANT else None
            continue
        known = [call["id"] for call in (reply or {}).get("tool_calls", ()) if "id" in call]
        asked = message.get("tool_call_id")
        if reply is None:
            raise DataError(
                f"{place}, message {number}: is what a tool gave, and no call stands before it; put the message of the"
                f" role {ASSISTANT} that calls it there, or take the result out"
            )
        if known and asked is not None and asked not in known:
            raise DataError(
                f"{place}, message {number}: answers the call {excerpt(repr(asked))}, and those before it are"
                f" {', '.join(map(str, known))}; give it the `tool_call_id` of one of them"
            )


def system_of(row: Mapping[str, Any], messages: Sequence[Message]) -> list[Message]:
    """The message of the system that a row has in a column of its own; none where its messages begin with one."""
    said = row.get(SYSTEM)
    begins = any(message["role"] == SYSTEM for message in messages[:1])
    return [{"role": SYSTEM, "content": said}] if isinstance(said, str) and said.strip() and not begins else []


def tools_of(row: Mapping[str, Any], place: str) -> list[Message]:
    """The message that says which tools a dialogue may call, from a row that lists them; none where it does not. Raises
    DataError for what is no list of objects, as which it is also read from a text of JSON."""
    key = next((key for key in LISTS if row.get(key) not in (None, "", [], ())), None)
    if key is None:
        return []
    tools = row[key]
    try:
        tools = parse_json(tools) if isinstance(tools, str) else tools
    except Malformed:
        pass  # which is shown below
    if not isinstance(tools, (list, tuple)) or not all(isinstance(tool, Mapping) for tool in tools):
        raise DataError(
            f"{place}: {key!r} is {excerpt(repr(tools))}; expected a list of objects, such as"
            ' [{"type": "function", "function": {"name": "...", "parameters": {...}}}]; or give the column another name'
        )
    tools = [tool if "function" in tool or key == TOOLS else {"type": "function", "function": tool} for tool in tools]
    lines = "\n".join(json.dumps(tool, ensure_ascii=False, default=str) for tool in tools)
    return [{"role": TOOLS, "content": lines, "tools": tools}] if tools else []


def message_text(message: Message) -> str:
    """What a message says, as text: its content, then each call of a tool on a line."""
    calls = [call["function"] for call in message.get("tool_calls", ())]
    lines = [CALL.format(json.dumps(call, ensure_ascii=False, default=str)) for call in calls]
    return "\n".join([message["content"], *lines] if message["content"] else lines)


def unread_keys(messages: Sequence[Message]) -> Counter[str]:
    """What messages have that `message_text` does not say, and how many have it. A weight is read of replies alone."""
    read = ("role", "content", "tool_calls", "tools")
    both = ((key, message) for message in messages for key in message if key not in read)
    return Counter(key for key, message in both if key != "weight" or message["role"] != ASSISTANT)


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
