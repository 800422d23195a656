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

A recipe whose `init_from` names another one (a .yaml beside it) begins with what that trains, which is made first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from ..errors import ConfigError, DataError, Interrupted, did_you_mean, nearest, setting, shortened
from ..recipes import recipe_path
from ..settings import Settings
from .configuration import TASK, check_use, read_config
from .evaluation import evaluate
from .plan import plan_resume, plan_run
from .reading import import_packages, path_of
from .run import run_of

if TYPE_CHECKING:
    from ..tasks.evaluation import Report

KEY = "recipe"

HOW = ("device", "threads")
"""Changes that go for the recipe that this one begins with, too."""

MAY_CHANGE = ("steps", "tokens", "minutes", "epochs", *HOW)
"""Changes that a run which was begun takes."""


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
        return {
            "recipe": self.recipe.plain(),
            "score": self.value,
            "holds": self.holds,
            "run": str(self.folder),
            "report": self.report.data,
        }

    def __repr__(self) -> str:
        before = f" (found before: {', '.join(f'{n:g}' for n in self.recipe.found)})" if self.recipe.found else ""
        verdict = "as claimed" if self.holds else "NOT as claimed"
        return (
            f"{self.report}\n\n{self.recipe.about}\n"
            f"{self.recipe.score} {self.value:.4g}: {verdict}, {self.recipe.claim}{before}\nrun: {self.folder}"
        )


def reproduce(
    recipe: str | Path,
    *,
    root: str | Path | None = None,
    out: str | Path | None = None,
    use: Sequence[str] = (),
    quiet: bool = False,
    **changes: Any,
) -> Reproduced:
    """Train and score as a recipe says. A run that was begun in `out` goes on; one that has ended is scored.

        reproduce("multi30k-de-en", root="../shared/data")

    recipe   a file, or the name of a recipe that comes with the program (`transformula reproduce` lists them)
    root     the folder in which its data lie: what the recipe names is seen from there
    out      the run's folder: by default the recipe's `out`, else runs/ and the recipe's name; with the seed where that
             is not 1
    use      packages that the recipe uses: a file that is loaded imports nothing
    changes  of the run's configuration, such as `seed` or `minutes`

    A recipe that begins with another one's weights makes that one first, in a folder beside `out`.

    Raises ConfigError for what is no recipe, UnknownName for a name that none has, MissingExtra for a package that
    training or scoring needs, DataError for other data than the recipe's; Interrupted.
    """
    import_packages(use)
    path = recipe_path(path_of(recipe, "recipe"))
    made = Making(None if root is None else path_of(root, "root"), tuple(use), quiet)
    return made.reproduce(path, None if out is None else path_of(out, "out"), (), changes)


@dataclass(frozen=True)
class Making:
    """How recipes are made: the same for one and for those that it begins with."""

    root: Path | None
    use: tuple[str, ...]
    quiet: bool

    def reproduce(
        self, path: Path, out: Path | None, above: tuple[Path, ...], changes: Mapping[str, Any]
    ) -> Reproduced:
        """Make one. `above` are those that begin with it."""
        claimed, stated = read_recipe(path)
        check_use(stated.get("use"), self.use)
        config = {**stated, **changes}
        check_claim(claimed, str(config.get("task", TASK)), str(path))
        config |= {key: placed(named, self.root) for key, named in named_data(config).items()}
        self.check_hash(claimed, config, stated, path)
        folder = self.folder_of(path, out, config)
        self.train(path, folder, above, config, changes)
        settings = dict(claimed.evaluate)
        data = placed(settings.pop("data", None), self.root)
        report = evaluate(folder, data=data, use=self.use, **settings)
        return Reproduced(claimed, score_of(report, claimed.score), folder, report)

    def train(
        self, path: Path, folder: Path, above: tuple[Path, ...], config: dict[str, Any], changes: Mapping[str, Any]
    ) -> None:
        """Train the recipe's run, or go on with it where it was begun. Raises Interrupted."""
        if (folder / "config.yaml").is_file():
            later = {key: value for key, value in changes.items() if key in MAY_CHANGE}
            run = run_of(plan_resume(folder, later, self.use), self.quiet)
        else:
            first = config.get("init_from")
            if isinstance(first, str) and first.endswith((".yaml", ".yml")):
                too = {"seed": config.get("seed", 1)} | {key: changes[key] for key in HOW if key in changes}
                config["init_from"] = self.made_first(path, first, folder.parent, (*above, path.resolve()), too)
            config["out"] = str(folder)
            run = run_of(plan_run(config, self.use, source=str(path), beside=changes), self.quiet)
        if run.data["interrupted"]:
            raise Interrupted(f"the run was interrupted; the same command resumes it, in {folder}")

    def made_first(
        self, recipe: Path, named: str, beside: Path, above: tuple[Path, ...], changes: Mapping[str, Any]
    ) -> str:
        """The folder of the run that a recipe begins with, made by a recipe of its own."""
        path = recipe.parent / named
        if not path.is_file():
            raise ConfigError(
                f"init_from: there is no recipe {path}; name a recipe that lies beside this one, or a run's folder",
                source=str(recipe),
            )
        if path.resolve() in above:
            raise ConfigError(f"init_from: {named} begins with this recipe, and this one with it", source=str(recipe))
        folder = beside / (path.stem + _suffix(changes["seed"]))
        return str(self.reproduce(path, folder, above, changes).folder)

    def check_hash(self, claimed: Recipe, config: Mapping[str, Any], stated: Mapping[str, Any], path: Path) -> None:
        """Raise DataError for other data than the recipe's."""
        if claimed.data_hash is None:
            return
        digest = hash_of(config)
        if digest != claimed.data_hash:
            named = ", ".join(str(one) for names in named_data(stated).values() for one in _listed(names))
            raise DataError(
                f"{path}: the data ({named}) are not those of the recipe: their hash is {digest}, expected"
                f" {claimed.data_hash}; put them back, or copy the recipe and take its data_hash out"
            )

    def folder_of(self, path: Path, out: Path | None, config: Mapping[str, Any]) -> Path:
        """Where the run lies: as asked, as the recipe says, or by the recipe's name."""
        if out is not None:
            return out
        stated = config.get("out")
        if stated is not None and not isinstance(stated, str):
            raise ConfigError(f"out: expected a folder's name (got {shortened(repr(stated))})", source=str(path))
        seed = _suffix(config.get("seed", 1))
        return Path("runs") / (path.stem + seed) if stated is None else path_of(stated + seed, "out")


