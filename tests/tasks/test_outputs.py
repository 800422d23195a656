"""What a model returns, beside what a task needs: said before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from transformula import train
from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.tasks.base import outputs_of, tasks
from transformula.words import vocabulary

LAYER = "layer: x = x + attention(norm(x)); x = x + mlp(norm(x))\n"
SEVERAL = "output: |\n  logits = unembed(x)\n  size = linear(x, 2)\n"
ENCODER = "encoder:\n  causal: false\n  before: x = embed.words(source)\n  layer: x = x + mlp(norm(x))\n"
DECODER = "decoder:\n  before: x = embed.words(tokens)\n  layer: x = x + attention(x, memory)\n"


def checked(text: str, **numbers: int) -> Any:
    return check(read_text(text), vocabulary(), numbers)


def test_outputs_of() -> None:
    assert outputs_of(checked(LAYER, vocab=50)) == {"logits": 50}
    assert outputs_of(checked(LAYER + SEVERAL, vocab=50)) == {"logits": 50, "size": 2}
    assert outputs_of(checked(LAYER + "output: y = linear(mean(x), 7)")) == {"y": 7}


@pytest.mark.parametrize(
    ("output", "numbers", "shown"),
    [
        (SEVERAL, {}, "each of the tokens of the vocabulary at each position; .*`logits` of width 256 and `size` of w"),
        (
            "output: y = linear(x, 40)",
            {"vocab": 300},
            "each of the 300 tokens .* `y` of width 40. Write output: logits",
        ),
        ("output: y = unembed(mean(x))", {}, "`y` of width 256, without positions"),
    ],
)
def test_one_output_as_wide_as_the_vocabulary(output: str, numbers: dict[str, int], shown: str) -> None:
    for name in ("language-modeling", "translation", "denoising", "captioning"):
        text = LAYER + output if name == "language-modeling" else ENCODER + DECODER + output
        if name == "captioning":
            text = text.replace("embed.words(source)", "patches(image, 4)")
        with pytest.raises(InputError, match=f"{name} needs one output.*{shown}"):
            tasks.get(name).check(checked(text, **numbers))


def test_more_rows_than_tokens_are_no_mistake() -> None:
    for output, numbers in (("unembed(x, rows=512)", {"vocab": 300}), ("linear(x, 40)", {}), ("unembed(x)", {})):
        tasks.get("language-modeling").check(checked(f"{LAYER}output: logits = {output}", **numbers))


def test_the_vocabulary_of_the_data_counts(tmp_path: Path) -> None:
    data = tmp_path / "letters.txt"
    data.write_text("the cat sees the bird and the dog. " * 60)
    settings: dict[str, Any] = {"data": str(data), "tokenizer": "bytes", "steps": 1, "quiet": True, "width": 8}
    with pytest.raises(InputError, match=r"each of the \d+ tokens of the vocabulary .* `y` of width 20"):
        train("x = x + mlp(x)", output="y = linear(x, 20)", out=str(tmp_path / "run"), context=8, depth=1, **settings)


@pytest.mark.parametrize(
    ("task", "output", "shown"),
    [
        ("classification", SEVERAL, "needs one output; .*`logits` of width 256 and `size` of width 2"),
        (
            "classification",
            "output: y = linear(mean(x), 3)\n",
            "the data has 2 classes, .* output is 3 numbers: .*mean",
        ),
        ("tagging", SEVERAL, "needs one output with a tag's logits"),
        (
            "tagging",
            "output: y = linear(x, 3)\n",
            "the data has 2 classes, .* output is 3 numbers: .*transitions",
        ),
        ("question-answering", "output: y = linear(x, 3)\n", "two numbers at each token; .*`y` of width 3"),
    ],
)
def test_rows_are_told_before_the_first_step(task: str, output: str, shown: str, tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    row = {
        "classification": '{"text": "the %s cat", "label": "%s"}',
        "tagging": '{"tokens": ["the", "%s"], "tags": ["A", "%s"]}',
        "question-answering": '{"context": "the %s", "question": "who is %s?", "answer": "the"}',
    }[task]
    data.write_text("".join(row % (f"a{n}", "AB"[n % 2]) + "\n" for n in range(40)))
    model = tmp_path / "model.yaml"
    model.write_text("width: 8\nheads: 2\ndepth: 1\ncausal: false\n" + LAYER + output)
    run = tmp_path / "run"
    with pytest.raises(InputError, match=shown):
        train(str(model), task=task, data=str(data), out=str(run), steps=1, context=16, quiet=True)
    assert not run.exists()
