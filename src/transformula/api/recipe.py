"""Recipes: a run's configuration with the score that it should reach, made again by one command.

recipe:
  about: Multi30k, German to English
  score: BLEU lower-cased
  at_least: 36.5
  found: [39.4, 39.1, 39.6]
  minutes: 38
  data_hash: 3f0c1a2b9d8e7f60
  evaluate: {beam: 5}
model: translator
task: translation
data: multi30k/train.{de,en}
...

A recipe whose `init_from` or `teacher` names another one (a .yaml beside it) begins with what that trains, or learns
from it; that one is made first.

Several models answer together where a recipe says what else is trained, by name, with the keys of the configuration
that are other than here:

recipe:
  ensemble:
    words: {tokenizer: bpe, vocab: 12000}
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from ..errors import ConfigError, DataError, did_you_mean, nearest, setting, shortened
from ..plain import several
from ..recipes import recipe_path
from ..settings import Settings
from ..training.settings import CHANGEABLE, NOTED
from .configuration import check_use, read_config, read_stated
from .plan import Plan, plan_resume, plan_run
from .reading import TASK, import_packages, path_of
from .run import evaluate, run_of
from .unread import check_read

if TYPE_CHECKING:
    from ..tasks.scores.report import Report

EARLIER = ("init_from", "teacher")  # keys that may name a recipe, which is made first


class Recipe(Settings):
    """What a recipe claims."""

    about: str = Field(description="what it shows, in one line")
    score: str = Field(description="the score that counts, as `evaluate` names it")
    at_least: float | None = Field(None, description="what the score reaches, where more is better")
    at_most: float | None = Field(None, description="what the score reaches, where less is better")
    found: list[float] = Field([], description="what was found when it was written, a number for each seed from 1 on")
    minutes: float | None = Field(None, gt=0, description="how long it took, on two cores")
    data_hash: str | None = Field(
        None, min_length=16, description="of the files of data, and nothing for built-in sets"
    )
    evaluate: dict[str, Any] = Field({}, description="settings of the evaluation")
    ensemble: dict[str, dict[str, Any]] = Field(
        {}, description="further models that answer together with it, by name, each with the keys that are other"
    )  # fmt: skip

    @model_validator(mode="after")
    def _claims(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("a recipe claims at_least or at_most a number: give one of them")
        return self

    def holds(self, value: float) -> bool:
        """Whether a score is what the recipe claims."""
        return value >= self.at_least if self.at_least is not None else value <= float(self.at_most or 0.0)

    @property
    def claim(self) -> str:
        """In words: 'BLEU of at least 36.5'."""
        bound = f"at least {self.at_least:g}" if self.at_least is not None else f"at most {self.at_most:g}"
        return f"{self.score} of {bound}"


@dataclass(frozen=True)
class Reproduced:
    """What a recipe gave. Its `repr` is the page that a person reads, `.data` what a program reads."""

    recipe: Recipe
    value: float
    folder: Path
    report: Report

    @property
    def holds(self) -> bool:
        """Whether the claim holds."""
        return self.recipe.holds(self.value)

    @property
    def data(self) -> dict[str, Any]:
        """As plain data."""
        outcome = {"score": self.value, "holds": self.holds, "run": str(self.folder)}
        return {"recipe": self.recipe.plain(), **outcome, "report": self.report.data}

    def __repr__(self) -> str:
        before = f" (found before: {', '.join(f'{n:g}' for n in self.recipe.found)})" if self.recipe.found else ""
        verdict = "as claimed" if self.holds else "NOT as claimed"
        score = f"{self.recipe.score} {self.value:.4g}: {verdict}, {self.recipe.claim}{before}"
        return f"{self.report}\n\n{self.recipe.about}\n{score}\nrun: {self.folder}"


def reproduce(
    recipe: str | Path, *, root: str | Path | None = None, out: str | Path | None = None, use: Sequence[str] = (),
    quiet: bool = False, **changes: Any,
) -> Reproduced:  # fmt: skip
    """Train and score as a recipe says. A run that was begun in `out` goes on; one that has ended is scored.

        reproduce("multi30k-de-en", root="../shared/data")

    recipe   a file, or the name of a recipe that comes with the program (`transformula reproduce` lists them)
    root     the folder in which its data lie: what the recipe names is seen from there
    out      the run's folder: by default the recipe's `out`, else runs/ and the recipe's name; with the seed where that
             is not 1
    use      packages that the recipe uses: a file that is loaded imports nothing
    changes  of the run's configuration, such as `seed` or `minutes`

    A recipe that begins with another one's weights, or learns from its model, makes that one first, in a folder beside
    `out`; the further models of an ensemble are trained in folders beside it, and are scored together with it.

    Raises ConfigError for what is no recipe, UnknownName for a name that none has, MissingExtra for a package that
    training or scoring needs, DataError for other data than the recipe's; Interrupted.
    """
    import_packages(use)
    path = recipe_path(path_of(recipe, "recipe"))
    root = None if root is None else path_of(root, "root")
    return _made(path, None if out is None else path_of(out, "out"), changes, (), root, tuple(use), quiet)


def _made(
    path: Path, out: Path | None, changes: Mapping[str, Any], above: tuple[Path, ...], root: Path | None,
    use: tuple[str, ...], quiet: bool,
) -> Reproduced:  # fmt: skip
    """Make a recipe; `above` are the files of those that begin with it."""
    claimed, stated = read_recipe(path)
    check_use(stated.get("use"), use)
    config = {"task": TASK, **stated, **changes}
    check_claim(claimed, str(config["task"]), str(path))
    config |= {key: under_root(named, root) for key, named in named_data(config).items()}
    if claimed.data_hash is not None and (digest := hash_of(config)) != claimed.data_hash:
        named = ", ".join(str(name) for names in named_data(stated).values() for name in several(names))
        raise DataError(
            f"{path}: the data ({named}) are not those of the recipe: their hash is {digest}, expected"
            f" {claimed.data_hash}; put them back, or copy the recipe and take its data_hash out"
        )
    seed = config.get("seed", 1)
    suffix = f"-seed-{seed}" if str(seed) != "1" else ""
    folder = out or Path("runs") / (path.stem + suffix)
    if out is None and (own := config.get("out")) is not None:
        if not isinstance(own, str):
            raise ConfigError(f"out: expected a folder's name (got {shortened(repr(own))})", source=str(path))
        folder = path_of(own + suffix, "out")
    begun = (folder / "config.yaml").is_file()
    too = {"seed": seed} | {key: changes[key] for key in NOTED if key in changes}
    for key in () if begun else EARLIER:
        before = earlier(path, key, config.get(key), above)
        if before is not None:
            beside = folder.parent / (before.stem + suffix)
            config[key] = str(_made(before, beside, too, (*above, path.resolve()), root, use, quiet).folder)
    folders = [folder, *(folder.parent / f"{folder.name}-{name}" for name in claimed.ensemble)]
    configs = [config, *({**config, **other} for other in claimed.ensemble.values())]
    for each in configs:
        if isinstance(each.get("model"), str):
            each["model"] = read_stated(each["model"], str(path))
    plans = [_plan(each, one, changes, str(path), use) for each, one in zip(configs, folders, strict=True)]
    for plan in plans:
        made = run_of(plan, quiet).result
        made.check_ended(f"the run was interrupted; the same command resumes it, in {plan.training.out}")
    settings = dict(claimed.evaluate)
    data = under_root(settings.pop("data", None), root)
    report = evaluate(folder, data=data, use=use, models=folders[1:], **settings)
    return Reproduced(claimed, score_of(report, claimed.score), folder, report)


def earlier(path: Path, key: str, named: Any, above: tuple[Path, ...]) -> Path | None:
    """The recipe that one names by a key, and that is made before it; None where it names none. Raises ConfigError."""
    if not isinstance(named, str) or not named.endswith((".yaml", ".yml")):
        return None
    before = path.parent / named
    if not before.is_file():
        remedy = "name a recipe that lies beside this one, or a run's folder"
        raise ConfigError(f"{key}: there is no recipe {before}; {remedy}", source=str(path))
    if before.resolve() in (*above, path.resolve()):
        raise ConfigError(f"{key}: {named} begins with this recipe, and this one with it", source=str(path))
    return before


def _plan(
    config: Mapping[str, Any], folder: Path, changes: Mapping[str, Any], source: str, use: tuple[str, ...]
) -> Plan:
    """The run of a configuration in a folder; one that was begun there goes on."""
    if (folder / "config.yaml").is_file():
        return plan_resume(folder, {key: value for key, value in changes.items() if key in CHANGEABLE}, use)
    plan = plan_run({**config, "out": str(folder)}, use, source=source, beside=changes)
    check_read(plan, changes, config, source)
    return plan


def read_recipe(path: Path) -> tuple[Recipe, dict[str, Any]]:
    """What a recipe claims, and the run's configuration. Raises ConfigError."""
    config = read_config(path, recipe=True)
    stated = config.pop("recipe", None)
    if not isinstance(stated, Mapping):
        missing = "recipe: the key is missing: what should it reach? A run's configuration is for train --config"
        raise ConfigError(missing, source=str(path))
    return Recipe.read(stated, str(path)), config


