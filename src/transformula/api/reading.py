"""What a person calls a model: a formula, a file, a folder, a name of the gallery -> its text, checked. No torch."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, InputError, TransformulaError, setting, shortened
from ..plain import not_utf8

if TYPE_CHECKING:
    from ..language.graph import Architecture
    from ..language.model_text import ModelText
    from ..language.vocabulary import Vocabulary

MODEL_FILE = "model.yaml"
TASK = "language-modeling"  # where none is named
MAX_THREADS = 1024  # more than any machine has cores for; far above, the system refuses them in the middle of a run
PACKAGE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")
LOOKED_AT: set[str] = set()  # packages whose families are known


def of_task(task: str, key: str) -> Any:
    """What the class of a task says, as its "settings", "evaluation" or "model"; of language modeling without torch.

    Raises UnknownName.
    """
    if task == TASK:
        from ..data.settings import DataSettings, LanguageScoring

        return {"model": {}, "settings": DataSettings, "evaluation": LanguageScoring}[key]
    from ..tasks.base import tasks

    return getattr(tasks.get(task), key)


def is_file(given: str | Path) -> bool:
    """Whether a model is meant as a file or folder, whatever its name looks like: "model (1).yaml"."""
    named = isinstance(given, str) and given.endswith((".yaml", ".yml")) and "\n" not in given
    return isinstance(given, Path) or (named and os.path.isfile(given))


def read_model(
    given: str | Path | ModelText, changes: Mapping[str, Any] | None = None, use: Sequence[str] = ()
) -> ModelText:
    """The text of what a person calls a model, with numbers and formulas changed.

    A text with `=` is a formula (the `layer`), one that begins with `language:` is what a model file holds, a name that
    ends in .yaml is a file, a folder is a model's or a run's, anything else is the name of a gallery entry. `family`
    among the changes turns the text, changed in all else, into an encoder, or into an encoder and a decoder. Raises
    FormulaError, UnknownName, CheckpointError, and InputError where a text cannot be of a family.
    """
    from ..language.model_text import ModelText, from_formula

    if not isinstance(given, (str, Path, ModelText)) or not str(given).strip():
        kinds = "a formula (a text with =), a model file (.yaml), a folder or a name of the gallery"
        raise InputError(f"a model is {kinds}; this is {given!r:.40}")
    name = str(given)
    if isinstance(given, ModelText):
        text = given
    elif name.startswith("language:"):
        from ..language.model_file import read_text

        text = read_text(name)
    elif not is_file(given) and re.search(r"[=();]|\n", name):  # also without `=`: the error underlines what lacks
        text = from_formula(name)
    elif name.endswith((".yaml", ".yml")):
        from ..language.model_file import read_file

        text = read_file(path_of(name, "model"))
    elif os.path.isdir(name) or "/" in name:
        text = text_of_folder(model_folder(name))
    else:
        from ..gallery import load

        text = load(name)
    changes = dict(changes or {})
    is_number = "family" in text.numbers or mentions(text, "family")
    family = None if is_number else changes.pop("family", None)
    formulas = ("before", "layer", "after", "output")
    heard = changes.pop("before") if family == "encoder-decoder" and not reads_tokens(changes.get("before")) else None
    text = text.override({key: changes.pop(key) for key in formulas if key in changes})
    # A number that a formula mentions and its file lacks, such as `rank` in a typed formula, is given as an option too.
    new = {key: changes.pop(key) for key in list(changes) if key not in text.numbers and mentions(text, key)}
    if new:
        from ..language.model_text import constant_text
        from ..language.source import Source

        sources = {key: Source(f"number {key}", constant_text(value)) for key, value in new.items()}
        text = dataclasses.replace(text, numbers={**text.numbers, **sources})
    text = text.override(changes)
    if family is not None:
        from ..families.conversion import of_family

        text = of_family(text, str(family), known_words(use), heard)
    return text


def reads_tokens(before: Any) -> bool:
    """Whether a `before` that is given is one of tokens, or none is given: of two stacks, the encoder has any other."""
    return not isinstance(before, str) or re.search(r"\btokens\b", before) is not None


def mentions(text: ModelText, key: str) -> bool:
    """Whether a formula reads `key` as a name (`channels=3` is an option), and it is no key of every model."""
    from ..language.model_text import FREE_NUMBERS, MODEL_KEYS

    name = re.compile(rf"\b{re.escape(key)}\b(?!\s*=(?!=))")
    sources = (*text.formulas, *text.numbers.values())
    return key not in (*MODEL_KEYS, *FREE_NUMBERS) and any(name.search(source.text) for source in sources)


def path_of(given: str | Path, what: str) -> Path:
    """A file or a folder by its name; `what` is the setting that names it.

    Raises InputError for a name that no file can have: an empty one, one too long, one with a NUL in it; and for one
    that no run can record, since it is not in UTF-8.
    """
    name = str(given)
    if wrong := not_utf8(name):
        raise InputError(f"{setting(what)}: {wrong}")
    try:
        if not name.strip():
            raise ValueError("it is empty")
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            os.lstat(name)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{setting(what, repr(shortened(name)))} cannot be a file's name: {reason}") from None
    return Path(given)


def text_of_folder(folder: Path) -> ModelText:
    """The text of a model's folder, ours or one of transformers; needs no torch."""
    from ..interop.named import is_theirs
    from ..language.model_file import read_file, read_text

    if not is_theirs(folder):
        return read_file(folder / MODEL_FILE)
    from ..interop.named.text import text_of_folder

    return read_text(text_of_folder(folder))


