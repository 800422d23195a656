"""An option that nothing reads is refused, by its name, with what reads it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.training.test_facts import other_value
from transformula import evaluate, repeat, train
from transformula.api.plan import plan_run
from transformula.api.recipe import read_recipe
from transformula.api.unread import check_read
from transformula.cli import main
from transformula.comparison.settings import ComparisonSettings
from transformula.comparison.variants import read_variants
from transformula.data.format import formats
from transformula.data.settings import TextSettings
from transformula.errors import ConfigError
from transformula.recipes import recipe_names, recipe_path
from transformula.tasks.base import tasks
from transformula.training.optimizer import optimizers
from transformula.training.schedules import reads_of, schedules
from transformula.training.settings import FACTS

FORMULA = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SMALL: dict[str, Any] = {
    "depth": 1, "width": 16, "heads": 2, "context": 16, "batch": 4, "steps": 4, "threads": 1, "precision": "float32",
}  # fmt: skip


def asked(recorded: dict[str, Any] | None = None, source: str = "", /, **given: Any) -> None:
    """What `train` does of a new run before anything else."""
    recorded = recorded or {}
    check_read(plan_run({"model": FORMULA, **recorded, **given}, ()), given, recorded, source)


def options_of(reader: str) -> list[str]:
    return [key for key, facts in FACTS.items() if facts.reader == reader]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text and a run on it."""
    folder = tmp_path_factory.mktemp("unread")
    (folder / "text.txt").write_text("".join(f"{n} and {n + 1} are {2 * n + 1}\n" for n in range(300)))
    (folder / "rows.csv").write_text("text,label\n" + "".join(f'"{n} and {n}",{n % 2}\n' for n in range(40)))
    train(FORMULA, data=str(folder / "text.txt"), optimizer="adamw", out=str(folder / "run"), quiet=True, **SMALL)
    return folder


@pytest.mark.parametrize("key", options_of("optimizer"))
@pytest.mark.parametrize("name", optimizers.names())
def test_options_of_optimizers(name: str, key: str) -> None:
    if key in optimizers.get(name).reads:
        return asked(optimizer=name, **{key: other_value(key)})
    readers = [other for other in optimizers.names() if key in optimizers.get(other).reads]
    with pytest.raises(ConfigError, match=f"^{key}: {name} does not read it .*{readers[-1]} do.*leave it out"):
        asked(optimizer=name, **{key: other_value(key)})


@pytest.mark.parametrize("key", options_of("lr_schedule"))
@pytest.mark.parametrize("name", schedules.names())
def test_options_of_schedules(name: str, key: str) -> None:
    for given in ({"lr_schedule": name}, {"schedule": name}):  # the run's, and the model's own
        if key in reads_of(name):
            asked(**given, **{key: other_value(key)})
            continue
        with pytest.raises(ConfigError, match=f"^{key}: {name} does not read it"):
            asked(**given, **{key: other_value(key)})


def test_options_of_the_schedule_in_a_models_text() -> None:
    asked(schedule="wsd(decay=0.3)")
    with pytest.raises(ConfigError, match="schedule: decay: cosine does not read it"):
        asked(schedule="cosine(decay=0.3)")


def test_options_beside_a_setting_that_is_off() -> None:
    asked(on_spike="skip", spike=4)
    with pytest.raises(ConfigError, match="spike: is read only with on_spike=stop, skip or rollback; leave it out"):
        asked(spike=4)
    for key, value in (("bad_shards", "skip"), ("shuffle", 1)):  # also where the default is typed
        asked(stream=True, **{key: value})
        with pytest.raises(ConfigError, match=f"{key}: is read only with stream; leave it out"):
            asked(**{key: value})


FIELDS = {name: {*tasks.get(name).settings.model_fields} for name in tasks.names()}


@pytest.mark.parametrize("name", tasks.names())
def test_options_of_other_tasks(name: str) -> None:
    for key in sorted(set().union(*FIELDS.values()) - FIELDS[name]):
        with pytest.raises(ConfigError, match=f"{key}: {name} has no such setting; tasks with it: .*") as raised:
            asked(**{"task": name, "data": "text.txt", key: "1"})
        readers = next(m for m in raised.value.mistakes if m.startswith(f"{key}: ")).partition("tasks with it: ")[2]
        assert readers.split(", ") == [other for other in tasks.names() if key in FIELDS[other]]


def test_options_of_formats(made: Path) -> None:
    text, rows = str(made / "text.txt"), str(made / "rows.csv")
    for name in (name for name in tasks.names() if issubclass(tasks.get(name).settings, TextSettings)):
        given = {"task": name, "quoted": True, "column": "text"}
        asked(data=rows, **given)
        asked(data=[text, rows], **given)  # one of them reads it
        with pytest.raises(ConfigError, match="quoted: has no meaning for .txt files") as raised:
            asked(data=text, **given)
        assert "column: .txt files have no columns; leave it out" in raised.value.mistakes
    with pytest.raises(ConfigError, match="quoted: has no meaning for .txt files"):
        asked(stream=True, data=f"web=0.5:{text}", quoted=False)