def check_claim(recipe: Recipe, task: str, source: str) -> None:
    """Raise an error for a score that the task has not, for settings that its evaluation has not, and for a package
    that is not here and that the scores need: before anything is trained."""
    from ..tasks.base import tasks

    kind = tasks.need(task)
    settings = {key: value for key, value in recipe.evaluate.items() if key != "data"}
    kind.evaluation.read(settings, f"{source}: evaluate")
    if measure_called(recipe.score) not in kind.measures:
        near = nearest(recipe.score, kind.measures)
        known = did_you_mean(near) or f" known: {', '.join(kind.measures)}"
        raise ConfigError(f"score: {shortened(recipe.score)!r} is no score of {task};{known}", source=source, near=near)


def measure_called(name: str) -> str:
    """The name of a score as tasks have it: word_error_rate of "word error rate"."""
    return name.lower().replace(" ", "_").replace("-", "_")


def score_of(report: Report, name: str) -> float:
    """A score of an evaluation by its name, with blanks or as an option has it. Raises ConfigError for one that is not
    there."""
    scores = report.data["scores"]
    name = next((key for key in scores if measure_called(key) == measure_called(name)), name)
    if name not in scores:
        near = nearest(name, scores)
        raise ConfigError(f"score: {name!r} was not found;{did_you_mean(near)} found: {', '.join(scores)}", near=near)
    value = scores[name]
    return float(value["score"] if isinstance(value, Mapping) else value)


