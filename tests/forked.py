"""Processes of their own, without the seconds that each would spend on imports: a server that has imported torch and
the program forks them. It has made no tensor and read no file, so each is as a process that was just started.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests import hurry

hurry.leave_out()  # every process that is forked reads this file

PRELOADED = [
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "torch._dynamo",  # every optimizer of torch's imports it
    "transformula.api.run",
    "transformula.cli.door",
    "transformula.tasks.language_modeling",
    "transformula.tasks.translation",
    "transformula.training.start",
]


def context() -> Any:
    """What starts such processes."""
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(PRELOADED)
    return forking


def run_verb(
    arguments: list[str], folder: Path, environment: Mapping[str, str], before: Callable[[], object] | None = None
) -> tuple[int, str]:
    """Run `transformula ARGUMENTS` in a folder; its exit status, and what it printed on both streams.

    before  called first in its process: a fault to come, a function of a module
    """
    output = folder / ".output"
    process = start_verb(arguments, folder, environment, output, before)
    process.join()
    printed = output.read_text(encoding="utf-8", errors="replace")
    output.unlink()
    return process.exitcode, printed


def start_verb(
    arguments: list[str],
    folder: Path,
    environment: Mapping[str, str],
    output: Path,
    before: Callable[[], object] | None = None,
) -> Any:
    """A process that runs `transformula ARGUMENTS` in a folder, and prints to a file."""
    process = context().Process(target=_verb, args=(arguments, folder, dict(environment), output, before))
    process.start()
    return process


def _verb(
    arguments: list[str],
    folder: Path,
    environment: dict[str, str],
    output: Path,
    before: Callable[[], object] | None,
) -> None:
    _settle(folder, environment)
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(handle, stream)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode, encoding="utf-8") for n, mode in enumerate("rww"))
    sys.argv = ["transformula", *arguments]
    from transformula.cli import main

    if before is not None:
        before()
    sys.exit(main(arguments))


class Interpreter:
    """A Python that executes one block after the other in one namespace."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._here, there = context().Pipe()
        self._process = context().Process(target=_interpret, args=(there, folder, dict(environment)))
        self._process.start()
        there.close()

    def run(self, code: str, name: str) -> tuple[str, str]:
        """What a block printed, and the traceback in which it ended, if it did. `name` stands for its file."""
        self._here.send((code, name))
        printed, failed = self._here.recv()
        return printed, failed

    def close(self) -> None:
        """End it."""
        self._here.close()
        self._process.join()


def _interpret(there: Connection, folder: Path, environment: dict[str, str]) -> None:
    _settle(folder, environment)
    space = {"__name__": "__main__"}
    while True:
        try:
            code, name = there.recv()
        except EOFError:
            return
        printed, failed = io.StringIO(), ""
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                exec(compile(code, name, "exec"), space)
            except BaseException:
                failed = traceback.format_exc()
        there.send((printed.getvalue(), failed))


def _settle(folder: Path, environment: dict[str, str]) -> None:
    """Make the process one that was started in this folder, with this environment."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:] = ["", *(place for place in sys.path if place)]
