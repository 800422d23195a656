"""Fenced blocks of a Markdown page, and running them.

    ```python      executed, all of a page in one namespace, in order, in an empty folder
    ```output      after one of those: what it printed
    ```console     lines after `$ ` are run by a shell; what stands below each is what it prints

In what is printed `...` stands for anything, on a line of its own for any lines. A command that shows `error:` must
fail, any other must not. `<!-- not run: reason -->` above a block leaves it out; `<!-- slow: reason -->` leaves it to
the longer tests, and as the first line of a page `<!-- slow page: reason -->` leaves all of it to them. Blocks of other
kinds (yaml, text, ...) are for reading. `<!-- file: NAME -->` above a block writes it to that file and runs nothing.

A page shows what one run printed. Where another run, or another machine, prints something else, a comment above the
block says what is not compared; all else is, line by line and word by word:

    <!-- numbers: of one run -->       any number stands for any number (not the digits of a name, as in bf16)
    <!-- training: of one run -->      that, and no line that depends on how fast the machine is, such as evaluations
    <!-- not compared: REGEX -->       what the expression finds in a line, or the whole line where nothing else is left

`python -m tests.docs.blocks PAGE` runs a page and writes what its blocks print into it, but for commands that show
`...`; with `--wholly`, for those too.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.forked import Interpreter, run_verb

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)(?P<marks>```+)(?P<kind>\w*)\s*$")
COMMENT = re.compile(r"^<!-- (?P<what>not run|slow|file|numbers|training|not compared): (?P<why>.+?) -->$")
NUMBER = re.compile(r"(?<![\w.])(?<![A-Za-z_]-)[+-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")
TRAINING = r"^(step \d+: |  \||precision: |threads: |evaluation took ).*| \(better than step .*"
TRAINING += r"|(?<= in )(\d+ min )?[\d.]+ s(?= \(all)"
"""What a training run says that depends on the machine: how often it evaluates, in which numbers it computes, and how
long it takes."""

COLUMNS = re.compile(r" +|(?<=[-─━=]{3})[-─━=]+")
"""What the width of a number changes around it: spaces, and rules."""


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


def compared(text: str, marks: dict[str, str]) -> str:
    """What of a text is compared, by the comments above its block: a text in which the rest has no place, or is `0`."""
    for pattern in (marks.get("not compared"), TRAINING if "training" in marks else None):
        if pattern:
            left = ((row, re.sub(pattern, "", row)) for row in text.splitlines())
            text = "\n".join(rest.rstrip() for row, rest in left if rest.strip() or not row.strip())
    if "numbers" in marks or "training" in marks:
        text = COLUMNS.sub(lambda match: match[0][0] * (match[0][0] == " "), NUMBER.sub("0", text))
    return text


def fits(shown: str, printed: str, marks: dict[str, str] | None = None) -> bool:
    """Whether what was printed is what the page shows."""
    shown, printed = compared(shown, marks or {}), compared(printed, marks or {})
    pattern = ""
    for row in shown.strip("\n").splitlines():
        if row.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part.rstrip() if last else part) for part, last in parts(row)) + r"[ ]*\n"
    return re.fullmatch(pattern, printed.strip("\n") + "\n" if printed.strip() else "") is not None


def parts(row: str) -> list[tuple[str, bool]]:
    """The parts of a row between `...`, each with whether it is the last."""
    found = row.split("...")
    return [(part, n == len(found) - 1) for n, part in enumerate(found)]


def check(block: Block, place: str, command: str, shown: str, printed: str) -> None:
    """Raises AssertionError where a page shows something other than what was printed. A command may show nothing."""
    silent = command and not shown.strip()
    what = f"{command}\n" if command else ""
    assert silent or fits(shown, printed, block.marks), f"{place}: {what}printed\n{printed}\ninstead of\n{shown}"


Check = Callable[[Block, str, str, str, str], None]


def run_page(path: Path, folder: Path, slow: bool, check: Check = check) -> int:
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
                check(block, place, "", block.text, printed)
            elif block.kind == "console" and not left_out:
                for command, shown in commands(block.text):
                    check(block, place, command, shown, run_command(command, shown, place, folder))
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


def run_command(command: str, shown: str, place: str, folder: Path) -> str:
    """Run a command as typed and check its status; what it printed."""
    arguments = plain_arguments(command)
    if arguments is not None:
        status, printed = run_verb(arguments, folder, environment())
    else:
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment(), text=True, **both)
        status, printed = done.returncode, done.stdout
    failed = shown.lstrip().startswith("error:") or "\nerror:" in shown
    assert (status != 0) == failed, f"{place}: {command}\nended with {status}\n{printed}"
    return printed


def plain_arguments(command: str) -> list[str] | None:
    """What follows `transformula`, where a shell would do nothing but take the quotes off; else None."""
    unquoted = re.sub(r"'[^']*'|\"[^\"$`\\]*\"", "", command.replace("\\\n", " "))
    if not command.startswith("transformula ") or re.search(r"[^\w\s=./:,+@%-]", unquoted):
        return None
    return shlex.split(command.replace("\\\n", " "))[1:]


def renew(path: Path, wholly: bool) -> None:
    """Run a page and write what its blocks print into it; those that show `...` only if `wholly`."""
    found: dict[int, list[str]] = {}

    def note(block: Block, place: str, command: str, shown: str, printed: str) -> None:
        stays = ("..." in shown and not wholly) or (command and not shown.strip())
        rows = printed.replace(folder, "...").splitlines()
        kept = shown if stays else "\n".join(row.rstrip() for row in rows)
        found.setdefault(block.line, []).append(f"$ {command}\n{kept}".rstrip() if command else kept)

    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        os.environ["TRANSFORMULA_CACHE"] = cache
        run_page(path, Path(folder), slow=True, check=note)
    rows = path.read_text(encoding="utf-8").splitlines()
    for line in sorted(found, reverse=True):
        end = next(n for n in range(line, len(rows)) if rows[n].strip().startswith("```"))
        rows[line:end] = "\n".join(found[line]).strip("\n").splitlines()
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        if name != "--wholly":
            renew(Path(name).resolve(), "--wholly" in sys.argv)
