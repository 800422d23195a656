"""A command from outside: one line of JSON asks it, one line of JSON is its answer.

    -> {"count": 9, "task": "language-modeling", "base": "...", "unit": "bits per byte", "words": ["attention", ...],
        "leaders": [{"name": "w4", "model": "...", "reason": "...", "cost": 1.02, "gain": 0.013, "error": 0.004}, ...],
        "refused": [{"model": "...", "why": "..."}, ...]}
    <- {"proposals": [{"model": "x = x + attention(norm(x))\\nx = x + mlp(norm(x))", "reason": "..."}, ...]}

A model is a formula, which takes what it does not state from the base, or the text of a model file. What the command
writes to standard error goes to the terminal. Its answers are text that is checked, and never run: a search loses a
round's share where a command is silent, dies or answers with something else, and no more.
"""

from __future__ import annotations

import json
import os
import selectors
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from ..errors import InputError, setting, shortened
from ..structured import Malformed, parse_json

WAIT = 120.0  # seconds for an answer
MAX_ANSWER = 2_000_000  # bytes of one
MAX_MODEL = 20_000  # characters of one model
MAX_REASON = 300
FAILURES = 3  # in a row, after which it is not asked any more


class OutsideProposer:
    """A process that is asked for wirings. `failed`: what went wrong the last time; "" where nothing did."""

    def __init__(self, command: str, wait: float = WAIT) -> None:
        try:
            self.command = shlex.split(command)
        except ValueError as error:
            raise InputError(f"{setting('proposer', shortened(command))}: {error}") from None
        if not self.command:
            raise InputError(f"{setting('proposer', '')}: no command; name one, such as 'python mine.py'")
        if shutil.which(self.command[0]) is None:
            named = setting("proposer", shortened(command))
            raise InputError(f"{named}: there is no program {self.command[0]!r}; name one, such as 'python mine.py'")
        self.wait, self.failures, self.failed = wait, 0, ""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def silent(self) -> bool:
        """Whether it has failed too often: the search stops asking it."""
        return self.failures >= FAILURES

    def ask(self, request: Mapping[str, Any]) -> list[tuple[str, str]]:
        """(model, reason) of at most request["count"] proposals; none where it failed."""
        try:
            answer = self.answer(json.dumps(request) + "\n")
            proposals = read_answer(answer, int(request["count"]))
        except (OSError, Malformed, InputError) as error:
            self.failed, self.failures = str(error), self.failures + 1
            self.close()
            return []
        self.failed, self.failures = "", 0
        return proposals

    def answer(self, line: str) -> str:
        """The line that the command answers with. Raises OSError, InputError."""
        process = self.process
        if process is None or process.poll() is not None:
            process = self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line.encode())
        process.stdin.flush()
        return read_line(process, self.wait)

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    try:
                        stream.close()
                    except OSError:  # what was not read by a process that is gone
                        pass
            self.process = None


def read_line(process: subprocess.Popen[bytes], wait: float) -> str:
    """A line of a process's output, within a time and a size. Raises InputError."""
    assert process.stdout is not None
    ends, content = time.monotonic() + wait, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while b"\n" not in content:
            if not selector.select(max(0.0, ends - time.monotonic())):
                raise InputError(f"it did not answer within {wait:g} seconds")
            part = os.read(process.stdout.fileno(), 65536)
            if not part:
                raise InputError(f"it ended (exit status {process.wait()}) without an answer")
            content += part
            if len(content) > MAX_ANSWER:
                raise InputError(f"its answer is larger than {MAX_ANSWER:,} bytes")
    return content.partition(b"\n")[0].decode("utf-8", "replace")


def read_answer(line: str, count: int) -> list[tuple[str, str]]:
    """(model, reason) of an answer's first `count` proposals. Raises Malformed."""
    answer = parse_json(line)
    rows = answer.get("proposals") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise Malformed('expected {"proposals": [{"model": "...", "reason": "..."}]}')
    proposals = []
    for number, row in enumerate(rows[:count], 1):
        model, reason = (row.get("model"), row.get("reason", "")) if isinstance(row, dict) else (None, "")
        if not isinstance(model, str) or not isinstance(reason, str) or not model.strip():
            raise Malformed(f"proposal {number} has no text under `model`")
        if len(model) > MAX_MODEL:
            raise Malformed(f"proposal {number} is longer than {MAX_MODEL:,} characters")
        proposals.append((model, " ".join(reason.split())[:MAX_REASON]))
    return proposals
