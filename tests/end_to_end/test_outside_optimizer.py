"""An optimizer, a schedule and a loss from outside the package: the files of docs/how-to/add-an-optimizer.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.blocks import ROOT, blocks
from transformula import explain, train
from transformula.cli import main
from transformula.cli.door import command_of
from transformula.comparison.settings import ComparisonSettings
from transformula.comparison.variants import read_variants
from transformula.errors import ConfigError, InputError
from transformula.runs.folder import RunFolder
from transformula.tasks.base import task, tasks
from transformula.tasks.language_modeling import LanguageModeling
from transformula.training import TrainingSettings
from transformula.training.optimizer import optimizers
from transformula.training.schedules import schedules
from transformula.training.start import settings_of_resume, with_own

FILES = ("lion.py", "triangle.py", "focal.py")
USE = [name.removesuffix(".py") for name in FILES]
SMALL: dict[str, Any] = {
    "data": "text.txt", "depth": 1, "width": 16, "heads": 2, "context": 16, "batch": 4, "threads": 1,
    "precision": "float32", "quiet": True, "use": USE,
}  # fmt: skip
FORMULA = "x = x + attention(norm(x)); x = x + mlp(norm(x))"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the page's files, a text, and a run that uses all three."""
    folder = tmp_path_factory.mktemp("work")
    page = (ROOT / "docs/how-to/add-an-optimizer.md").read_text(encoding="utf-8")
    for block in blocks(page):
        if "file" in block.marks:
            (folder / block.marks["file"]).write_text(block.text)
    (folder / "text.txt").write_text("the cat sees the bird and the dog sees the tree. " * 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMULA_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        assert explain(FORMULA, use=USE).data  # their files are read, and not run
        given = {"optimizer": "lion", "cautious": True, "lr_schedule": "triangle", "task": "focal"}
        train(FORMULA, out="run", steps=8, checkpoint_every=4, keep=5, **given, **SMALL)
        yield folder
        for name in [*USE, "wrong"]:
            sys.modules.pop(name, None)
        for registry, name in ((optimizers, "lion"), (schedules, "triangle"), (tasks, "focal")):
            registry._known.pop(name), registry._records.pop(name)  # a worker may come back to this file


def losses(run: Path) -> list[float]:
    lines = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["event"] == "step"]


def test_its_defaults_and_its_options_are_recorded(work: Path) -> None:
    recorded = yaml.safe_load((work / "run" / "config.yaml").read_text())
    assert (recorded["beta2"], recorded["cautious"], recorded["momentum"]) == (0.99, True, 0.95)


def test_a_resume_goes_on_exactly(work: Path) -> None:
    whole = train(FORMULA, out="whole", steps=12, optimizer="lion", cautious=True, lr_schedule="constant", **SMALL)
    train(FORMULA, out="cut", steps=6, optimizer="lion", cautious=True, lr_schedule="constant", **SMALL)
    train(resume="cut", steps=12, use=USE, quiet=True)
    assert losses(work / "cut")[-1] == losses(work / "whole")[-1]
    assert whole.result.steps == 12
    with pytest.raises(ConfigError, match="cautious: False, and the run began with True"):
        train(resume="cut", steps=14, cautious=False, use=USE, quiet=True)


def test_options_that_another_reads(work: Path) -> None:
    with pytest.raises(ConfigError, match="momentum: lion does not read it"):
        train(FORMULA, optimizer="lion", momentum=0.5, **SMALL)
    with pytest.raises(ConfigError, match="cautious: adamw has no such setting; optimizers with it: lion"):
        train(FORMULA, optimizer="adamw", cautious=True, **SMALL)
    with pytest.raises(ConfigError, match="decay: triangle does not read it"):
        train(FORMULA, lr_schedule="triangle", decay=0.5, **SMALL)
    with pytest.raises(ConfigError, match="loss_chunks: focal needs its logits as a whole"):
        train(FORMULA, task="focal", loss_chunks=2, **SMALL)


def test_help_lists_its_options(work: Path) -> None:
    typed = ["--optimizer", "lion", "--use", "lion", "--help", "all"]
    for verb in ("train", "compare"):
        shown = command_of(verb, typed).parser(typed).format_help()
        assert "--cautious" in shown and "(default: 0.99)" in shown


def test_a_comparison_gives_it_what_it_brings(work: Path) -> None:
    settings = ComparisonSettings.read({"vary": "optimizer=adamw,lion"})
    adamw, lion = read_variants(["pre-norm"], settings, {"cautious": "true", "beta2": 0.98}, USE)
    assert adamw.settings == {"optimizer": "adamw"} and lion.settings == {"optimizer": "lion"}


def test_settings_of_training_take_what_it_brings(work: Path) -> None:
    own = with_own(TrainingSettings(optimizer="lion", steps=3))
    assert (own.beta2, own.steps, own.model_fields_set) == (0.99, 3, {"optimizer", "steps"})


def test_a_resume_takes_what_the_recorded_optimizer_brings(work: Path) -> None:
    settings, _ = settings_of_resume(TrainingSettings(steps=20), RunFolder.open(work / "run"))
    assert (settings.optimizer, settings.cautious, settings.steps) == ("lion", True, 20)


def test_explain_takes_a_file_without_words(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in USE:
        assert main(["explain", FORMULA, "--use", name]) == 0
    (work / "nothing_here.py").write_text("x = 1\n")
    assert main(["explain", FORMULA, "--use", "nothing_here"]) == 2
    assert "nothing from 'nothing_here': none of its files has" in capsys.readouterr().err


def test_an_objective_that_nothing_calls_is_an_error(work: Path) -> None:
    with pytest.raises(InputError, match="nothing calls its `objective`, since the loss of LanguageModeling"):
        train(FORMULA, task="wrong", **{**SMALL, "use": ["wrong"]})
    assert "wrong" not in tasks


def test_a_loss_of_ones_own_inherits_no_claims_of_another() -> None:
    class Own(LanguageModeling):
        def loss(self, model: Any, batch: Any) -> Any:
            return self.objective(model(**batch.given), batch)

        def objective(self, output: Any, batch: Any) -> Any:
            return output.mean()

    class Whole(Own):
        chunks = True

        def loss(self, model: Any, batch: Any) -> Any:
            return super().loss(model, batch)

    try:
        assert not task("of-a-test")(Own).chunks and not Own.carries
        assert task("of-a-test-too")(Whole).chunks and not Whole.carries
    finally:
        for name in ("of-a-test", "of-a-test-too"):
            tasks._known.pop(name, None)
    assert not tasks.get("multi-token-prediction").chunks  # it makes its logits as a whole
