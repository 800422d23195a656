"""A conversation at a terminal: message and reply take turns."""

from __future__ import annotations

import sys
from typing import Any

from .output import Notes

HELP = "/reset begins again, /quit ends"
RESULT = "/result "  # before what a tool gave, which is a message of its own


def converse(conversation: Any) -> int:
    """Read messages and print replies as they are written, until /quit or the end of the input. Ctrl-C stops a reply,
    which is then forgotten with its message. What the model does not read is said when that begins, and counted at the
    end."""
    from ..errors import TransformulaError

    notes, left_out = Notes(), 0
    print(HELP, file=sys.stderr)
    while (line := message()) is not None:
        if line == "/reset":
            conversation.messages.clear()
            left_out = 0
            print("a new conversation", file=sys.stderr)
        elif line.startswith("/") and not line.startswith(RESULT):
            print(f"unknown: {line}; {HELP}; {RESULT}TEXT says what a tool gave", file=sys.stderr)
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
