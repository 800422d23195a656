"""Calls of tools in what a model writes: the form that keeps to the tools, and the reader that takes calls out.

    reply   text, then calls, or one of these alone
    call    <tool_call>{"name": "weather", "arguments": {"city": "Rom"}}</tool_call>

Between two calls, and between a text and a call, is a line break; layouts of others have line breaks within the tags,
too. The arguments follow the JSON schema of the tool's `parameters`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..data.lines import excerpt, utf8_of
from ..data.messages import CALL, Message, tools_of
from ..errors import InputError, UnknownName, setting
from ..structured import Malformed, parse_json
from .forms import ANY_OBJECT, Form

OPEN, CLOSE = CALL.split("{}")
CHOICES = ("auto", "none", "required")  # whether tools are called: else the name of one that is
SPACED = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}  # as calls are written here
HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*(?=\S)')
HELD = re.compile(rf"\s*(?:{'|'.join(re.escape(OPEN[:n]) for n in range(len(OPEN) - 1, 0, -1))})?\Z")


class Called(NamedTuple):
    """A call in the making.

    name       of its tool
    arguments  as JSON, as far as they are written
    whole      whether it came to its end, the tag behind it
    """

    name: str
    arguments: str = ""
    whole: bool = False


class CallPiece(NamedTuple):
    """What became certain of a reply: more of its text, or of the arguments of its call number `call`, which begins
    where `name` says that."""

    text: str
    call: int | None = None
    name: str = ""


def given_tools(given: str) -> list[Message]:
    """The message that lists the tools of a JSON text, or of a file of it. Raises InputError, DataError."""
    text = given if given.lstrip().startswith(("[", "{")) else str(utf8_of(Path(given).expanduser()), "utf-8")
    try:
        tools = parse_json(text)
    except Malformed as error:
        raise InputError(f"{setting('tools', given)}: {error.said}; expected a list of tools as JSON") from None
    return tools_of({"tools": [tools] if isinstance(tools, Mapping) else tools}, setting("tools", excerpt(given, 30)))


def functions_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The JSON schemas of the arguments of tools, by the tools' names. Raises InputError."""
    functions: dict[str, Any] = {}
    for number, tool in enumerate(tools, 1):
        function = tool.get("function", tool)
        name = function.get("name") if isinstance(function, Mapping) else None
        parameters = function.get("parameters") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not name or not isinstance(parameters, (Mapping, type(None))):
            raise InputError(
                f"tool {number} is {excerpt(repr(tool))}; expected"
                ' {"type": "function", "function": {"name": "...", "parameters": {a JSON schema}}}'
            )
        if name in functions:
            raise InputError(f"tool {number}: {name!r} is the name of a tool before it; give it another")
        functions[name] = parameters or ANY_OBJECT
    return functions


def call_form(
    tools: Sequence[Mapping[str, Any]], choice: str = "auto", parallel: bool = True, inside: str = ""
) -> Form:
    """The form of replies that may, must, or must not call tools; of no other tools, with arguments that follow their
    schemas.

    choice    one of `CHOICES`, or the name of the tool that is called
    parallel  several calls may follow one another
    inside    what stands between the tags and the call

    Raises UnknownName, InputError.
    """
    functions = functions_of(tools)
    if choice not in CHOICES:
        if choice not in functions:
            raise UnknownName("tool", choice, functions)
        functions = {choice: functions[choice]}
    plain = f"PLAIN: /(?s:.*)/ & ~/(?s:.*){OPEN}(?s:.*)/"
    if choice == "none":
        return Form(f"start: PLAIN\n{plain}", "the form of a reply that calls no tool")
    if not functions:
        raise InputError("no tool is named that could be called: name one, or let the choice be none")
    bodies = " | ".join(f"body_{number}" for number in range(len(functions)))
    rest = f"({bodies}) {_literal(inside + CLOSE)}"
    rules = [f'call: {_literal(OPEN + inside)} {rest}', f"rest: {_literal(inside) if inside else ''} {rest}"]
    rules += [_body(number, *one) for number, one in enumerate(functions.items())]
    more = ' ("\\n" call)*' if parallel else ""
    if choice == "auto":
        start = f"start: PLAIN | open rest{more}\nopen[lazy]: /(?s:.*){OPEN}/\n{plain}"
    else:
        start = f"start: call{more}"
    return Form("\n".join([start, *rules]), "the form of a reply that calls tools")


