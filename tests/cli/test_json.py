"""--json: each verb prints one object on standard output, of a result and of an error, and nothing else there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.api.translator import translator, write_pictures, write_rows
from tests.tasks.tones import write_tones
from transformula import train
from transformula.cli import door, main
from transformula.cli.output import as_json

SIZES = "--depth 1 --width 8 --heads 1 --batch 2 --precision float32 --quiet --threads 1".split()
TEXT = "--data text.txt --tokenizer characters --context 16 --steps 2".split()
PREPARED = "text.txt --validation text.txt --overlap keep --tokenizer bytes --workers 1".split()
GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 40, "n_positions": 16, "n_embd": 8,
        "n_layer": 1, "n_head": 2}  # fmt: skip
EASY = {
    "train": [["pre-norm", *TEXT, "--out", "new", *SIZES]],
    "sample": [["text", "the cat", "dog", "--max-tokens", "3"], ["text", "the", "--max-tokens", "3"]],
    "translate": [["translator", "hund", "katze", "--n-best", "2"], ["translator", "hund", "--output", "written.en"]],
    "summarize": [["summariser", "hund"]],
    "caption": [["captioner", "pictures/1.png"]],
    "transcribe": [["hearing", "0.wav", "1.wav"]],
    "predict": [["classification", "the cat", "a dog"], ["tagging", "the cat"], ["text", "the", "--max-tokens", "3"]],
    "classify": [["classification", "the cat", "a dog", "--n-best", "2"]],
    "tag": [["tagging", "the cat"]],
    "answer": [["question-answering", "what?", "--context", "text.txt"]],
    "embed": [["sentence-embeddings", "the cat", "a dog"]],
    "chat": [["dialogue", "hello"]],
    "score": [["reward-model", "who is 3?\tthe cat"]],
    "fill": [["masked", "the [MASK] sees"]],
    "choose": [["text", "the cat", "--choices", "sees", "dog"]],
    "evaluate": [["text"], ["translator", "--beam", "1"]],
    "distill": [["translator", "--out", "targets.jsonl", "--beam", "1"],
                ["text", "--out", "texts.jsonl", "--rows", "2", "--max-tokens", "3", "--prompt-tokens", "4"]],
    "prepare": [[*PREPARED, "--out", "tokens"], [*PREPARED, "--out", "part", "--part", "1/2"]],
    "repeat": [["text", "--quiet"]],
    "reproduce": [[], ["recipe.yaml", "--quiet"]],
    "explain": [["pre-norm"]],
    "summary": [["pre-norm"]],
    "plan": [["gpt2", "--tokens", "1B", "--gpu", "h100", "--gpus", "2", "--price", "2"]],
    "gallery": [["list"], ["search", "sandwich"], ["show", "pre-norm"], ["draw", "pre-norm"],
                ["draw", "pre-norm", "--out", "drawn.svg"], ["diff", "pre-norm", "post-norm"], ["--like", "pre-norm"]],
    "export": [["text", "--to", "pytorch", "--out", "exported"]],
    "import": [["text/best", "--format", "transformula", "--out", "imported"]],
    "inspect": [["text", "attention"], ["translator", "attention", "--text", "hund", "--figure", "maps.svg"],
                ["classification", "attention", "--rows", "2"], ["tagging", "attention", "--text", "the cat"],
                ["captioner", "attention"], ["text", "norms", "--rows", "2"], ["captioner", "norms", "--rows", "2"],
                ["tagging", "gradients"], ["text", "lens", "--text", "the cat"], ["classification", "lens"],
                ["translator", "lens", "--stack", "encoder", "--text", "hund"], ["masked", "collapse", "--rows", "2"],
                ["translator", "ablate", "--rows", "2", "--with", "mean", "--at", "decoder.layers.1"],
                ["text", "patch", "--text", "the cat", "--other", "the dog", "--figure", "patch.html"]],
    "check-family": [["gpt2", "tiny/config.json", "--fast"]],
    "compare": [["pre-norm", "rezero", *TEXT, *SIZES, "--sizes", "1", "--dry-run"]],
    "search": [["--base", "pre-norm", *TEXT, *SIZES, "--steps", "90", "--rounds", "1", "--dry-run"]],
    "curves": [["text", "--out", "drawn.svg"]],
    "prune": [["text", "--dry-run"], ["text", "--yes"]],
    "words": [[], ["attention"]],
    "cache": [["list"], ["clear"]],
    "completion": [["bash"]],
}  # fmt: skip
"""Verb -> what is typed after it, in the folder of `work`."""

ROWS: dict[str, Callable[[int, str], dict[str, Any]]] = {
    "classification": lambda n, word: {"text": f"the {word} {n}", "label": word},
    "tagging": lambda n, word: {"tokens": ["the", word, str(n)], "tags": ["DET", "NOUN", "NUM"]},
    "question-answering": lambda n, word: {
        "question": f"who is {n}?",
        "context": f"the {word} is {n}",
        "answers": [word],
    },
    "sentence-embeddings": lambda n, word: {"text": f"the {word} {n}", "text_2": f"{n} of a {word}", "score": n % 5},
    "dialogue": lambda n, word: {
        "messages": [{"role": "user", "content": f"who is {n}?"}, {"role": "assistant", "content": f"the {word}"}]
    },
    "reward-model": lambda n, word: {
        "prompt": f"who is {n}?", "chosen": f"the {word}", "rejected": f"no {word} {n % 3}",
    },  # fmt: skip
    "masked": lambda n, word: {"text": f"the {word} sees {n} of them " * 9},
}
"""Task -> row number n of its data."""

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "output.md"


def documented() -> Iterator[tuple[set[str], set[str], bool]]:
    """What the page says: (what is typed, the keys of the object, whether there may be more)."""
    table = PAGE.read_text(encoding="utf-8").split("| typed | keys of the object |")[1].split("\n\n")[0]
    for row in table.splitlines()[2:]:
        typed, keys = row.strip("| ").split(" | ")
        always, sometimes, _ = re.sub(r"\([^)]*\)", "", keys).partition("says of itself")
        yield quoted(typed), quoted(always), bool(sometimes)


def quoted(text: str) -> set[str]:
    """What stands as code in a line of Markdown."""
    return set(re.findall(r"`([^`]+)`", text))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a text, rows, pictures, and models of one step that write."""
    folder = tmp_path_factory.mktemp("json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMULA_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        write_rows(folder)
        write_pictures(folder)
        (folder / "text.txt").write_text("the cat sees the dog. " * 50)
        claim = (
            "recipe: {about: none, score: loss, at_most: 99}\nmodel: pre-norm\ndata: text.txt\ntokenizer: characters\n"
        )
        sizes = "depth: 1\nwidth: 8\nheads: 1\ncontext: 16\nbatch: 2\nsteps: 1\nprecision: float32\n"
        (folder / "tiny").mkdir()
        (folder / "tiny" / "config.json").write_text(json.dumps(GPT2))
        (folder / "recipe.yaml").write_text(claim + sizes)
        assert main(["train", "pre-norm", *TEXT, "--out", "text", *SIZES]) == 0
        translator(folder, "translator", steps=1, depth=1, width=8, heads=1)
        how: dict[str, Any] = {"steps": 1, "written": 2, "width": 8, "heads": 1, "precision": "float32", "quiet": True}
        rows = {"data": "train.{de,en}", "validation": "val.{de,en}"}
        train("small.yaml", task="summarization", out="summariser", tokenizer="bpe", **rows, **how)
        pictures = {"data": "pictures/captions.tsv", "source": "file_name", "target": "text"}
        train("seeing.yaml", task="captioning", out="captioner", tokenizer="bytes", **pictures, **how)
        write_tones(folder, 20)
        speech = {"task": "speech-recognition", "data": "tones.tsv", "split": 0.2, "depth": 1, "out": "hearing"}
        train("pre-norm", **speech, **{key: value for key, value in how.items() if key != "written"})
        for task, row in ROWS.items():
            rows_of_task = (json.dumps(row(number, "cat" if number % 2 else "dog")) for number in range(60))
            (folder / f"{task}.jsonl").write_text("\n".join(rows_of_task))
            chosen = {} if task == "tagging" else {"tokenizer": "bytes"}
            small = {
                "steps": 1,
                "depth": 1,
                "width": 8,
                "heads": 1,
                "precision": "float32",
                "quiet": True,
                "threads": 1,
            }
            train("pre-norm", task=task, data=f"{task}.jsonl", out=task, split=0.2, **chosen, **small)
        yield folder


def printed(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> tuple[int, dict[str, Any], str]:
    """Exit status, the object on standard output, and what stands on standard error."""
    capsys.readouterr()
    status = main(arguments)
    shown = capsys.readouterr()
    data = json.loads(shown.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert isinstance(data, dict)
    return status, data, shown.err


def test_every_verb_is_tried() -> None:
    assert {*EASY, "serve", "studio", "mcp"} == {*door.all_verbs()}, "servers end when they are stopped: tests/serving"


@pytest.mark.parametrize("verb", EASY)
def test_a_result_is_one_object(verb: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for typed in EASY[verb]:
        status, data, _ = printed(capsys, [verb, *typed, "--json"])
        assert status == 0 and "error" not in data, data
        rows = [row for row in documented() if {verb, " ".join([verb, *typed[:1]])} & row[0]]
        assert any(keys == set(data) or (more and keys <= set(data)) for _, keys, more in rows), (typed, set(data))


MISTAKES = {
    "check-family": ["gpt2", "missing"],
    "train": ["pre-norm", "--data", "missing.txt"],
    "sample": ["missing"],
    "translate": ["text", "hund"],
    "summarize": ["translator", "hund"],
    "caption": ["missing", "one.png"],
    "transcribe": ["missing", "one.wav"],
    "predict": ["missing", "a cat"],
    "classify": ["text", "a cat"],
    "tag": ["classification", "a cat"],
    "answer": ["question-answering", "what?", "--context", "missing.txt"],
    "embed": ["text", "a cat"],
    "chat": ["text", "hello"],
    "score": ["reward-model", "a reply without its message"],
    "fill": ["text", "a [MASK]"],
    "choose": ["text", "the cat", "--choices", "dog"],
    "evaluate": ["missing"],
    "serve": ["missing"],
    "studio": ["--port", "99999"],
    "mcp": ["--hunt", "missing"],
    "distill": ["classification", "--out", "new.jsonl"],
    "prepare": ["missing.txt"],
    "repeat": ["missing"],
    "prune": ["missing"],
    "reproduce": ["missing.yaml"],
    "explain": ["x = x + attenion(norm(x))"],
    "summary": ["pre-norm", "--depth", "many"],
    "plan": ["gpt2", "--tokens", "ten", "--gpu", "h100"],
    "gallery": ["show", "pre-nrm"],
    "export": ["text", "--to", "pytorhc", "--out", "exported"],
    "import": ["missing", "--format", "pytorch", "--out", "imported"],
    "inspect": ["missing", "attention"],
    "compare": ["pre-norm", "pre-nrm"],
    "search": ["--base", "pre-nrm"],
    "curves": ["missing"],
    "words": ["attenion"],
    "cache": ["burn"],
    "completion": ["tcsh"],
}


@pytest.mark.parametrize("verb", door.all_verbs())
@pytest.mark.parametrize("typed", ["a mistake", "an unknown option"])
def test_an_error_is_one_object(verb: str, typed: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = MISTAKES[verb] if typed == "a mistake" else ["pre-norm", "--nonsense"]
    status, data, beside = printed(capsys, [verb, *arguments, "--json"])
    assert beside == "" and list(data) == ["error"]
    assert {"kind", "message", "near", "exit_status"} <= set(data["error"])
    assert data["error"]["exit_status"] == status == 2
    assert main([verb, *arguments]) == status
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("error: ")
    assert (data["error"]["message"] in shown.err) or verb == "train"  # a hash of the data may stand in between


@pytest.mark.parametrize("arguments", [["explian"], ["fit"], ["--quiet", "train"], ["x = x"], ["--version", "now"]])
def test_an_error_at_the_door_is_one_object(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, data, beside = printed(capsys, [*arguments, "--json"])
    assert status == data["error"]["exit_status"] == 2 and beside == ""


def test_an_error_says_as_data_what_its_message_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    error = printed(capsys, ["explain", "x = x + attenion(norm(x))", "--json"])[1]["error"]
    assert error["kind"] == "FormulaError" and error["code"] == "unknown-word" and "attention" in error["near"]
    assert (error["part"], error["line"], error["column"], error["text"]) == ("layer", 1, 9, "attenion")
    path = tmp_path / "model.yaml"
    path.write_text("language: 1\nlayer: |\n  x = x + mlp(norm(x))\n  x = x + attenion(norm(x))\n")
    error = printed(capsys, ["explain", str(path), "--json"])[1]["error"]
    assert (error["file"], error["line"], error["column"], error["text"]) == (str(path), 4, 11, "attenion")
    error = printed(capsys, ["gallery", "show", "pre-nrm", "--json"])[1]["error"]
    assert error["kind"] == "UnknownName" and error["name"] == "pre-nrm" and "pre-norm" in error["known"]
    error = printed(capsys, ["train", "pre-norm", "--steps", "-1", "--batch", "x", "--json"])[1]["error"]
    assert error["kind"] == "ConfigError" and len(error["mistakes"]) == 2


def test_after_two_dashes_nothing_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gallery", "search", "--", "--json"]) == 0
    assert capsys.readouterr().out.startswith("nothing in the gallery has: --json")


def test_numbers_that_are_not_finite_are_null() -> None:
    data = {"loss": float("nan"), "rates": [1.0, float("inf"), (float("-inf"),)], "path": Path("a"), 3: np.float32(2)}
    assert json.loads(as_json(data)) == {"loss": None, "rates": [1.0, None, [None]], "path": "a", "3": 2.0}
    with pytest.raises(TypeError, match="object is no plain data"):
        as_json({"thing": object()})


def test_one_object_and_a_format_of_lines_contradict_each_other(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for beside in (["--scores"], ["--format", "jsonl"]):
        assert "leave --format and --scores out" in str(
            printed(capsys, ["translate", "translator", "a", "--json", *beside])
        )
