"""Recipes: what they claim, where their data lie, that a run which was begun goes on."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from transformula import recipes
from transformula.api.plan import resolve
from transformula.api.reading import check_model
from transformula.api.recipe import files_of, hash_of, is_file, read_recipe, reproduce, score_of, under_root
from transformula.errors import ConfigError, DataError
from transformula.tasks.base import tasks

FOLDER = recipes.FOLDER
LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "text.txt").write_text("to be or not to be\n" * 60)
    plain = {
        "recipe": {
            "about": "a text that repeats itself", "score": "loss", "at_most": 2.9, "found": [2.5],
            "data_hash": hash_of({"data": "data/text.txt"}), "evaluate": {"stride": 4},
        },
        "model": LAYER, "data": "text.txt", "tokenizer": "characters", "depth": 1, "width": 8, "heads": 2,
        "context": 8, "steps": 6, "precision": "float32", "batch": 2,
    }  # fmt: skip
    path = tmp_path / "again.yaml"
    path.write_text(yaml.safe_dump(plain))
    return path


def test_a_recipe_is_made_again(recipe: Path) -> None:
    found = reproduce(recipe, root="data", quiet=True)
    assert found.folder == Path("runs/again") and found.holds == (found.value <= 2.9)
    assert "loss of at most 2.9 (found before: 2.5)" in repr(found) and found.data["score"] == found.value
    again = reproduce(recipe, root="data", quiet=True)
    assert again.value == found.value and again.folder == found.folder
    other = reproduce(recipe, root="data", quiet=True, seed=2)
    assert other.folder == Path("runs/again-seed-2") and other.value != found.value


def test_a_score_is_known_by_either_spelling() -> None:
    report: Any = SimpleNamespace(data={"scores": {"call_accuracy": 98.0, "word error rate": {"score": 2.0}}})
    for name, value in (("call accuracy", 98.0), ("call_accuracy", 98.0), ("word_error_rate", 2.0)):
        assert score_of(report, name) == value
    with pytest.raises(ConfigError, match="'call rate' was not found"):
        score_of(report, "call rate")


def test_a_recipe_begins_with_another(recipe: Path) -> None:
    plain = yaml.safe_load(recipe.read_text())
    plain["recipe"] |= {"about": "goes on"}
    second = recipe.parent / "further.yaml"
    second.write_text(yaml.safe_dump({**plain, "init_from": "again.yaml", "tokenizer": "auto", "steps": 3}))
    found = reproduce(second, root="data", quiet=True, steps=2)
    assert found.folder == Path("runs/further") and Path("runs/again/best").is_dir()
    stated = yaml.safe_load(Path("runs/further/config.yaml").read_text())
    assert stated["init_from"] == str(Path("runs/again").absolute()) and stated["steps"] == 2
    assert yaml.safe_load(Path("runs/again/config.yaml").read_text())["steps"] == 6
    assert reproduce(second, root="data", quiet=True).value == found.value
    reproduce(second, root="data", quiet=True, seed=3)
    assert Path("runs/again-seed-3").is_dir() and Path("runs/further-seed-3").is_dir()


def test_a_recipe_learns_from_another(recipe: Path) -> None:
    plain = yaml.safe_load(recipe.read_text())
    plain["recipe"] |= {"about": "a student"}
    student = recipe.parent / "student.yaml"
    student.write_text(yaml.safe_dump({**plain, "teacher": "again.yaml", "width": 4, "heads": 1, "steps": 3}))
    found = reproduce(student, root="data", quiet=True)
    stated = yaml.safe_load(Path("runs/student/config.yaml").read_text())
    assert stated["teacher"] == str(Path("runs/again").absolute()) and stated["steps"] == 3
    assert reproduce(student, root="data", quiet=True).value == found.value
    reproduce(student, root="data", quiet=True, seed=3)
    assert Path("runs/again-seed-3").is_dir() and Path("runs/student-seed-3").is_dir()


def test_models_of_a_recipe_answer_together(recipe: Path) -> None:
    (recipe.parent / "data" / "rows.tsv").write_text("\n".join(f"{w} {n}\t{w}" for n in range(40) for w in ("a", "b")))
    plain = {
        "recipe": {"about": "a or b", "score": "accuracy", "at_least": 0, "ensemble": {"letters": {"width": 4}}},
        "model": "x = x", "task": "classification", "data": "rows.tsv", "depth": 1, "width": 8, "steps": 2,
        "precision": "float32",
    }  # fmt: skip
    recipe.write_text(yaml.safe_dump(plain))
    found = reproduce(recipe, root="data", quiet=True)
    assert "2 models" in repr(found) and found.folder == Path("runs/again")
    assert yaml.safe_load(Path("runs/again-letters/best/model.yaml").read_text())["width"] == 4
    plain["recipe"]["ensemble"]["letters"] = {"widht": 4}
    recipe.write_text(yaml.safe_dump(plain))
    with pytest.raises(ConfigError, match="widht"):
        reproduce(recipe, root="data", quiet=True, seed=2)
    assert not Path("runs/again-seed-2").exists()


def test_a_recipe_that_begins_nowhere(recipe: Path) -> None:
    plain = yaml.safe_load(recipe.read_text())
    for named, said in (("none.yaml", "there is no recipe .*none.yaml"), ("again.yaml", "begins with this recipe")):
        for key in ("init_from", "teacher"):
            recipe.write_text(yaml.safe_dump({**plain, key: named}))
            with pytest.raises(ConfigError, match=f"{key}: .*{said}"):
                reproduce(recipe, root="data", quiet=True)
    assert not Path("runs").exists()


def test_other_data_are_refused_before_training(recipe: Path) -> None:
    (recipe.parent / "data" / "text.txt").write_text("to be or not\n" * 60)
    with pytest.raises(DataError, match=r"again\.yaml: the data \(text\.txt\) are not those of the recipe"):
        reproduce(recipe, root="data", quiet=True)
    with pytest.raises(DataError, match="say where the data lie: root=FOLDER"):
        reproduce(recipe, quiet=True)
    assert not Path("runs").exists()


def test_what_is_no_recipe(recipe: Path) -> None:
    plain = yaml.safe_load(recipe.read_text())
    claimed = plain.pop("recipe")
    recipe.write_text(yaml.safe_dump(plain))
    with pytest.raises(ConfigError, match="recipe: the key is missing"):
        read_recipe(recipe)
    for wrong, said in (
        ({"at_least": 3}, "give one of them"), ({"at_most": None}, "give one of them"), ({"scor": 1}, "unknown key")
    ):  # fmt: skip
        recipe.write_text(yaml.safe_dump({**plain, "recipe": {**claimed, **wrong}}))
        with pytest.raises(ConfigError, match=said):
            read_recipe(recipe)
    recipe.write_text(yaml.safe_dump({**plain, "recipe": {**claimed, "score": "los", "data_hash": None}}))
    with pytest.raises(ConfigError, match="score: 'los' is no score of language-modeling; did you mean loss"):
        reproduce(recipe, root="data", quiet=True)


def test_names_of_data(tmp_path: Path) -> None:
    assert [is_file(n) for n in ("train.{de,en}", "a/b", "rows.tsv", "texts/*.md")] == [True] * 4
    assert not any(is_file(name) for name in ("cldr-dates:en-de", "python-docs", "hf:some/name", "digits"))
    assert under_root(["a.txt", "python-docs"], "root") == ["root/a.txt", "python-docs"]
    assert list(files_of("x/train.{de,en}")) == [Path("x/train.de"), Path("x/train.en")]
    for name in ("b.txt", "a.txt"):
        (tmp_path / name).write_text(name)
    assert (
        [p.name for p in files_of(str(tmp_path))]
        == [p.name for p in files_of(f"{tmp_path}/*.txt")]
        == ["a.txt", "b.txt"]
    )
    one = hash_of({"data": str(tmp_path / "a.txt")})
    assert one == hash_of({"data": [f"{tmp_path}/a.*"]}) != hash_of({"data": str(tmp_path / "b.txt")})


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.yaml")), ids=lambda path: path.stem)
def test_a_recipe_of_the_project(path: Path) -> None:
    """It is a run of its task, and what was found when it was written is what it claims; data that lie in files have
    their hash."""
    claimed, config = read_recipe(path)
    assert claimed.found and claimed.minutes and all(claimed.holds(value) for value in claimed.found)
    assert (claimed.data_hash is not None) == any(is_file(str(config.get(key, ""))) for key in ("data", "test"))
    task, first = config.pop("task"), config.pop("init_from", None)
    model = config.pop("model", None)
    if first is not None:
        model = read_recipe(path.parent / first)[1]["model"]
    text, _, _ = resolve(model, config, str(path), task)
    tasks.get(task).check(check_model(text))
