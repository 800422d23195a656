"""The door: verbs, exit statuses, and what must not be loaded for an answer in no time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from transformula import errors
from transformula.cli import door, main


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, as typed, in a process of its own."""
    return subprocess.run([sys.executable, "-m", "transformula", *arguments], capture_output=True, text=True)


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {verb} " in shown for verb in door.VERBS)
    assert "exit status" in shown
    assert main(["--version"]) == 0
    assert main([]) == 2


def test_a_verb_is_a_file() -> None:
    files = {path.stem for path in Path(door.__file__).parent.glob("*.py")} - {"__init__", "door", "options", "writing"}
    assert files == set(door.VERBS)


@pytest.mark.parametrize("verb", door.VERBS)
def test_every_help_has_an_example_and_loads_no_torch(verb: str) -> None:
    program = (
        "import sys\nfrom transformula.cli import main\n"
        f"try: main([{verb!r}, '--help'])\nexcept SystemExit as end: assert end.code == 0\n"
        "print('LOADED', *sorted({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    help_text, loaded = done.stdout.split("LOADED")
    assert f"examples:\n  transformula {verb}" in help_text
    assert "exit status: 0 done" in help_text
    assert not {"torch", "numpy", "rich", "tokenizers", "matplotlib"} & set(loaded.split())


def test_an_unknown_verb_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explian"]) == 2
    assert "did you mean explain" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (errors.InputError("wrong"), 2, "error: wrong"),
        (errors.RunError("failed"), 1, "error: failed"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_become_messages_and_exit_statuses(
    raised: BaseException, status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: list[str]) -> int:
        raise raised

    monkeypatch.setattr(door, "dispatch", fail)
    assert main(["cache"]) == status
    shown = capsys.readouterr()
    assert said in shown.err and "Traceback" not in shown.err and shown.out == ""


def test_a_reader_that_has_read_enough_is_no_error() -> None:
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m transformula train --help | head -1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stderr == ""


def test_cache(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path))
    assert main(["cache"]) == 0
    assert str(tmp_path) in capsys.readouterr().out
    assert main(["cache", "clear", "--json"]) == 0
    assert '"freed": 0' in capsys.readouterr().out
    assert main(["cache", "burn"]) == 2
