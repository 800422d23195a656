"""The tree of errors. Every mistake of a user's ends as one of these, and none of them shows a traceback.

    TransformulaError
    ├── InputError                 the input is wrong: exit status 2
    │   ├── FormulaError           a text in the formula language; underlines the place
    │   ├── ConfigError            settings: all mistakes in one report
    │   ├── UnknownName            a name that is not registered; knows the nearest ones
    │   ├── DataError              a file of data; names file and line
    │   ├── CheckpointError        a model's or a run's folder that cannot be used
    │   └── MissingExtra           an optional package; names the command that installs it
    └── RunError                   failed while running: exit status 1
        ├── Interrupted            asked to end before its end: exit status 130
        │   └── Preempted          the same by SIGTERM or SIGUSR1: exit status 75
        └── NotFinite              a loss or gradient that is not a number; names step and line

`exit_status` is what the command line returns. An error says what is wrong, where, what was expected and what to do;
`near` carries the nearest known names as data, so that a program can use them too; `data` is the whole error as plain
data, which the command line prints with --json.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar

TYPED: ContextVar[frozenset[str] | None] = ContextVar("TYPED", default=None)
"""The options, such as "--lr", of the command that is being run, empty before its verb has said them; None where Python
is the door. Errors name a setting as it is given there."""

NO_MEMORY = re.compile(
    "failed to map segment|allocat|out of memory|not enough memory|storage size|could not create a (primitive|memory)|"
    "error return without exception set|returned NULL without setting an exception",
    re.IGNORECASE,
)
"""What torch says where it gets no memory, on a CPU and on a GPU, oneDNN inside it, and who loads a library. Python
itself loses an error for which there is no memory, and says so by a SystemError."""


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that no memory could be had."""
    return isinstance(error, MemoryError) or (
        isinstance(error, ImportError | RuntimeError | SystemError) and NO_MEMORY.search(str(error)) is not None
    )


def setting(key: str, value: str = "", no: bool = False, number: bool = False) -> str:
    """A setting as it is given: `--join ' '` on a command line that has this option, else `join=' '`; `no`: one that is
    turned off, `--no-quoted`, else `quoted=False`; `number`: one of a model, which needs no option."""
    option, options = "--" + key.replace("_", "-"), TYPED.get()
    typed = options is not None and (option in options or not options or number)
    if no:
        return f"--no-{option[2:]}" if typed else f"{key}=False"
    return f"{option} {value}".rstrip() if typed else f"{key}={value}".rstrip("=")


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names closest to `name`, best first; empty if none is close."""
    lowered = {k.lower(): k for k in known}
    if len(name) > 200:  # no name that is known is as long, and comparing takes time
        return []
    return [lowered[close] for close in difflib.get_close_matches(name.lower(), list(lowered), n=most, cutoff=0.6)]


def listing(known: Sequence[str], most: int = 40) -> str:
    """'a, b, c', the first `most` of them."""
    return ", ".join(known[:most]) + (", ..." if len(known) > most else "") or "none"


def shortened(text: str, most: int = 80) -> str:
    """A text that an error quotes: its beginning, where it is long."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def did_you_mean(near: Sequence[str]) -> str:
    """' did you mean a, b or c?' or nothing."""
    return f" did you mean {join_words(near, 'or')}?" if near else ""


def join_words(names: Sequence[str], word: str) -> str:
    """'a, b and c', by the word "and"."""
    *others, last = names or ("",)
    return f"{', '.join(others)} {word} {last}" if others else last


class TransformulaError(Exception):
    """Base of all errors that are meant to be read by a user."""

    exit_status = 1
    fields: ClassVar[tuple[str, ...]] = ()  # attributes that say more of an error of this kind, for programs

    def __init__(self, message: str, *, near: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.near = list(near)

    @property
    def data(self) -> dict[str, Any]:
        """As plain data: kind, message, near, exit_status, and what else an error of this kind knows."""
        more = {name: getattr(self, name) for name in self.fields if getattr(self, name) is not None}
        head = {"kind": type(self).__name__, "message": self.message, "near": self.near}
        return {**head, "exit_status": self.exit_status, **more}

    def __str__(self) -> str:
        return self.message


class InputError(TransformulaError):
    """What the user gave is wrong."""

    exit_status = 2


class ConfigError(InputError):
    """Settings that cannot be used. `mistakes` lists all of them, each 'key: what is wrong'.

    source  the file that they come from, "" for none
    beside  keys that were given beside the file
    """

    fields = ("mistakes", "source")

    def __init__(
        self, mistakes: Sequence[str] | str, *, source: str = "", near: Sequence[str] = (), beside: Collection[str] = ()
    ) -> None:
        self.mistakes = [mistakes] if isinstance(mistakes, str) else list(mistakes)
        self.source = source
        listed, all_in_file = [], bool(source) and not any(m.partition(":")[0] in beside for m in self.mistakes)
        for mistake in self.mistakes:
            key, colon, what = mistake.partition(": ")
            if source and mistake.partition(":")[0] not in beside:
                mistake = mistake if all_in_file else f"{source}: {mistake}"
            elif colon and setting(key).startswith("--"):  # an option of the command that is being run
                mistake = f"{setting(key)}: {what}"
            listed.append(mistake)
        text = listed[0] if len(listed) == 1 else "\n  - ".join([f"{len(listed)} mistakes", *listed])
        super().__init__(f"{source}: {text}" if all_in_file else text, near=near)


class UnknownName(InputError):
    """A name that is not registered, e.g. a task, a tokenizer, a gallery entry.

    `meant` are known names that it stands for elsewhere: nearer than those that are spelled alike.
    """

    fields = ("name", "known")

    def __init__(self, kind: str, name: str, known: Iterable[str], *, meant: Sequence[str] = ()) -> None:
        known = sorted(known)
        near = list(meant) or nearest(name, known)
        super().__init__(f"unknown {kind} {shortened(name)!r};{did_you_mean(near)} known: {listing(known)}", near=near)
        self.kind, self.name, self.known = kind, name, known


class DataError(InputError):
    """A file of data that cannot be read as what it should be. Names the file and, where there is one, the line.

    `seen`: what is wrong is that all data to be scored is training data too.
    """

    fields = ("path", "line")

    def __init__(self, message: str, *, path: object = None, line: int | None = None, seen: bool = False) -> None:
        place = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(place + message)
        self.path, self.line, self.seen = path, line, seen


class CheckpointError(InputError):
    """A model's or a run's folder that is missing, damaged, or of another kind.

    brief  the reason in a few words, for a line with others; "" where none was made
    """

    def __init__(self, message: str, *, near: Sequence[str] = (), brief: str = "") -> None:
        super().__init__(message, near=near)
        self.brief = brief


class MissingExtra(InputError):
    """An optional package is not installed."""


class RunError(TransformulaError):
    """Something failed while running, with input that was right."""


class Interrupted(RunError):
    """Work that has several parts was asked to end (Ctrl-C); what is done is saved."""

    exit_status = 130


class Preempted(Interrupted):
    """The same, asked by a scheduler (SIGTERM, SIGUSR1). Its status is EX_TEMPFAIL of sysexits.h: run it again."""

    exit_status = 75


class NotFinite(RunError):
    """A loss or gradient became NaN or infinite. `step` and `place` say where it first appeared."""

    fields = ("step", "place")

    def __init__(self, message: str, *, step: int, place: str = "") -> None:
        super().__init__(message)
        self.step, self.place = step, place
