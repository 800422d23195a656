"""Messages with pictures among their texts, in OpenAI's parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..data.lines import excerpt
from ..data.messages import PARTS, Message, messages_of
from ..errors import InputError

IMAGES = ("image_url", "input_image", "image", "path", "url")  # keys of a part that have a picture
PART = '{"type": "image_url", "image_url": {"url": "..."}}'


def pictured_messages(given: Any, place: str) -> list[Message]:
    """Messages of which each content is a list of parts: {"type": "text", "text": ...} and {"type": "image", "image":
    ...}, whose picture is as it was given. Raises InputError, DataError."""
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if not isinstance(given, Sequence):
        raise InputError(f"{place}: expected a text or a list of messages; this is {excerpt(repr(given))}")
    contents = [one.get("content") if isinstance(one, Mapping) else None for one in given]
    texts = [
        {**one, "content": "" if isinstance(content, (list, tuple)) else content} if isinstance(one, Mapping) else one
        for one, content in zip(given, contents, strict=True)
    ]
    messages = messages_of(texts, place)
    for number, (message, content) in enumerate(zip(messages, contents, strict=True), 1):
        parts = content if isinstance(content, (list, tuple)) else [message["content"]] if message["content"] else []
        message["content"] = [part_of(part, f"{place}, message {number}, part {n}") for n, part in enumerate(parts, 1)]
    return messages


def part_of(given: Any, place: str) -> dict[str, Any]:
    """A part of a message. Raises InputError for what is neither a text nor a picture."""
    part = given if isinstance(given, Mapping) else {"type": "text", "text": given}
    kind = str(part.get("type"))
    if kind in PARTS and isinstance(part.get(PARTS[kind]), str):
        return {"type": "text", "text": part[PARTS[kind]]}
    if kind in IMAGES:
        picture = next((part[key] for key in IMAGES if part.get(key) is not None), None)
        picture = picture.get("url") if isinstance(picture, Mapping) else picture
        if picture is not None:
            return {"type": "image", "image": picture}
    what = f"{place} is {excerpt(repr(given))}"
    raise InputError(f'{what}; expected {{"type": "text", "text": "..."}} or {PART}')


def plain_messages(messages: Sequence[Message]) -> list[Message]:
    """Messages as a chat template reads them: a picture is a part of the type image alone."""
    return [
        {**one, "content": [{"type": "image"} if "image" in part else part for part in one["content"]]}
        for one in messages
    ]
