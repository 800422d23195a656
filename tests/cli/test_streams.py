"""Streams that cannot show a character, are full, closed, or whose reader left: no traceback, nothing lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = "error: standard output takes nothing more: No space left on device\n"


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line as a person types it; T is the program."""
    typed = f'set -o pipefail; T="{sys.executable} -m transformula"; {command}'
    return subprocess.run(["bash", "-c", typed], capture_output=True, text=True, env={**os.environ, **environment})


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", "\\xe4\\u65e5"), ("utf-8", "ä日")])
def test_a_character_that_cannot_be_shown_is_its_escape(encoding: str, shown: str) -> None:
    done = shell("$T gallery search ä日 $'\\xff'", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"nothing in the gallery has: {shown} \\udcff")


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("$T explain pre-norm > /dev/full", 1, FULL),
        ("$T gallery --help > /dev/full", 1, FULL),
        ("$T explain nono --json > /dev/full", 1, FULL),
        ("$T explain nono 2> /dev/full", 2, ""),
        ("$T explain nono 2>&-", 2, ""),
        ("$T gallery >&- 2>&- <&-", 0, ""),
        ("$T --help >&-", 0, ""),
        ("$T gallery | true", 0, ""),
        ("$T train --help | true", 0, ""),
        ("$T gallery | head -1 > /dev/null", 0, ""),
        ("$T gallery show nono --json | true", 2, ""),
    ],
)
def test_full_closed_and_left(command: str, status: int, said: str) -> None:
    done = shell(command)
    assert (done.returncode, done.stderr, done.stdout) == (status, said, "")


PROGRAM = """\
import contextlib, os, sys
from transformula.cli.output import open_streams
open_streams()
for n in range(2000):
    print("telling", "x" * 100, file=sys.stderr, flush=True)
with open("file", "w") as file, contextlib.suppress(OSError):
    os.write(2, b"from a library")
print("done")
"""


@pytest.mark.parametrize("where", ["2> /dev/full", "2>&-", "2> >(head -c 1 > /dev/null)"])
def test_a_program_outlives_whoever_it_tells(where: str, tmp_path: Path) -> None:
    """And what is told never ends in a file that was opened later."""
    (tmp_path / "program.py").write_text(PROGRAM)
    done = shell(f"cd {tmp_path}; {sys.executable} program.py {where}")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert (tmp_path / "file").read_text() == ""


def test_files_keep_their_own_errors(tmp_path: Path) -> None:
    """What the machine refuses is an error of ours that names the file, not one of standard output."""
    done = shell(f"$T gallery draw pre-norm --out {tmp_path}/missing/a.svg; exit $?")
    assert done.returncode == 2 and "No such file" in done.stderr and "missing/a.svg" in done.stderr


def test_no_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from transformula.cli import main

    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("TRANSFORMULA_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    assert main(["cache"]) == 2
    assert "set HOME, or TRANSFORMULA_CACHE" in capsys.readouterr().err
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path))
    assert main(["cache"]) == 0


def test_a_small_plain_terminal_gets_the_same_page() -> None:
    plain = shell("$T gallery draw pre-norm")
    small = shell("$T gallery draw pre-norm", TERM="dumb", COLUMNS="10", LC_ALL="C")
    assert plain.returncode == 0 and "[norm]" in plain.stdout and plain.stdout == small.stdout
    ascii_only = shell("$T gallery draw pre-norm", PYTHONIOENCODING="ascii").stdout
    assert ascii_only.isascii() and "\\u" not in ascii_only and "[norm]" in ascii_only


TRAIN = (
    "$T train pre-norm --data text.txt --tokenizer characters --depth 1 --width 8 --heads 1 --context 16 --batch 2"
    " --precision float32 --steps 5 --out run"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", ["2>&1 | head -1", "> /dev/full 2> /dev/full", ">&- 2>&- <&-", "| true", "2>&1 | true"]
)
def test_a_run_goes_to_its_end_whoever_watches(where: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the cat sees the dog. " * 50)
    shell(f"cd {tmp_path}; {TRAIN} {where}", TRANSFORMULA_CACHE=str(tmp_path / "cache"))
    assert '"event": "end", "step": 5' in (tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1]
    assert (tmp_path / "run" / "summary.md").is_file() and (tmp_path / "run" / "best").is_dir()


@pytest.mark.slow
def test_a_sample_in_ascii(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("日本語 ä “ß” " * 200)
    cache = str(tmp_path / "cache")
    assert shell(f"cd {tmp_path}; {TRAIN} --quiet", TRANSFORMULA_CACHE=cache, PYTHONIOENCODING="ascii").returncode == 0
    done = shell(f"cd {tmp_path}; $T sample run 日 --max-tokens 8", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and done.stdout.startswith("\\u65e5") and done.stderr == ""
