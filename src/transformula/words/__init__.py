"""The vocabulary: small files of words, each a record and its module (see `word.py`). Reading records imports no torch.

A new word is one new file here, or one class of your own: importing its file, or naming its package to
`vocabulary("my_package")`, makes the word known.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..language.vocabulary import Vocabulary, WordRecord

__all__ = ["built_in", "sources_of", "vocabulary"]

REGISTERS = re.compile(r"^\s*@|\.register\(|add_family\(", re.MULTILINE)  # what a file that registers something has


def vocabulary(*packages: str) -> Vocabulary:
    """All words: those of this folder, those that imported modules registered, and those of `packages`.

    A package is named as it is imported (`my_words` or `my.words`); its files are read and not run.

    Raises InputError if a package is not found or registers nothing, if a record is malformed, or if two words have one
    name.
    """
    known = built_in()
    outside: list[WordRecord] = []
    registered = sys.modules.get(f"{__name__}.word")
    if registered is not None:
        outside += [c.record for c in registered.CLASSES.values() if not c.__module__.startswith(f"{__name__}.")]
    for package in packages:
        outside += _stated_by(package)
    return known.with_words(outside) if outside else known


def built_in() -> Vocabulary:
    """The words of this folder alone, whatever has been imported."""
    from ..language.vocabulary import read_folder

    return read_folder(Path(__file__).parent, __name__)


def sources_of(package: str) -> tuple[Path | None, dict[str, str]]:
    """The folder of a package, None of a single file, and the texts of its files by their modules' names; nothing is
    run. Raises InputError where there is none of that name."""
    from ..errors import InputError

    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError) as error:
        raise InputError(f"nothing from {package!r}: it cannot be found ({error})") from None
    if spec is None:
        raise InputError(
            f"nothing from {package!r}: there is no such module or package; give it as it is imported, and put its "
            "folder on PYTHONPATH if it is not installed"
        )
    files, root = {}, None
    if spec.submodule_search_locations is not None:
        for folder in map(Path, spec.submodule_search_locations):
            root = root or folder
            for path in sorted(folder.rglob("*.py")):
                parts = path.relative_to(folder).with_suffix("").parts
                files[path] = ".".join((package, *(p for p in parts if p != "__init__")))
    elif spec.origin is not None:
        files[Path(spec.origin)] = package
    return root, {module: path.read_text(encoding="utf-8") for path, module in files.items()}


def _stated_by(package: str) -> list[WordRecord]:
    """The records in a module's file, or in all files of a package."""
    from ..errors import InputError
    from ..language.vocabulary import records_in

    folder, texts = sources_of(package)
    records = [record for module, text in texts.items() if "@word(" in text for record in records_in(text, module)]
    holds_data = folder is not None and any(folder.rglob("*.yaml"))
    if not holds_data and not any(map(REGISTERS.search, texts.values())):
        what = "none of its files has a class or function under a decorator, such as @word(...) or @task(...)"
        raise InputError(f"nothing from {package!r}: {what}")
    return records  # none, of what holds a task, an optimizer, a family or a data format alone
