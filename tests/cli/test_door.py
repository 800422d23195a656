"""The door: verbs, exit statuses, and what must not be loaded for an answer in no time."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import transformula
from transformula import errors
from transformula.cli import door, main
from transformula.tasks.base import tasks


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, as typed, in a process of its own."""
    return subprocess.run([sys.executable, "-m", "transformula", *arguments], capture_output=True, text=True)


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {verb} " in shown for verb in door.all_verbs())
    assert "exit status" in shown
    for typed in ("--version", "-V"):
        assert main([typed]) == 0
        assert capsys.readouterr().out == f"transformula {transformula.__version__}\n"
    assert main(["--version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": transformula.__version__}
    assert main(["--version", "now"]) == 2


def test_a_verb_is_a_function_of_its_name_in_one_of_the_files() -> None:
    door.load_verbs()
    there = {f"transformula.cli.{file}": vars(sys.modules[f"transformula.cli.{file}"]) for file in door.FILES}
    for name, command in door.VERBS.items():
        file = there[command.run.__module__]
        assert command.run in (file.get(name.replace("-", "_")), file.get(f"{name}_")), name
    names = [name for file in there for name in door.VERBS if door.VERBS[name].run.__module__ == file]
    assert [name for name in door.all_verbs() if name in door.VERBS and name != "train"] == names[1:]


def test_no_verb_shows_the_verbs_and_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and all(f"  {verb} " in shown.err for verb in door.all_verbs())


def test_help_of_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    pages = []
    for typed in (["train", "--help"], ["help", "train"], ["--help", "train"]):
        with pytest.raises(SystemExit) as end:
            main(typed)
        pages.append(capsys.readouterr().out)
        assert end.value.code == 0
    assert pages[0] == pages[1] == pages[2] and "transformula train" in pages[0]
    assert main(["help"]) == 0
    assert main(["help", "tarin"]) == 2
    assert "did you mean train" in capsys.readouterr().err


def page(*typed: str) -> str:
    """What the help of a verb prints."""
    command = door.command_of(typed[0], typed[1:])
    return command.parser(typed[1:]).format_help()


@pytest.mark.parametrize("verb", ["train", "compare"])
def test_help_is_a_screen_of_what_matters_and_all_of_it_where_that_is_asked(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for typed in ([verb, "--help", "all"], [verb, "-h", "all"], ["help", verb, "all"], [verb, "--help"]):
        with pytest.raises(SystemExit):
            main(typed)
        shown.append(capsys.readouterr().out)
    whole, short = (set(re.findall(r"^  (--[\w-]+)", text, re.MULTILINE)) for text in (shown[0], shown[3]))
    assert shown[0] == shown[1] == shown[2] and short < whole and len(short) == 10
    assert f"options: transformula {verb} --help all\n" in shown[3] and shown[3].count(f"  transformula {verb} ") == 2
    for group in ("data", "training", "model"):
        assert f"\n{group}:\n  --" in shown[3]
    with pytest.raises(errors.InputError, match=f"see: transformula {verb} --help all"):
        door.dispatch([verb, "--hlep", "1", "--wat"])


@pytest.mark.parametrize("task", tasks.names())
def test_the_help_of_each_task_fits_on_a_screen(task: str) -> None:
    for verb in ("train", "compare"):
        lines = page(verb, "--task", task, "--help").splitlines()
        assert len(lines) <= 40 and max(map(len, lines)) <= 100
        own = {f"--{key.replace('_', '-')}" for key in tasks.get(task).settings.model_fields}
        assert own <= set(re.findall(r"--[\w-]+", page(verb, "--task", task, "--help", "all")))


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["train", "compare"])
def test_the_examples_of_the_short_help_work(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for example in door.VERBS[verb].examples[: 2 if verb == "train" else 1]:  # the other one takes minutes
        assert main(shlex.split(example)[1:]) == 0


@pytest.mark.parametrize("verb", door.all_verbs())
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


@pytest.mark.parametrize("typed", door.ELSEWHERE)
def test_a_verb_of_other_programs_names_ours(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([typed, "runs/first"]) == 2
    said = capsys.readouterr().err
    assert f"unknown verb {typed!r}; did you mean {door.ELSEWHERE[typed][0]}" in said
    assert set(door.ELSEWHERE[typed]) <= set(door.all_verbs()) and typed not in door.all_verbs()


def test_what_stands_where_a_verb_is_expected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["x = x + mlp(x)"]) == 2
    assert "transformula explain" in capsys.readouterr().err
    assert main(["--quiet", "train"]) == 2
    assert "options stand after the verb" in capsys.readouterr().err


def test_what_the_machine_refuses_is_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: list[str]) -> int:
        raise OSError(28, "No space left on device", "runs/first/log.jsonl")

    monkeypatch.setattr(door, "dispatch", fail)
    assert main(["train"]) == 1
    assert capsys.readouterr().err == "error: runs/first/log.jsonl: No space left on device\n"


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (errors.InputError("wrong"), 2, "error: wrong"),
        (errors.RunError("failed"), 1, "error: failed"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 1, "error: there is no memory for this: end other programs, raise the limit"),
        (ImportError("libtorch.so: failed to map segment from shared object"), 1, "no memory for this (libtorch"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes"), 1, "no memory for this (DefaultCPU"),
        (SystemError("error return without exception set"), 1, "no memory for this (error return"),
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


@pytest.mark.parametrize(
    "raised", [ImportError("no module called x"), RuntimeError("a defect of ours"), SystemError("bad argument")]
)
def test_other_errors_of_theirs_keep_their_traceback(raised: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: list[str]) -> int:
        raise raised

    monkeypatch.setattr(door, "dispatch", fail)
    with pytest.raises(type(raised)):
        main(["cache"])


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