def _suffix(seed: Any) -> str:
    return f"-seed-{seed}" if str(seed) != "1" else ""


def read_recipe(path: Path) -> tuple[Recipe, dict[str, Any]]:
    """What a recipe claims, and the run's configuration. Raises ConfigError."""
    config = read_config(path, recipe=True)
    stated = config.pop(KEY, None)
    if not isinstance(stated, Mapping):
        raise ConfigError(
            f"{KEY}: the key is missing: what should it reach? A run's configuration is for train --config",
            source=str(path),
        )
    return Recipe.read(stated, str(path)), config


def check_claim(recipe: Recipe, task: str, source: str) -> None:
    """Raise an error for a score that the task has not, for settings that its evaluation has not, and for a package
    that is not here and that the scores need: before anything is trained."""
    from ..tasks.base import tasks

    kind = tasks.need(task)
    settings = {key: value for key, value in recipe.evaluate.items() if key != "data"}
    kind.evaluation.read(settings, f"{source}: evaluate")
    if recipe.score.lower().replace(" ", "_").replace("-", "_") not in kind.measures:
        near = nearest(recipe.score, kind.measures)
        known = did_you_mean(near) or f" known: {', '.join(kind.measures)}"
        raise ConfigError(f"score: {shortened(recipe.score)!r} is no score of {task};{known}", source=source, near=near)


def score_of(report: Report, name: str) -> float:
    """A score of an evaluation by its name. Raises ConfigError for one that is not there."""
    scores = report.data["scores"]
    if name not in scores:
        near = nearest(name, scores)
        raise ConfigError(f"score: {name!r} was not found;{did_you_mean(near)} found: {', '.join(scores)}", near=near)
    value = scores[name]
    return float(value["score"] if isinstance(value, Mapping) else value)


def named_data(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a run's configuration that name data, with what they name."""
    from ..data.sources import SOURCES

    return {key: config[key] for key in SOURCES if config.get(key) is not None}


def placed(given: Any, root: str | Path | None) -> Any:
    """Names of data as seen from `root`; built-in sets and those of the hub stay as they are."""
    if isinstance(given, list):
        return [placed(one, root) for one in given]
    return given if root is None or not is_file(given) else str(Path(root) / given)


def is_file(name: str) -> bool:
    """Whether a source names files rather than a set by its name."""
    return not str(name).startswith("hub:") and bool(re.search(r"[/{*]|\.\w", str(name)))


def hash_of(config: Mapping[str, Any]) -> str:
    """16 digits of the SHA-256 of all files that a configuration names as data, in order. Raises DataError."""
    digest = hashlib.sha256()
    for names in named_data(config).values():
        for name in _listed(names):
            for file in files_of(str(name)) if is_file(name) else ():
                try:
                    with open(file, "rb") as content:
                        digest.update(hashlib.file_digest(content, "sha256").digest())
                except OSError as error:
                    raise DataError(
                        f"cannot be read ({error.strerror}); say where the data lie: {setting('root', 'FOLDER')}",
                        path=file,
                    ) from None
    return digest.hexdigest()[:16]


def files_of(name: str) -> list[Path]:
    """The files of a source: parallel ones as in train.{de,en}, a file, those of a pattern or a folder."""
    from ..data.sources import beside
    from ..data.sources import files_of as all_of

    parallel = [Path(file) for file in beside(name).values()]
    return parallel or (all_of(name) if "*" in name or Path(name).is_dir() else [Path(name)])


def _listed(given: Any) -> list[Any]:
    return [] if given is None else given if isinstance(given, list) else [given]