def named_data(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a run's configuration that name data, with what they name."""
    from ..data.sources import SOURCES

    return {key: config[key] for key in SOURCES if config.get(key) is not None}


def under_root(names: Any, root: str | Path | None) -> Any:
    """Names of data as seen from `root`; built-in sets and those of the hub stay as they are."""
    if isinstance(names, list):
        return [under_root(name, root) for name in names]
    if root is None or not is_file(names):
        return names
    from ..data.sources import split_label

    label, file = split_label(names)
    return label + str(Path(root) / file)


def is_file(name: str) -> bool:
    """Whether a source names files rather than a set by its name."""
    of_hub = re.match(r"([^=/:]+=[0-9.]+:)?hf:", str(name))
    return not of_hub and bool(re.search(r"[/{*=]|\.\w", str(name)))


def hash_of(config: Mapping[str, Any]) -> str:
    """16 digits of the SHA-256 of all files that a configuration names as data, in order. Raises DataError."""
    digest = hashlib.sha256()
    names = [str(name) for names in named_data(config).values() for name in several(names) if is_file(name)]
    for file in (file for name in names for file in files_of(name)):
        try:
            with open(file, "rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        except OSError as error:
            what = f"cannot be read ({error.strerror}); say where the data lie: {setting('root', 'FOLDER')}"
            raise DataError(what, path=file) from None
    return digest.hexdigest()[:16]


def files_of(name: str) -> list[Path]:
    """The files of a source: parallel ones as in train.{de,en}, a file, those of a pattern or a folder."""
    from ..data.sources import files_of as all_of
    from ..data.sources import known_files, parallel_files, split_label, visible_files

    parallel = [Path(file) for file in parallel_files(name).values()]
    _, file = split_label(name)
    if Path(file).is_dir():
        return known_files(Path(file))[0] or visible_files(Path(file))
    return parallel or (all_of(file) if "*" in file else [Path(file)])
