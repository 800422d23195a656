"""`prepare`, `export` and `compare` are killed at random moments: the same command once more gives what it would have
given, and nothing partial is left."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.forked import run_verb, start_verb
from transformula.cli import main

KILLS = int(os.environ.get("KILLS_OF_VERBS", "22"))
"""Of each verb: 66 signals, unless the environment says how many."""
ENDED = {"compare": (0, 3)}
"""Exit statuses where a verb came to its end: 3 of a comparison that decides nothing."""

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SIZE = "--depth 1 --width 16 --heads 2 --threads 1 --quiet --context 16 --tokenizer characters".split()
VERBS = {
    "export": ["export", "runs/text", "--to", "torch-export", "--out", "out"],
    "prepare": ["prepare", "texts", "--out", "out", "--tokenizer", "bytes", "--workers", "1", "--split", "0.3"],
    "compare": [
        *["compare", LAYER, "post-norm", "--data", "text.txt", "--depth", "1", "--width", "16", "--heads", "2"],
        *["--context", "16", "--tokenizer", "characters", "--batch", "4", "--steps", "6", "--seeds", "2"],
        *["--lr", "0.01", "--out", "out"],
    ],
}  # fmt: skip


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a text, some texts and a run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))
    Path("text.txt").write_text("some text to learn from, and more\n" * 80)
    Path("texts").mkdir()
    for number in range(8):
        Path(f"texts/{number}.txt").write_text(f"text number {number}, and more of it.\n" * 40)
    typed = ["train", LAYER, *SIZE, "--steps", "2", "--batch", "4", "--data", "text.txt", "--out", "runs/text"]
    assert main(typed) == 0
    yield tmp_path


def content_of(verb: str, folder: Path) -> Mapping[str, Any]:
    """What a verb left: the bytes of each file; of a comparison, whose reports hold times, the losses of its runs."""
    if verb == "compare":
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        return {f"{key}": value for key, value in leaves(results) if key[-1] in ("loss", "bits_per_byte", "variant")}
    # a program of torch holds the time at which it was made
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pt2")
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in paths}


def leaves(value: Any, key: tuple[Any, ...] = ("",)) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The numbers and texts in plain data, each with its keys."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in inside:
        yield from leaves(inner, (*key, name))
    if not isinstance(value, (dict, list)):
        yield key, value


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_is_killed_is_called_again(verb: str, work: Path) -> None:
    typed, environment, ended = VERBS[verb], {**os.environ}, ENDED.get(verb, (0,))
    status, said = run_verb(typed, work, environment)
    assert status in ended, said
    whole = content_of(verb, work / "out")
    assert whole
    there = sorted(path.name for path in work.iterdir())
    (work / "out").rename(work / "whole")
    begun = time.monotonic()
    run_verb(typed, work, environment)
    lasting = time.monotonic() - begun  # of the second, which finds all that is kept warm
    (work / "out").rename(work / "whole-0")
    killed = number = 0
    while killed < KILLS:
        process = start_verb(typed, work, environment, work / "said")
        time.sleep(random.random() * lasting)
        process.kill()
        process.join()
        killed += process.exitcode == -signal.SIGKILL
        number += 1
        assert process.exitcode in (*ended, -signal.SIGKILL), (work / "said").read_text()
        if verb == "export" and (work / "out").exists():
            assert content_of(verb, work / "out") == whole, "a folder is there whole or not at all"
        if process.exitcode in ended:
            assert content_of(verb, work / "out") == whole
            (work / "out").rename(work / f"whole-{number}")
    status, said = run_verb(typed, work, environment)
    assert status in ended, said
    assert content_of(verb, work / "out") == whole
    left = {path.name for path in work.iterdir() if not path.name.startswith(("whole", "said"))}
    assert left == set(there), "nothing partial is left"