def test_a_column_of_a_reader_of_documents_from_outside(made: Path) -> None:
    """It is given the column, whatever that means to it."""

    @formats.register("essays")
    def read_essays(path: Path, content: bytes, column: str | None) -> list[str]:
        return [f"{column}: {content.decode()}"]

    try:
        (made / "some.essays").write_text("an essay")
        asked(data=str(made / "some.essays"), column="title")
        with pytest.raises(ConfigError, match="quoted: has no meaning for .essays files"):
            asked(data=str(made / "some.essays"), quoted=True)
    finally:
        formats._known.pop("essays")


def test_on_a_command_line_it_is_an_option(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--optimizer", "adamw", "--momentum", "0.1", "--lr-schedule", "constant", "--final-lr", "0.1"]
    assert main(["train", FORMULA, "--data", str(made / "text.txt"), *arguments]) == 2
    said = capsys.readouterr().err
    assert "--momentum: adamw does not read it (muon does); leave it out" in said
    assert "--final-lr: constant does not read it (" in said


def test_a_configuration_holds_defaults_that_nobody_typed(made: Path) -> None:
    """All that a run recorded, of which its optimizer and its schedule read a part."""
    recorded = yaml.safe_load((made / "run" / "config.yaml").read_text())
    recorded = {key: value for key, value in recorded.items() if value is not None and key not in ("out", "model")}
    assert recorded["momentum"] == 0.95 and recorded["spike"] == 6.0
    asked(recorded, "config.yaml")
    asked(recorded, "config.yaml", lr_schedule="cosine")
    with pytest.raises(ConfigError, match=r"config.yaml: momentum: adamw does not read it"):
        asked({**recorded, "momentum": 0.5}, "config.yaml")
    with pytest.raises(ConfigError, match=r"^momentum: adamw does not read it"):
        asked(recorded, "config.yaml", momentum=0.5)


def test_a_run_that_recorded_such_values_goes_on_and_is_repeated(made: Path, tmp_path: Path) -> None:
    run = shutil.copytree(made / "run", tmp_path / "run")
    recorded = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump({**recorded, "momentum": 0.5, "decay": 0.3, "quoted": True,
                                                     "lr_schedule": "cosine", "spike": 4.0}))  # fmt: skip
    with pytest.raises(ConfigError, match="momentum: adamw does not read it"):
        train(resume=run, steps=5, momentum=0.5, quiet=True)
    assert train(resume=run, steps=4, quiet=True).result.steps == 4
    assert repeat(run, quiet=True).folder.is_dir()


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_says_nothing_that_is_not_read(name: str) -> None:
    _, config = read_recipe(recipe_path(name))
    if config.pop("init_from", None):  # it begins with what another one trains
        config["model"] = f"x = dropout(x); {FORMULA}"
    if "model" in config:
        check_read(plan_run(config, ()), {}, {key: value for key, value in config.items() if key != "column"})


def variants(*typed: Any, given: dict[str, Any] | None = None, **settings: Any) -> list[str]:
    return [one.name for one in read_variants(list(typed), ComparisonSettings.read(settings), given or {})]


def test_a_comparison_gives_an_option_to_those_that_read_it() -> None:
    both = {"vary": "optimizer=adamw,muon"}
    assert variants("pre-norm", given={"momentum": 0.9}, **both) == ["optimizer=adamw", "optimizer=muon"]
    with pytest.raises(ConfigError, match="^decay: cosine does not read it"):
        variants("pre-norm", given={"decay": 0.3, "lr_schedule": "cosine"}, **both)
    with pytest.raises(ConfigError, match="^optimizer=adamw, momentum=0.9: momentum: adamw does not read it"):
        variants("pre-norm", vary=["optimizer=adamw,muon", "momentum=0.9,0.8"])
    own = {"model": "pre-norm", "name": "own", "optimizer": "adamw", "momentum": 0.5}
    with pytest.raises(ConfigError, match="^own: momentum: adamw does not read it"):
        variants("pre-norm", own)


def test_prepare_refuses_what_its_files_have_no_use_for(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(made / "text.txt"), "--tokenizer", "bytes", "--out", str(made / "tokens")]
    assert main(["prepare", *arguments, "--quoted"]) == 2
    assert "--quoted: has no meaning for .txt files; leave it out" in capsys.readouterr().err
    assert not (made / "tokens").exists()
    assert main(["prepare", str(made / "rows.csv"), *arguments[1:], "--column", "text"]) == 0
    capsys.readouterr()
    with pytest.raises(ConfigError, match="quoted: says how text is read, and .*tokens holds tokens; leave it out"):
        train(FORMULA, data=str(made / "tokens"), quoted=True, quiet=True, **SMALL)


def test_evaluate_refuses_what_its_files_have_no_use_for(made: Path) -> None:
    for given in ({}, {"data": str(made / "text.txt")}):
        with pytest.raises(ConfigError, match="column: .txt files have no columns; leave it out"):
            evaluate(made / "run", column="text", **given)
    assert evaluate(made / "run", data=str(made / "rows.csv"), column="text").data["scores"]
