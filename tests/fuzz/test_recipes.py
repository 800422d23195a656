"""Fuzzing of recipes and configurations: whatever their keys, values and structure are, errors are documented ones.

What is drawn is read, resolved and checked as `train --config` and `reproduce` do, up to where data would be read.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fuzz.harness import check, portions
from transformula.api.recipe import reproduce
from transformula.api.run import train

RECIPE = {"about": "a text", "score": "loss", "at_most": 2.9, "found": [2.5], "minutes": 1, "evaluate": {"stride": 4}}
RUN: dict[str, Any] = {
    "model": "x = x + attention(norm(x)); x = x + mlp(norm(x))", "task": "language-modeling", "data": "text.txt",
    "tokenizer": "characters", "depth": 1, "width": 8, "heads": 2, "context": 8, "steps": 6, "batch": 2, "lr": 1e-3,
    "causal": True, "dropout": None, "precision": "float32", "threads": 1, "keep": 2, "epochs": 1.5, "seed": 1,
    "out": "runs/x", "use": [], "select": "loss", "device": "cpu", "average": 0.9,
}  # fmt: skip
KEYS = (
    *RUN, "recipe", "init_from", "init_stack", "from_scratch", "config", "quiet", "run", "progress", "resume", "root",
    "models", "stepz", "learning_rate", "before", "after", "layer", "output", "name", "family", "written", "accumulate",
    "", "0", "use ", "a" * 300, "é", "__class__", "self", "validation", "test", "batch_tokens",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**40, 2**80, 10**30, 1.5, 1e300, float("inf"), float("nan"), "", " ", "tru", "yes",
    "1e-3", "a" * 5000, "a\0b", "\ud7ff", "text.txt", "none.txt", "../..", "/",
    "cldr-dates:en-de", "digits", "hf:a/b", "x = x", "x = x + mlp(norm(x))",
    "translation", "captioning", "sort", "no-task", "unigram", "pre-norm", "runs/none", "*.txt",
    "train.{de,en}", [], ["a", 1], [None], {}, {"a": 1}, {"use": ["os"]}, {"beam": 5}, [[["x"]]], ["os"], "os",
)  # fmt: skip
STRUCTURES = (
    "a: " + "[" * 3000 + "]" * 3000, "a: &a [1, 1]\nb: &b [*a, *a, *a]\nc: [*b, *b]\n", "x: &x [*x]\n",
    "\n".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9) if n else 'lol'}]" for n in range(20)),
    "recipe: !!python/object/apply:os.getcwd []\n", "<<: {steps: 3}\n", "steps: 3\nsteps: 4\n", "? [a, b]\n: c\n",
    "day: 2024-13-45\n", "steps: " + "9" * 5000 + "\n", "- a\n- b\n", "---\na: 1\n---\nb: 2\n",
    "%YAML 9.9\n---\na: 1\n", "{" * 200, "a:\n" + "".join(" " * n + "b:\n" for n in range(1, 400)), "\t",
    "steps: 1_000\n", "a: 1:30:00\n",
)  # fmt: skip


def draw(chance: random.Random) -> tuple[bool, str]:
    """Whether it is made as a recipe, and the file's text."""
    plain: dict[str, Any] = {"recipe": dict(RECIPE), **RUN}
    for _ in range(chance.randint(1, 4)):
        group = plain["recipe"] if isinstance(plain.get("recipe"), dict) and chance.random() < 0.3 else plain
        key = chance.choice([*RECIPE, *KEYS[:6]]) if group is not plain else chance.choice(KEYS)
        if chance.random() < 0.2:
            group.pop(key, None)
        else:
            group[key] = chance.choice(VALUES)
    text = yaml.safe_dump(plain, allow_unicode=True)
    kind = chance.random()
    if kind < 0.2:  # another structure, alone or beside the keys
        text = chance.choice(STRUCTURES) + (text if chance.random() < 0.5 else "")
    elif kind < 0.4:  # signs changed, taken out or put in
        for _ in range(chance.randint(1, 5)):
            place = chance.randrange(len(text) + 1)
            sign = chance.choice(":-[]{}&*!|>#%@'\"\n\t \\0123456789é\ud7ff")
            text = text[:place] + sign + text[place + chance.randint(0, 2) :]
    return chance.random() < 0.5, text


class Checked(Exception):
    """Raised where the data would be read."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Does with a file what `reproduce` and `train --config` do, and stops before data is read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))
    Path("text.txt").write_text("to be or not to be\n" * 20)

    def stop(*_: Any, **__: Any) -> None:
        raise Checked

    for name in (
        "tasks.language_modeling.LanguageModeling",
        "tasks.seq2seq.SequenceToSequence",
        "tasks.repairing.Repairing",
    ):
        monkeypatch.setattr(f"transformula.{name}.make", stop)

    def made(case: tuple[bool, str]) -> None:
        recipe, text = case
        file = Path("case.yaml")
        file.write_text(text, encoding="utf-8", errors="replace")
        try:
            if recipe:
                reproduce(file, quiet=True)
            else:
                train(config=file, quiet=True)
        except Checked:
            pass
        assert sorted(path.name for path in tmp_path.iterdir()) in (
            ["case.yaml", "text.txt"],
            ["cache", "case.yaml", "text.txt"],
        )

    return made


def test_what_is_not_mutated_is_taken(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzzer is not stopped by a mistake that all its cases share."""
    text = yaml.safe_dump({"recipe": RECIPE, **RUN})
    for recipe in (True, False):
        monkeypatch.setattr("transformula.tasks.language_modeling.LanguageModeling.make", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run((recipe, text))


@pytest.mark.parametrize("cases", portions())
def test_only_documented_errors(cases: range, run) -> None:
    check("recipes", cases, draw, run)