def model_folder(path: str | Path) -> Path:
    """The folder with the model of a run (its best, else its last), or `path` itself if it is a model's, ours or one
    of transformers; of a model of the hub (`hf:OWNER/NAME`) that to which it was fetched."""
    from ..interop.named import is_theirs

    if str(path).startswith("hf:"):
        from ..interop.hub import hub_folder

        return hub_folder(path)
    path = path_of(path, "model")
    for folder in (path, path / "best", path / "last"):
        if (folder / MODEL_FILE).is_file():
            return folder
    if is_theirs(path):
        return path
    from ..runs.folder import CONFIG, RunFolder, runs_near

    what = "is a file" if path.exists() else "there is no such folder"
    if path.is_dir():
        what = f"holds neither {MODEL_FILE} nor a config.json of transformers"
    reason = f"{what}; expected a run's folder, as `train` leaves it, or a model's{runs_near(path)}"
    if (path / CONFIG).is_file():
        reason = f"the run has saved no model yet; go on with it: {RunFolder(path).resume_command()}"
    raise CheckpointError(f"{path}: {reason}")


def known_words(use: Sequence[str] = ()) -> Vocabulary:
    """All words, those of the packages `use` included. Nothing is imported: their files are read."""
    from ..words import vocabulary

    look_here(use)
    # A package that `import_packages` has run registered its words itself; it may hold none (a data format, say).
    return vocabulary(*(package for package in packages_of(use) if package not in sys.modules))


def packages_of(use: Sequence[str]) -> list[str]:
    """The packages among what a user names: no data files of families."""
    if not use:
        return []
    from ..structured import is_yaml

    return [name for name in use if not is_yaml(name)]


def look_here(use: Sequence[str]) -> None:
    """Let packages that the user names be found in the folder of work too, and make their families known, whose data
    files may be named themselves. Raises InputError for what is no list, CheckpointError for a mistake in a family."""
    if isinstance(use, (str, bytes)) or not isinstance(use, Iterable):
        raise InputError(f"use: expected a list of packages, such as use=['my_words']; this is {use!r:.40}")
    if use and "" not in sys.path and str(Path.cwd()) not in sys.path:
        # Last, so that a file which happens to lie here hides no installed package.
        sys.path.append(str(Path.cwd()))
    for name in use:
        add_families(name)


def add_families(name: str) -> None:
    """Make the families known of a data file, or of a package, whose files are read once and not run."""
    from ..interop.named.outside import add_families_of, add_family
    from ..structured import is_yaml
    from ..words import sources_of

    if is_yaml(name):
        add_family(path_of(name, "use"))
    elif PACKAGE.match(name) and name not in LOOKED_AT:
        try:
            sources = sources_of(name)
        except InputError:  # it is told where it is imported
            return
        add_families_of(*sources)
        LOOKED_AT.add(name)


def check_model(
    given: str | Path | ModelText | Architecture, changes: Mapping[str, Any] | None = None, use: Sequence[str] = ()
) -> Architecture:
    """Read a model and check it, unless it is checked already; needs no torch."""
    from ..language.check import check
    from ..language.graph import Architecture

    if isinstance(given, Architecture):
        return given
    look_here(use)
    return check(read_model(given, changes, use), known_words(use))


def import_packages(use: Sequence[str]) -> None:
    """Import packages that the user named, and all their modules: their words, data formats, optimizers, tasks."""
    look_here(use)
    for package in packages_of(use):
        if not PACKAGE.match(package):
            named = setting("use", repr(shortened(package)))
            raise InputError(f"{named}: is no package's name; give it as it is imported")
        named = setting("use", shortened(package))
        try:
            module = importlib.import_module(package)
            for inner in pkgutil.walk_packages(getattr(module, "__path__", []), f"{package}."):
                importlib.import_module(inner.name)
        except TransformulaError:
            raise
        except ImportError as error:
            remedy = "give it as it is imported, and put its folder on PYTHONPATH if it is neither installed nor here"
            raise InputError(f"{named}: {shortened(str(error), 400)}; {remedy}") from None
        except Exception as error:  # whatever its code raises when it runs
            where = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"{type(error).__name__}: {shortened(str(error), 400)}"
            raise InputError(f"{named}: cannot be imported: {reason} ({where.filename}:{where.lineno})") from error


def set_threads(count: int | None) -> None:
    """Use so many CPU threads; None leaves it to torch."""
    check_threads(count)
    if count is not None:
        import torch

        torch.set_num_threads(count)


def check_threads(count: int | None) -> None:
    """Raises InputError for a number of threads that cannot be."""
    if count is not None and not 1 <= count <= MAX_THREADS:
        raise InputError(f"{setting('threads')}: expected 1 to {MAX_THREADS:,} (got {count:,})")
