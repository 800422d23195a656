"""`transformula reproduce`: recipes by the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from transformula.cli import main, reproduce

ROOT = Path(__file__).parents[2]
LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"


def test_the_examples_are_there() -> None:
    named = [part for example in reproduce.EXAMPLES for part in example.split() if part.endswith(".yaml")]
    assert len(named) == len(reproduce.EXAMPLES) and all((ROOT / name).is_file() for name in named)


def test_a_claim_is_held_against_what_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("data/text.txt").write_text("to be or not to be\n" * 60)
    plain = {
        "recipe": {"about": "a text that repeats itself", "score": "loss", "at_most": 9, "evaluate": {"stride": 4}},
        "model": LAYER, "data": "text.txt", "tokenizer": "characters", "depth": 1, "width": 8, "heads": 2,
        "context": 8, "steps": 3, "precision": "float32", "batch": 2, "threads": 2,
    }  # fmt: skip
    Path("again.yaml").write_text(yaml.safe_dump(plain))
    options = ["--root", "data", "--seed", "3", "--threads", "1", "--device", "cpu", "--quiet"]
    assert main(["reproduce", "again.yaml", *options, "--out", "there", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["holds"] and found["run"] == "there"
    stated = yaml.safe_load(Path("there/config.yaml").read_text())
    assert (stated["seed"], stated["threads"], stated["device"]) == (3, 1, "cpu")
    assert main(["reproduce", "again.yaml", *options, "--out", "there"]) == 0
    assert "as claimed, loss of at most 9" in capsys.readouterr().out
    plain["recipe"]["at_most"] = 0.001
    Path("never.yaml").write_text(yaml.safe_dump(plain))
    assert main(["reproduce", "never.yaml", *options]) == 1
    assert "NOT as claimed" in capsys.readouterr().out and Path("runs/never-seed-3").is_dir()
