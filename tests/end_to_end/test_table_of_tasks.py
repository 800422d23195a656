"""Each task of the table in docs/README.md, as typed: what trains it and what uses it, on a few rows of its format."""

from __future__ import annotations

import json
import random
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.tasks.tones import tones, write_sound, write_tones
from transformula.cli import main
from transformula.tasks.algorithmic import Algorithmic
from transformula.tasks.base import tasks

ROWS = [
    re.findall(r"`(transformula [^`]+)`", row)
    for row in (Path(__file__).parents[2] / "docs" / "README.md").read_text("utf-8").splitlines()
    if row.startswith("|") and "--out runs/" in row
]
PRE_TRAINING = {"span", "denoising"}  # docs/how-to/pretrain-then-train.md
WORDS = "the with statement a cat dog sat on mat moon sees bird old tree where can i eat wrote it in winter".split()


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the table names."""
    folder, draw = tmp_path_factory.mktemp("readme"), random.Random(1)

    def text(count: int = 6) -> str:
        return " ".join(draw.choices(WORDS, k=count)).capitalize() + "."

    def lines(name: str, rows: list[str]) -> None:
        (folder / name).write_text("\n".join(rows) + "\n")

    lines("notes.txt", [text() for _ in range(2000)])
    lines("long.txt", [text(20)])
    lines("page.txt", [text() for _ in range(3)])
    lines("train.de", [text() for _ in range(200)])
    lines("train.en", [text() for _ in range(200)])
    lines("reviews.tsv", ["text\tlabel", *(f"{text()}\t{draw.choice(['good', 'bad'])}" for _ in range(200))])
    lines("pairs.tsv", ["text\ttext_2\tscore", *(f"{text()}\t{text()}\t{n % 5}" for n in range(200))])
    lines("articles.jsonl", [json.dumps({"text": text(20), "summary": text()}) for _ in range(200)])
    chats = ([{"role": role, "content": text()} for role in ("user", "assistant") * 2] for _ in range(200))
    lines("chats.jsonl", [json.dumps({"messages": messages}) for messages in chats])
    preferred = ({key: text() for key in ("prompt", "chosen", "rejected")} for _ in range(200))
    lines("preferred.jsonl", list(map(json.dumps, preferred)))
    columns = ["_", draw.choice(["NOUN", "VERB"]), *"______"]
    sentences = (
        [f"{n}\t{word}\t" + "\t".join(columns) for n, word in enumerate(text().split(), 1)] for _ in range(200)
    )
    kinds = ["NOUN", "VERB", "DET"]
    tagged = [[line.replace(columns[1], draw.choice(kinds)) for line in sentence] for sentence in sentences]
    lines("train.conllu", ["\n".join(sentence) + "\n" for sentence in tagged])
    questions = []
    for number in range(100):
        context = text(12)
        answer = context.split()[3]
        about = {
            "id": str(number),
            "question": text(),
            "answers": [{"text": answer, "answer_start": context.index(f" {answer}") + 1}],
        }
        questions.append({"title": "", "paragraphs": [{"context": context, "qas": [about]}]})
    (folder / "train-v1.1.json").write_text(json.dumps({"version": "1.1", "data": questions}))
    (folder / "photos").mkdir()
    captions = ["file_name\ttext"]
    for number in range(1, 81):
        pixels = np.random.default_rng(number).integers(0, 255, (32, 32), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{number}.png")
        captions.append(f"{number}.png\t{'a dog' if number % 2 else 'a cat'}")
    lines("photos/captions.tsv", captions)
    for number, word in enumerate(("yes", "no", "left") * 20):
        (folder / "commands" / word).mkdir(parents=True, exist_ok=True)
        write_sound(folder / "commands" / word / f"{number}.wav", tones("abc"[number % 3], number))
    for name in ("yes.wav", "left.wav"):
        write_sound(folder / name, tones("a"))
    write_tones(folder, 60, longest=3)
    (folder / "tones.tsv").rename(folder / "clips.tsv")
    asked = ({"image": f"{n}.png", "question": "What is it?", "answer": ("a cat", "a dog")[n % 2]} for n in range(80))
    lines("photos/questions.jsonl", list(map(json.dumps, list(asked)[1:])))
    return folder


def test_the_table_has_every_task() -> None:
    named = {match[1] for train, _ in ROWS if (match := re.search(r"--task ([\w-]+)", train))}
    drawn = {name for name in tasks.names() if issubclass(tasks.get(name), Algorithmic)}
    ours = {name for name in tasks.names() if tasks.get(name).__module__.startswith("transformula.")}
    assert named == ours - drawn - PRE_TRAINING - {"language-modeling", "multiple-choice"}


@pytest.mark.slow
@pytest.mark.parametrize(("train", "use"), ROWS, ids=lambda typed: " ".join(shlex.split(typed)[1:3]))
def test_as_typed(
    train: str,
    use: str,
    work: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for each in work.iterdir():
        (tmp_path / each.name).symlink_to(each)
    assert main([*shlex.split(train)[1:], "--steps", "2"]) == 0
    capsys.readouterr()
    assert main(shlex.split(use)[1:]) == 0
    assert capsys.readouterr().out.endswith("\n")
    assert main(["train", "--resume", train.rpartition("--out ")[2], "--steps", "3", "--quiet"]) == 0
