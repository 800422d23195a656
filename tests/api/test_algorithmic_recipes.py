"""The recipes of rules: each is a run's configuration that is accepted as it stands; one of them is trained."""

import pytest

from transformula import recipes
from transformula.api.plan import resolve
from transformula.api.reading import check_model
from transformula.api.recipe import read_recipe
from transformula.api.run import train
from transformula.tasks.base import tasks

FOLDER = recipes.FOLDER / "algorithmic"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_recipe_is_a_run_of_its_task(path):
    claimed, config = read_recipe(path)
    assert claimed.score == "exact match" and claimed.holds(100.0) and not claimed.holds(99.0)
    name = config.pop("task")
    assert name == path.stem.removesuffix("-plain")
    text, data, _ = resolve(config.pop("model"), config, str(path), name)
    read = check_model(text)
    kind = tasks.get(name)
    kind.check(read)
    few = data.model_copy(update={"rows": 200, "validation_rows": 20, "test_rows": 20})
    stated = {key: read.numbers[key] for key in ("vocab", "context") if key in text.numbers}
    made = kind.make(few, stated, inputs=read.inputs)
    assert made.numbers["vocab"] == made.data.writing.target.vocab  # no id is left unused


@pytest.mark.slow
def test_keys_are_found_again(tmp_path):
    run = train(config=FOLDER / "recall.yaml", steps=400, rows=20_000, out=str(tmp_path / "recall"), quiet=True)
    assert run.scores["exact_match"] > 98
