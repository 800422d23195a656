"""A conversation at a terminal: message and reply take turns."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .output import Notes

HELP, SEEING = "/reset begins again, /quit ends", "/picture FILE shows one to the next message, "
PICTURE = "/picture "
RESULT = "/result "  # before what a tool gave, which is a message of its own


def converse(conversation: Any, pictures: Sequence[str] = ()) -> int:
    """Read messages and print replies as they are written, until /quit or the end of the input. Ctrl-C stops a reply,
    which is then forgotten with its message. What the model does not read is said when that begins, and counted at the
    end. `pictures`: files that are shown before the first message."""
    from ..errors import TransformulaError

    for picture in pictures:
        conversation.show(picture)
    notes, left_out, known = Notes(), 0, SEEING * conversation.sees + HELP
    print(known, file=sys.stderr)
    while (line := message()) is not None:
        if line == "/reset":
            conversation.reset()
            left_out = 0
            print("a new conversation", file=sys.stderr)
        elif line.startswith(PICTURE):
            show_picture(conversation, line.removeprefix(PICTURE).strip())
        elif line.startswith("/") and not line.startswith(RESULT):
            print(f"unknown: {line}; {known}; {RESULT}TEXT says what a tool gave", file=sys.stderr)
        elif line:
            role = "tool" if line.startswith(RESULT) else "user"
            try:
                reply = conversation.reply(line.removeprefix(RESULT), show, role)
            except KeyboardInterrupt:
                show("\n")
            except TransformulaError as error:
                print(f"error: {error}", file=sys.stderr)
            else:
                show("\n")
                cut = "" if reply.ended or "cut" in reply.note else "the reply was cut at the maximum number of tokens"
                for note in filter(None, (notes.add(reply, left_out), cut)):
                    print(f"note: {note}", file=sys.stderr)
                left_out = max(left_out, reply.left_out)
    notes.print()
    return 0


def show_picture(conversation: Any, name: str) -> None:
    """Show a picture to the next message, or say why not."""
    from ..errors import TransformulaError

    try:
        conversation.show(name)
    except TransformulaError as error:
        print(f"error: {error}", file=sys.stderr)


def message() -> str | None:
    """What is typed next; None at the end."""
    try:
        line = input("> ").strip()
    except (EOFError, KeyboardInterrupt):
        print()
        return None
    return None if line == "/quit" else line


def show(piece: str) -> None:
    sys.stdout.write(piece)
    sys.stdout.flush()
