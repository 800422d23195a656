"""`transformula completion`: the script of each shell, and what it answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from transformula.cli import completion, main

pytest.importorskip("argcomplete")


def completed(line: str, folder: Path) -> list[str]:
    """What the program answers a shell whose line is typed so far."""
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n",
             "_ARGCOMPLETE_STDOUT_FILENAME": str(folder / "answer")}  # fmt: skip
    program = [sys.executable, "-m", "transformula"]
    subprocess.run(program, env={**os.environ, **asked}, cwd=folder, check=True, capture_output=True)
    return [word.strip() for word in (folder / "answer").read_text().split("\n")]


@pytest.mark.parametrize(
    ("line", "has", "lacks"),
    [
        ("transformula tr", {"train", "translate"}, {"sample", "--json"}),
        ("transformula explain --a", {"--ascii", "--after", "--after-step"}, {"--json", "--adamw"}),
        ("transformula explain pre-n", {"pre-norm"}, {"post-norm"}),
        ("transformula completion ", set(completion.SHELLS), {"train"}),
        ("transformula train model.yaml --precision b", {"bf16"}, {"float32"}),
        ("transformula evaluate runs/none --dev", {"--device"}, {"--data"}),
    ],
)
def test_a_line_is_completed(line: str, has: set[str], lacks: set[str], tmp_path: Path) -> None:
    words = set(completed(line, tmp_path))
    assert has <= words and not lacks & words


def test_files_stand_beside_the_names_of_the_gallery(tmp_path: Path) -> None:
    (tmp_path / "pre-mine.yaml").touch()
    assert {"pre-norm", "pre-mine.yaml"} <= set(completed("transformula summary pre-", tmp_path))


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_script_names_the_program(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "transformula" in capsys.readouterr().out


def test_bash_takes_the_script(tmp_path: Path) -> None:
    """The function that the script announces answers as bash calls it."""
    (tmp_path / "transformula").write_text(f'#!/bin/bash\nexec {sys.executable} -m transformula "$@"\n')
    (tmp_path / "transformula").chmod(0o755)
    typed = """
    source <(transformula completion bash)
    COMP_LINE="transformula gall" COMP_POINT=17 COMP_TYPE=9
    $(complete -p transformula | sed 's/.*-F \\([^ ]*\\).*/\\1/') transformula gall transformula
    echo "${COMPREPLY[@]}"
    """
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert done.stdout.strip() == "gallery", done.stderr


def test_without_the_package_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    assert main(["completion", "bash"]) == 2
    assert "pip install 'transformula[completion]'" in capsys.readouterr().err
