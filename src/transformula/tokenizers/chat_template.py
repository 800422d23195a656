"""Chat templates: messages become the text that a model was trained on, by the template of its folder.

A template is a program that a stranger wrote. It is rendered in jinja2's sandbox in a process of its own, which has
limits of time, memory and size, and nothing of this program: no check of what a template says can know what it will
do, and within one process a single operation such as `'a' * 10**9` cannot be stopped. The process starts in a tenth of
a second and stays for further messages.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from signal import SIGPROF
from threading import Lock
from typing import Any
from weakref import finalize

from ..errors import CheckpointError, InputError
from .published import Published, read_published, special_names

SECONDS = 2.0  # of the processor, for one rendering
BYTES = 512 * 2**20  # of memory
CHARACTERS = 4_000_000  # of what it writes
GENERATION = re.compile(r"{%-?\s*generation\s*-?%}")
WAITED = 60.0  # seconds after which a process is given up that does nothing


class ChatTemplate:
    """A chat template with what it may name.

    text    the template
    names   the special tokens by what they are for: `bos_token`, `eos_token`, ...
    source  the file, for errors
    """

    def __init__(self, text: str, names: Mapping[str, str] | None = None, source: str | Path = "the template") -> None:
        self.text, self.names, self.source = text, dict(names or {}), str(source)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def render(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True, **values: Any) -> str:
        """The text of messages, [{"role": "user", "content": "Hello."}, ...].

        add_generation_prompt  end with what stands before a reply
        values                 what else the template reads, such as `tools`

        Raises InputError for messages that it refuses, CheckpointError for a template that is wrong or passes a limit.
        """
        if not messages:
            raise InputError("there is no message: a conversation has one at least")
        plain = [{key: value for key, value in message.items() if value is not None} for message in messages]
        given = {"tools": None, "documents": None, **self.names, **values}
        try:
            asked = json.dumps({**given, "messages": plain, "add_generation_prompt": add_generation_prompt})
        except (TypeError, ValueError) as error:
            raise InputError(f"messages: expected texts, numbers, lists and objects, as in JSON ({error})") from None
        with self._lock:
            answer = self._answer(asked)
        if "text" in answer:
            return str(answer["text"])
        if answer["refused"]:
            raise InputError(f"{self.source}: the chat template refuses these messages: {answer['said']}")
        raise CheckpointError(
            f"{self.source}: the chat template cannot be used: {answer['said']}; take one that comes with the model, or"
            " write one yourself"
        )

    @property
    def marks_replies(self) -> bool:
        """Whether the template says itself which parts an assistant says, between {% generation %} and its end."""
        return GENERATION.search(self.text) is not None

    def render_parts(self, messages: Sequence[Mapping[str, Any]], **values: Any) -> list[tuple[str, bool]]:
        """The text of messages in parts, and whether an assistant says each, as the template marks it; errors as of
        `render`."""
        before, after = (secrets.token_hex(16) for _ in range(2))  # no message can know these
        text = self.render(messages, False, _marks=[before, after], **values)
        parts = []
        for number, part in enumerate(text.split(before)):
            said, _, rest = part.partition(after) if number else ("", "", part)
            parts += [(said, True), (rest, False)]
        return [(part, says) for part, says in parts if part]

    def _answer(self, asked: str) -> dict[str, Any]:
        """What the process says; a new one is started where there is none."""
        process, ready, line = self._process or self._start(), list[Any](), b""
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(OSError):  # it may have ended
            process.stdin.write(asked.encode() + b"\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], WAITED)
            line = process.stdout.readline() if ready else b""
        if line.endswith(b"\n"):
            return dict(json.loads(line))
        self._process = None
        process.kill()
        late = process.wait() == -SIGPROF or not ready
        said = f"it takes more than {SECONDS:g} seconds" if late else "it ended the process that reads it"
        return {"said": said, "refused": False}

    def _start(self) -> subprocess.Popen[bytes]:
        specs = (find_spec(name) for name in ("jinja2", "markupsafe"))
        places = [str(Path(spec.origin).parents[1]) for spec in specs if spec is not None and spec.origin]
        first = {"paths": places, "template": self.text, "seconds": SECONDS, "bytes": BYTES, "characters": CHARACTERS}
        program = str(Path(__file__).with_name("chat_worker.py"))
        environment = {key: os.environ[key] for key in ("TZ", "LD_LIBRARY_PATH") if key in os.environ}
        process = subprocess.Popen(
            [sys.executable, "-I", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment,
        )  # fmt: skip
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # which is seen when it is asked
            process.stdin.write(json.dumps(first).encode() + b"\n")
        self._process = process
        finalize(self, _end, process)
        return process

    def __getstate__(self) -> dict[str, Any]:
        return {"text": self.text, "names": self.names, "source": self.source}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ChatTemplate.__init__(self, **state)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def render_chat(
    template: ChatTemplate | str | Path, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True,
    **values: Any,
) -> str:  # fmt: skip
    """The text of messages by a template, or by that of a model's folder; see `ChatTemplate.render`. Raises
    CheckpointError for a folder without one."""
    if not isinstance(template, ChatTemplate):
        template = read_template(template)
    return template.render(messages, add_generation_prompt, **values)


def read_template(folder: str | Path) -> ChatTemplate:
    """The chat template of a model's folder. Raises CheckpointError where it has none."""
    template = template_of(read_published(Path(folder)))
    if template is None:
        what = f"{folder}: there is no chat template (chat_template.jinja, or a key of tokenizer_config.json)"
        raise CheckpointError(f"{what}: the model was not trained on conversations, or its folder lacks a file")
    return template


def template_of(files: Published) -> ChatTemplate | None:
    """The chat template of a folder's files; None where there is none."""
    if files.template is None:
        return None
    names = {key: name for key, name in special_names(files.config).items() if key.endswith("_token")}
    return ChatTemplate(files.template, names, files.template_from)
