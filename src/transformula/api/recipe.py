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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from ..errors import ConfigError, DataError, InputError, did_you_mean, nearest
from ..recipes import recipe_path
from ..settings import Settings
from .run import read_config, train

if TYPE_CHECKING:
    from ..tasks.evaluation import Report

KEY = "recipe"
SOURCES = ("data", "validation", "test")
"""Keys of a run's configuration that name data."""

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
    quiet: bool = False,
    **changes: Any,
) -> Reproduced:
    """Train and score as a recipe says. A run that was begun in `out` goes on; one that has ended is scored.

        reproduce("multi30k-de-en", root="../shared/data")

    recipe   a file, or the name of a recipe that comes with the program (`transformula reproduce` lists them)
    root     the folder in which its data lie: what the recipe names is seen from there
    out      the run's folder: by default runs/ and the recipe's name, with the seed where it is not 1
    changes  of the run's configuration, such as `seed` or `minutes`

    A recipe that begins with another one's weights makes that one first, in a folder beside `out`.

    Raises ConfigError for what is no recipe, UnknownName for a name that none has, DataError for other data than the
    recipe's.
    """
    return _reproduce(recipe_path(recipe), None if out is None else Path(out), (), changes, root=root, quiet=quiet)


def _reproduce(
    path: Path,
    out: Path | None,
    above: tuple[Path, ...],
    changes: Mapping[str, Any],
    *,
    root: str | Path | None,
    quiet: bool,
) -> Reproduced:
    claimed, config = read_recipe(path)
    config |= changes
    named = [one for key in SOURCES for one in _listed(config.get(key))]
    for key in SOURCES:
        if config.get(key) is not None:
            config[key] = placed(config[key], root)
    if claimed.data_hash is not None:
        found = hash_of(config)
        if found != claimed.data_hash:
            raise DataError(
                f"{path}: the data ({', '.join(named)}) are not those of the recipe: their hash is {found}, expected"
                f" {claimed.data_hash}; put them back, or copy the recipe and take its data_hash out"
            )
    seed = config.get("seed", 1)
    folder = out if out is not None else Path("runs") / (path.stem + _suffix(seed))
    first = str(config.get("init_from", ""))
    if first.endswith(".yaml") and not (folder / "config.yaml").is_file():
        above = (*above, path.resolve())
        too = {"seed": seed} | {key: changes[key] for key in HOW if key in changes}
        config["init_from"] = _made_first(path, first, folder.parent, above, too, root=root, quiet=quiet)
    if (folder / "config.yaml").is_file():
        given = {key: value for key, value in changes.items() if key in MAY_CHANGE}
        run = train(resume=folder, quiet=quiet, **given)
    else:
        run = train(config.pop("model", None), out=str(folder), quiet=quiet, **config)
    if run.data["interrupted"]:
        raise InputError(f"the run was interrupted; go on by the same command, which goes on in {folder}")
    from .evaluation import evaluate

    report = evaluate(run.folder, **claimed.evaluate)
    return Reproduced(claimed, score_of(report, claimed.score), run.folder, report)


def _made_first(
    recipe: Path, named: str, beside: Path, above: tuple[Path, ...], changes: Mapping[str, Any], **how: Any
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
    return str(_reproduce(path, beside / (path.stem + _suffix(changes["seed"])), above, changes, **how).folder)


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


def score_of(report: Report, name: str) -> float:
    """A score of an evaluation by its name. Raises ConfigError for one that is not there."""
    scores = report.data["scores"]
    if name not in scores:
        near = nearest(name, scores)
        raise ConfigError(f"score: {name!r} was not found;{did_you_mean(near)} found: {', '.join(scores)}", near=near)
    value = scores[name]
    return float(value["score"] if isinstance(value, Mapping) else value)


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
    for key in SOURCES:
        for name in _listed(config.get(key)):
            for file in files_of(str(name)) if is_file(name) else ():
                try:
                    with open(file, "rb") as content:
                        digest.update(hashlib.file_digest(content, "sha256").digest())
                except OSError as error:
                    raise DataError(
                        f"cannot be read ({error.strerror}); say where the data lie: --root", path=file
                    ) from None
    return digest.hexdigest()[:16]


def files_of(name: str) -> list[Path]:
    """The files of a source: parallel ones as in train.{de,en}, a file, those of a pattern or a folder."""
    from ..data.records import beside
    from ..data.sources import files_of as all_of

    parallel = [Path(file) for file in beside(name).values()]
    return parallel or (all_of(name) if "*" in name or Path(name).is_dir() else [Path(name)])


def _listed(given: Any) -> list[Any]:
    return [] if given is None else given if isinstance(given, list) else [given]
