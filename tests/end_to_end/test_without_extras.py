"""Without optional packages each verb works, or names the extra that it needs before any work."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from transformula.cli import main

OPTIONAL = ("sacrebleu", "babel", "pyarrow", "sentencepiece", "datasets", "torchinfo", "sklearn")
FORMULA = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SIZE = ["--depth", "1", "--width", "16", "--heads", "2", "--threads", "1", "--precision", "float32", "--quiet"]
TEXT = ["train", FORMULA, *SIZE, "--context", "16", "--batch", "4", "--steps", "2"]
PAIRS = ["train", "translator", *SIZE, "--batch-tokens", "128", "--steps", "2"]
TRANSLATE = [*PAIRS, "--task", "translation"]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with data, a language model in runs/text and a summarizer in runs/rows."""
    folder = tmp_path_factory.mktemp("extras")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMULA_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        Path("text.txt").write_text("to be or not to be, that is the question\n" * 60)
        Path("rows.tsv").write_text("source\ttarget\n" + "".join(f"{n} and {n % 7}\t{n + n % 7}\n" for n in range(80)))
        for name in ("rows.parquet", "text.parquet", "rows.xlsx"):
            Path(name).write_bytes(b"is never read")
        Path("pages").mkdir()
        Path("pages/a.md").write_text("text")
        Path("pages/b.html").write_text("<p>text")
        Path("pictures").mkdir()
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save("pictures/0.png")
        Path("pictures/captions.tsv").write_text("file_name\ttext\n0.png\tblack\n")
        Path("sounds.tsv").write_text("path\tlabel\na.wav\tx\nb.wav\ty\n")
        recipe = {"recipe": {"about": "rows", "score": "BLEU", "at_least": 0}, "model": "translator"}
        recipe |= {"task": "translation", "data": "rows.tsv"}
        Path("recipe.yaml").write_text(json.dumps(recipe))
        assert main([*TEXT, "--data", "text.txt", "--out", "runs/text"]) == 0
        rows = ["--task", "summarization", "--data", "rows.tsv", "--tokenizer", "characters", "--out", "runs/rows"]
        assert main([*PAIRS, *rows]) == 0
        assert main([*TRANSLATE, *rows[2:6], "--written", "2", "--out", "runs/bleu"]) == 0
        yield folder


@pytest.fixture(autouse=True)
def there(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(work / "cache"))
    monkeypatch.chdir(work)


def block(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Let packages be as if they were not installed, their modules that were imported before included."""
    for name in [*sys.modules, *packages]:
        if name.partition(".")[0] in packages:
            monkeypatch.setitem(sys.modules, name, None)


REFUSED = {
    "train: BLEU": ([*TRANSLATE, "--data", "rows.tsv"], "sacrebleu", "transformula[translation]"),
    "train: resume": (["train", "--resume", "runs/bleu", "--steps", "4"], "sacrebleu", "transformula[translation]"),
    "evaluate: BLEU": (["evaluate", "runs/bleu"], "sacrebleu", "transformula[translation]"),
    "reproduce: BLEU": (["reproduce", "recipe.yaml"], "sacrebleu", "transformula[translation]"),
    "train: CLDR": ([*PAIRS, "--task", "summarization", "--data", "cldr-dates:en-de"], "babel", "transformula[cldr]"),
    "train: parquet of text": ([*TEXT, "--data", "text.parquet"], "pyarrow", "transformula[parquet]"),
    "train: parquet of rows": (
        [*PAIRS, "--task", "summarization", "--data", "rows.parquet"], "pyarrow", "transformula[parquet]"
    ),
    "train: a folder with a page": ([*TEXT, "--data", "pages"], "lxml", "transformula[documents]"),
    "train: a sheet": (
        [*PAIRS, "--task", "summarization", "--data", "rows.xlsx"], "openpyxl", "transformula[documents]"
    ),
    "evaluate: parquet": (["evaluate", "runs/rows", "--data", "rows.parquet"], "pyarrow", "transformula[parquet]"),
    "summarize: parquet": (["summarise", "runs/rows", "--input", "rows.parquet"], "pyarrow", "transformula[parquet]"),
    "train: unigram": (
        [*TEXT, "--data", "text.txt", "--tokenizer", "unigram"], "sentencepiece", "transformula[unigram]"
    ),
    "train: hub": ([*PAIRS, "--task", "summarization", "--data", "hf:a/b"], "datasets", "transformula[hub]"),
    "train: pictures": (
        ["train", "captioner", *SIZE, "--task", "captioning", "--data", "pictures", "--written", "0"], "PIL", "pillow"
    ),
    "train: sounds": (
        ["train", "pre-norm", *SIZE, "--task", "audio-classification", "--data", "sounds.tsv"], "soundfile",
        "transformula[sound]",
    ),
    "train: a curve": ([*TEXT, "--data", "text.txt"], "matplotlib", "matplotlib"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_the_extra_is_named_before_any_work(
    name: str, work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, package, install = REFUSED[name]
    block(monkeypatch, package)
    monkeypatch.setattr("transformula.model.build", lambda *_, **__: pytest.fail("a model was built"))
    before = sorted(work.rglob("*"))
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert "install it with: pip install" in said and install in said, said
    assert sorted(work.rglob("*")) == before, "something was left behind"


WORKS = {
    "train text": [*TEXT, "--data", "text.txt"],
    "train rows, ROUGE": [*PAIRS, "--task", "summarization", "--data", "rows.tsv", "--tokenizer", "characters"],
    "train rows, loss alone": [*TRANSLATE, "--data", "rows.tsv", "--tokenizer", "characters", "--written", "0"],
    "sample": ["sample", "runs/text", "to be", "--max-tokens", "3"],
    "summarize": ["summarise", "runs/rows", "1 and 1"],
    "translate": ["translate", "runs/bleu", "1 and 1"],
    "evaluate text": ["evaluate", "runs/text"],
    "evaluate rows": ["evaluate", "runs/rows"],
    "explain": ["explain", FORMULA],
    "summary": ["summary", FORMULA],
    "gallery": ["gallery", "show", "pre-norm"],
    "cache": ["cache"],
}


@pytest.mark.parametrize("name", WORKS)
def test_all_else_works(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    block(monkeypatch, *OPTIONAL)
    assert main(WORKS[name]) == 0, capsys.readouterr().err
