"""Machines that lack something: a home that can be written, a locale, memory; and ten processes that begin at once.
Each verb works, or ends in an error that says what to do."""

from __future__ import annotations

import functools
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked import run_verb, start_verb
from transformula.cli import main

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SIZE = "--depth 1 --width 16 --heads 2 --threads 1 --precision float32 --quiet".split()
TEXT = ["train", LAYER, *SIZE, *"--context 16 --batch 4 --steps 2 --data text.txt --tokenizer characters --out".split()]
ROWS = ["train", LAYER, *SIZE, "--task", "classification", "--data", "rows.tsv", "--tokenizer", "characters"]
ROWS += ["--epochs", "1", "--out"]
VERBS = {
    "train": [*TEXT, "out"],
    "train rows": [*ROWS, "out"],
    "resume": ["train", "--resume", "runs/text", "--steps", "4", "--quiet"],
    "sample": ["sample", "runs/text", "Äpfel", "--max-tokens", "3"],
    "classify": ["classify", "runs/rows", "schön 1 gut"],
    "evaluate": ["evaluate", "runs/text"],
    "inspect": ["inspect", "runs/text", "attention", "--text", "Äpfel", "--figure", "out.html"],
    "explain": ["explain", LAYER],
    "summary": ["summary", LAYER],
    "gallery": ["gallery", "draw", "pre-norm"],
    "export": ["export", "runs/text", "--to", "pytorch", "--out", "out"],
    "curves": ["curves", "runs/text", "--out", "out.svg"],
    "cache": ["cache"],
    "prepare": ["prepare", "texts", "--out", "out", "--tokenizer", "bytes", "--workers", "1", "--split", "0.3"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with texts that are no ASCII, and two runs."""
    folder = tmp_path_factory.mktemp("poor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMULA_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        Path("text.txt").write_text("Äpfel und Öl, größer als 日本\n" * 60, encoding="utf-8")
        rows = (f"{('schön', 'öde')[n % 2]} {n} gut\t{('güt', 'übel')[n % 2]}\n" for n in range(80))
        Path("rows.tsv").write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
        Path("texts").mkdir()
        for number in range(12):
            Path(f"texts/{number}.txt").write_text(f"Text Nummer {number}, über Öl.\n" * 9, encoding="utf-8")
        assert main([*TEXT, "runs/text"]) == 0
        assert main([*ROWS, "runs/rows"]) == 0
    yield folder


@pytest.fixture
def work(made: Path, tmp_path: Path) -> Path:
    """A copy of it, which a verb may change."""
    for name in ("text.txt", "rows.tsv", "texts", "runs"):
        subprocess.run(["cp", "-r", str(made / name), str(tmp_path)], check=True)
    return tmp_path


def well_or_told(status: int, printed: str, *said: str) -> None:
    """It worked, or an error says what to do."""
    assert "Traceback" not in printed and "Error:" not in printed.replace("error:", ""), printed
    assert status == 0 or (status in (1, 2) and any(each in printed for each in said)), (status, printed)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_home_that_cannot_be_written(work: Path, verb: str) -> None:
    """Not even by root: it is no folder."""
    environment = {key: value for key, value in os.environ.items() if key not in ("TRANSFORMULA_CACHE", "MPLCONFIGDIR")}
    status, printed = run_verb(VERBS[verb], work, {**environment, "HOME": "/dev/null/home"})
    well_or_told(status, printed, "name a folder that can with TRANSFORMULA_CACHE")
    with_cache = {**environment, "HOME": "/dev/null/home", "TRANSFORMULA_CACHE": str(work / "cache")}
    if status:
        assert run_verb(VERBS[verb], work, with_cache)[0] == 0, "the remedy of the error helps"


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["train", "sample", "classify", "evaluate", "inspect", "gallery", "prepare"])
def test_the_locale_c(work: Path, verb: str) -> None:
    """In a process that begins with it: text, also what is typed, is UTF-8."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "PYTHONUTF8"))}
    environment |= {"LC_ALL": "C", "TRANSFORMULA_CACHE": str(work / "cache")}
    command = [sys.executable, "-m", "transformula", *VERBS[verb]]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


def limited(more: int) -> None:
    """Let this process have so many MiB beside what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + more * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("more", [1, 4, 8, 12, 14, 16, 18, 64])
@pytest.mark.parametrize("verb", ["train", "sample", "classify", "evaluate", "explain", "export", "prepare"])
def test_little_memory(work: Path, verb: str, more: int) -> None:
    environment = {**os.environ, "TRANSFORMULA_CACHE": str(work / "cache")}
    status, printed = run_verb(VERBS[verb], work, environment, functools.partial(limited, more))
    if status == -signal.SIGABRT:  # a library in Rust says so, and ends the process
        assert "memory allocation of" in printed
    else:
        well_or_told(status, printed, "memory", "Memory")


@pytest.mark.slow
def test_ten_processes_that_begin_at_once_with_one_cold_cache(work: Path) -> None:
    environment = {**os.environ, "TRANSFORMULA_CACHE": str(work / "cache")}
    typed = [each if each != "characters" else "bpe" for each in TEXT]  # one that is trained, and kept, too
    outputs = [work / f"output-{number}" for number in range(10)]
    processes = [start_verb([*typed, f"out-{n}"], work, environment, output) for n, output in enumerate(outputs)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 10, outputs[0].read_text()
    found = [json.loads((work / f"out-{n}" / "manifest.json").read_text())["task"] for n in range(10)]
    assert all(each == found[0] for each in found)
    kept = [sorted((work / f"out-{number}").glob("best/*.safetensors")) for number in range(10)]
    weights = [[path.read_bytes() for path in paths] for paths in kept]
    assert weights[0] and all(each == weights[0] for each in weights)
    folders = [kind for kind in (work / "cache").iterdir() if kind.is_dir()]
    kinds = {kind.name: sorted(path.name for path in kind.iterdir()) for kind in folders}
    assert len(kinds["tokens"]) == 2 and len(kinds["tokenizer"]) == 1
    assert not [name for names in kinds.values() for name in names if name.startswith(".")]
