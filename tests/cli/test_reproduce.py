"""`transformula reproduce`: recipes by the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from transformula.cli import main
from transformula.cli.door import command_of
from transformula.recipes import recipe_names, recipe_path

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"


def test_the_recipes_here_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == recipe_names() and len(rows) > 10
    assert main(["reproduce", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["recipes"]
    assert [recipe["name"] for recipe in found] == recipe_names() and all("about" in recipe for recipe in found)
    program = "from transformula.cli import main; import sys; main(['reproduce']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [*rows, "False"], "a list is there at once"
    assert main(["reproduce", "--seed", "2"]) == 2
    assert "--seed: which recipe?" in capsys.readouterr().err


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_is_found_by_its_name_from_anywhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert recipe_path(name) == recipe_path(f"{name}.yaml") == recipe_path(f"recipes/{name}.yaml")
    assert recipe_path(name).is_file()
    Path(f"{name}.yaml").parent.mkdir(exist_ok=True)
    Path(f"{name}.yaml").touch()
    assert recipe_path(f"{name}.yaml") == Path(f"{name}.yaml"), "a file of yours goes before"


def test_no_such_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "built-in/digit"]) == 2
    assert "unknown recipe 'built-in/digit'; did you mean built-in/digits" in capsys.readouterr().err
    assert main(["reproduce", "missing.yaml"]) == 2
    assert "missing.yaml" in capsys.readouterr().err


def test_the_examples_are_there() -> None:
    named = [example.split()[2:3] for example in command_of("reproduce").examples]
    assert [recipe_path(name) for names in named for name in names]


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
