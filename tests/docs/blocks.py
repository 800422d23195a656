"""Fenced blocks of a Markdown page, and running them.

    ```python      executed, all of a page in one namespace, in order, in an empty folder
    ```output      after one of those: what it printed
    ```console     lines after `$ ` are run by a shell; what stands below each is what it prints

In what is printed `...` stands for anything, on a line of its own for any lines. A command that shows `error:` must
fail, any other must not. `<!-- not run: reason -->` above a block leaves it out; `<!-- slow: reason -->` leaves it to
the longer tests, and as the first line of a page `<!-- slow page: reason -->` leaves all of it to them. Blocks of other
kinds (yaml, text, ...) are for reading. `<!-- file: NAME -->` above a block writes it to that file and runs nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.forked import Interpreter, run_verb

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)(?P<marks>```+)(?P<kind>\w*)\s*$")
COMMENT = re.compile(r"^<!-- (?P<what>not run|slow|file): (?P<why>.+?) -->$")


@dataclass
class Block:
    """One fenced block. `marks` are the comments directly above it: {"slow": "trains for a minute"}."""

    kind: str
    text: str
    line: int
    marks: dict[str, str]


def pages() -> list[Path]:
    """The pages whose blocks are run."""
    own = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG", "benchmarks/README")]
    return [*own, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page, in order."""
    rows = text.splitlines()
    marks: dict[str, str] = {}
    at = 0
    while at < len(rows):
        fence, comment = FENCE.match(rows[at]), COMMENT.match(rows[at].strip())
        if fence:
            indent, begin = len(fence["indent"]), at + 1
            at = next(n for n in range(begin, len(rows)) if rows[n].strip() == fence["marks"])
            inside = [row[indent:] for row in rows[begin:at]]
            yield Block(fence["kind"], "\n".join(inside) + "\n", begin, marks)
            marks = {}
        elif comment:
            marks = {**marks, comment["what"]: comment["why"]}
        elif rows[at].strip():
            marks = {}
        at += 1


def commands(text: str) -> Iterator[tuple[str, str]]:
    """(command, what it prints) of a console block. A command goes on after a backslash at a line's end."""
    command, printed = "", []
    for row in text.splitlines():
        if row.startswith("$ "):
            if command:
                yield command, "\n".join(printed)
            command, printed = row[2:], []
        elif command.endswith("\\") and not printed:
            command += "\n" + row
        else:
            printed.append(row)
    if command:
        yield command, "\n".join(printed)


def fits(shown: str, printed: str) -> bool:
    """Whether what was printed is what the page shows."""
    pattern = ""
    for row in shown.strip("\n").splitlines():
        if row.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part.rstrip() if last else part) for part, last in parts(row)) + r"[ ]*\n"
    return re.fullmatch(pattern, printed.strip("\n") + "\n") is not None


def parts(row: str) -> list[tuple[str, bool]]:
    """The parts of a row between `...`, each with whether it is the last."""
    found = row.split("...")
    return [(part, n == len(found) - 1) for n, part in enumerate(found)]


def run_page(path: Path, folder: Path, slow: bool) -> int:
    """Run a page's blocks in `folder`; return how many. Raises AssertionError that names page and line."""
    printed: str | None = None
    interpreter: Interpreter | None = None
    count = 0
    with ExitStack() as after:
        for block in blocks(path.read_text(encoding="utf-8")):
            place = f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name}:{block.line}"
            left_out = "not run" in block.marks or ("slow" in block.marks and not slow)
            if "file" in block.marks:
                (folder / block.marks["file"]).write_text(block.text, encoding="utf-8")
                left_out = True
            if block.kind == "python":
                if interpreter is None and not left_out:
                    # one for each page, so that what a page registers is unknown to the next
                    interpreter = Interpreter(folder, environment())
                    after.callback(interpreter.close)
                printed = None if left_out else run_block(interpreter, block, place)
                count += not left_out
            elif block.kind == "output" and printed is not None:
                assert fits(block.text, printed), f"{place}: printed\n{printed}\ninstead of\n{block.text}"
            elif block.kind == "console" and not left_out:
                for command, shown in commands(block.text):
                    run_command(command, shown, place, folder)
                    count += 1
    return count


def run_block(interpreter: Interpreter, block: Block, place: str) -> str:
    """Execute a block; return what it printed. Blank lines before it make a traceback name the page's line."""
    printed, failed = interpreter.run("\n" * block.line + block.text, place.split(":")[0])
    assert not failed, f"{place}:\n{printed}\n{failed}"
    return printed


def environment() -> dict[str, str]:
    """Plain output of one width, and the commands of this Python first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "112", "OMP_NUM_THREADS": "1"}


def run_command(command: str, shown: str, place: str, folder: Path) -> None:
    """Run a command as typed; check its status and, where the page shows something, what it prints."""
    arguments = plain_arguments(command)
    if arguments is not None:
        status, printed = run_verb(arguments, folder, environment())
    else:
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment(), text=True, **both)
        status, printed = done.returncode, done.stdout
    failed = shown.lstrip().startswith("error:") or "\nerror:" in shown
    assert (status != 0) == failed, f"{place}: {command}\nended with {status}\n{printed}"
    if shown.strip():
        assert fits(shown, printed), f"{place}: {command}\nprinted\n{printed}\ninstead of\n{shown}"


def plain_arguments(command: str) -> list[str] | None:
    """What follows `transformula`, where a shell would do nothing but take the quotes off; else None."""
    unquoted = re.sub(r"'[^']*'|\"[^\"$`\\]*\"", "", command.replace("\\\n", " "))
    if not command.startswith("transformula ") or re.search(r"[^\w\s=./:,+@%-]", unquoted):
        return None
    return shlex.split(command.replace("\\\n", " "))[1:]
