"""What a command loads of the package, and how often it reads a text: each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import transformula

PRE = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SIZES = "--tokenizer characters --depth 2 --width 32 --heads 2 --context 32 --batch 4 --steps 2 --threads 1".split()

# A module may be added where a limit allows it; what loads all files of a room to find one name is far above it.
EXPLAIN, PARSES = 56, 71
QUIET, TRAIN, SAMPLE = 220, 245, 151

COUNTED = """
import json, sys
from importlib import import_module
from transformula.cli import main

target, functions, *typed = sys.argv[1:]
calls = {}

def counted(module, name):
    function, calls[name] = getattr(module, name), 0

    def call(*given, **more):
        calls[name] += 1
        return function(*given, **more)

    setattr(module, name, call)
    for other in list(sys.modules.values()):
        if other.__name__.startswith("transformula") and getattr(other, name, None) is function:
            setattr(other, name, call)

for named in functions.split():
    module, _, name = named.rpartition(".")
    counted(import_module(f"transformula.language.{module}"), name)
status = main(typed)
loaded = sorted(name for name in sys.modules if name.startswith("transformula"))
json.dump({"status": status, "loaded": loaded, "calls": calls}, open(target, "w"))
"""


READ = "check.check model_text.from_formula model_file.read_text"


def command(folder: Path, *typed: str, counted: str = READ) -> dict[str, Any]:
    """What a command loaded, and how often it called functions of `language`: by default those that read and check."""
    told = folder / "loaded.json"
    program = [sys.executable, "-c", COUNTED, str(told), counted, *typed]
    subprocess.run(program, cwd=folder, check=True, capture_output=True, timeout=300)
    found: dict[str, Any] = json.loads(told.read_text())
    assert found["status"] == 0
    return found


def test_a_run_loads_what_it_needs_and_reads_its_text_once(tmp_path: Path) -> None:
    (tmp_path / "fox.txt").write_text("the quick brown fox jumps over the lazy dog. " * 300)
    quiet = command(tmp_path, "train", PRE, "--data", "fox.txt", *SIZES, "--out", "quiet", "--quiet")
    assert len(quiet["loaded"]) <= QUIET, len(quiet["loaded"])
    # Checked before the data is read, and once more with the vocabulary that it has.
    assert quiet["calls"]["from_formula"] == 1 and quiet["calls"]["check"] <= 2
    for room in ("data.sets", "data.formats", "tokenizers", "interop.formats", "model.hooks"):
        here = [name for name in quiet["loaded"] if name.startswith(f"transformula.{room}.")]
        files = list(Path(*transformula.__path__, *room.split(".")).glob("[!_]*.py"))
        assert len(here) < len(files), f"all files of {room} are loaded"

    again = command(tmp_path, "train", "--resume", "quiet", "--steps", "3", "--quiet")
    assert again["calls"]["check"] == 1, "its text has the vocabulary of the data already"

    sampled = command(tmp_path, "sample", "quiet", "the", "--max-tokens", "3")
    assert len(sampled["loaded"]) <= SAMPLE, len(sampled["loaded"])
    assert sampled["calls"] == {"check": 1, "from_formula": 0, "read_text": 1}


def test_a_formula_is_explained_by_one_check(tmp_path: Path) -> None:
    """Its wiring is known of the layers that are there; a remedy is checked once, whatever is asked of it."""
    counted = "check.check parser.parse_python"
    sound = command(tmp_path, "explain", PRE, "--after", "x = norm(x)", counted=counted)
    assert len(sound["loaded"]) <= EXPLAIN, len(sound["loaded"])
    assert sound["calls"]["check"] == 1 and sound["calls"]["parse_python"] <= PARSES
    mended = command(tmp_path, "explain", PRE, counted=counted)
    assert mended["calls"]["check"] == 2


def test_a_run_that_says_where_its_model_can_leave(tmp_path: Path) -> None:
    (tmp_path / "fox.txt").write_text("the quick brown fox jumps over the lazy dog. " * 300)
    told = command(tmp_path, "train", PRE, "--data", "fox.txt", *SIZES, "--out", "run")
    assert len(told["loaded"]) <= TRAIN, len(told["loaded"])
