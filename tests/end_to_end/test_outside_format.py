"""A format of files from one file outside the package, for language modeling and for translation."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from transformula.cli import main
from transformula.data.format import formats

FORMAT = '''
from transformula.data.format import formats
from transformula.data.lines import lines_of


@formats.register("parallel")
def read_parallel(path, options):
    """A line a row: German ||| English."""
    for line, text in lines_of(path):
        german, english = text.split(" ||| ")
        yield line, {"de": german, "en": english}
'''
FORMULA = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SMALL = ["--depth", "1", "--width", "16", "--heads", "2", "--steps", "2", "--precision", "float32", "--quiet"]


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("own_format.py").write_text(FORMAT)
    Path("rows.parallel").write_text("".join(f"Satz {n} von {n % 7} ||| sentence {n} of {n % 7}\n" for n in range(80)))
    yield
    sys.modules.pop("own_format", None)
    formats._known.pop("parallel", None)


def test_one_file_serves_every_task() -> None:
    both = ["--data", "rows.parallel", "--tokenizer", "characters", "--use", "own_format"]
    assert main(["train", FORMULA, *SMALL, *both, "--column", "en", "--context", "16", "--out", "runs/lm"]) == 0
    assert main(["evaluate", "runs/lm", "--use", "own_format"]) == 0
    pairs = ["--task", "translation", "--family", "encoder-decoder", "--batch-tokens", "200", "--written", "0"]
    assert main(["train", FORMULA, *SMALL, *both, *pairs, "--source", "de", "--out", "runs/mt"]) == 0
    assert main(["translate", "runs/mt", "Satz 3 von 3", "--max-length", "3"]) == 0
    texts = Path("runs/lm/config.yaml").read_text(), Path("runs/mt/config.yaml").read_text()
    assert all("own_format" in text for text in texts)