def _body(number: int, name: str, parameters: Mapping[str, Any]) -> str:
    head = f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '
    return f'body_{number}: {_literal(head)} %json {json.dumps({**parameters, "x-guidance": SPACED})} "}}"'


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class CallReader:
    """Reads a reply as it is written: `push` gives what became certain, `close` the rest.

    text   what the reply says beside its calls
    calls  its calls; the last one may be cut where the reply was
    """

    def __init__(self) -> None:
        self.text = ""
        self.calls: list[Called] = []
        self._kept = ""  # what may yet be a part of something else
        self._inside = self._named = self._given = False  # in a call; its name is read; and its arguments

    def push(self, piece: str) -> list[CallPiece]:
        self._kept += piece
        said: list[CallPiece] = []
        while (more := self._inner() if self._inside else self._outer()) is not None:
            said += more
        return said

    def close(self) -> list[CallPiece]:
        """What is left: text that was no beginning of a call, and what a call that was cut has of arguments."""
        if self._inside and not self._named:  # a call that does not say whom it calls is text
            self._kept = OPEN + self._kept
        said = [] if self._named or not self._kept.strip() else self._say(self._kept)
        self._kept, self._inside = "", False
        return said

    def _say(self, text: str) -> list[CallPiece]:
        text = text.lstrip("\n") if self.calls and not self.text else text
        self.text += text
        return [CallPiece(text)] if text else []

    def _outer(self) -> list[CallPiece] | None:
        """Read on outside of a call; None where more must come first."""
        before, opened, after = self._kept.partition(OPEN)
        if opened:
            self._inside, self._named, self._kept = True, False, after
            return self._say(before.rstrip())
        held = HELD.search(self._kept)
        sure = self._kept[: held.start()] if held is not None else self._kept
        if not sure:
            return None
        self._kept = self._kept[len(sure) :]
        return self._say(sure)

    def _inner(self) -> list[CallPiece] | None:
        """Read on inside of a call; None where more must come first."""
        if not self._named:
            head = HEAD.match(self._kept)
            if head is None:
                return self._not_a_call()
            self.calls.append(Called(json.loads(head[1], strict=False)))
            self._named, self._given, self._kept = True, False, self._kept[head.end() :]
            return [CallPiece("", len(self.calls) - 1, self.calls[-1].name)]
        call, number = self.calls[-1], len(self.calls) - 1
        if not self._given:
            return self._arguments(call, number)
        _, closed, after = self._kept.partition(CLOSE)
        if not closed:
            return None
        self.calls[-1] = call._replace(whole=True)
        self._inside, self._named, self._kept = False, False, after
        return []

    def _arguments(self, call: Called, number: int) -> list[CallPiece] | None:
        """Arguments as they come: as long as they do not parse, all that is there is theirs."""
        if not self._kept:
            return None
        whole, known = call.arguments + self._kept, len(call.arguments)
        try:
            _, end = json.JSONDecoder(strict=False).raw_decode(whole)
        except (ValueError, RecursionError):
            self.calls[-1] = call._replace(arguments=whole)
            self._kept = ""
            return [CallPiece(whole[known:], number)]
        # a number may go on, and what has an end is told apart by what stands behind it
        if end == len(whole) and whole[-1] not in '}]"':
            return None
        self.calls[-1], self._given, self._kept = Called(call.name, whole[:end]), True, whole[end:]
        return [CallPiece(whole[known:end], number)] if end > known else []

    def _not_a_call(self) -> list[CallPiece] | None:
        """What stands between the tags and names no tool is text, once it has its end."""
        inside, closed, after = self._kept.partition(CLOSE)
        if not closed:
            return None
        self._inside, self._kept = False, after
        return self._say(OPEN + inside + CLOSE)


def read_calls(text: str) -> tuple[str, list[Called]]:
    """What a reply says beside its calls, and the calls."""
    reader = CallReader()
    reader.push(text)
    reader.close()
    return reader.text, reader.calls


def calls_in_message(calls: Sequence[Called]) -> list[Message]:
    """Whole calls as a message of the assistant has them: arguments that are an object of JSON as that, others as they
    are written."""
    made: list[Message] = []
    for call in calls:
        try:
            arguments = parse_json(call.arguments)
        except Malformed:
            arguments = None
        kept = arguments if isinstance(arguments, Mapping) else call.arguments
        made += [{"type": "function", "function": {"name": call.name, "arguments": kept}}] if call.whole else []
    return made
