"""Which files of a folder this program wrote: those that the marker in it lists. It replaces and removes no others.

A name says nothing of who wrote a file: anyone may have a model.yaml, a report.md or a folder figures/.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from .atomic_io import remove_abandoned, write_whole
from .errors import CheckpointError
from .structured import Malformed, load_json

MARKER = ".transformula.json"


def mark(folder: Path, names: Iterable[str] | None = None) -> None:
    """List files in a folder's marker, by default all that it holds. Raises OSError."""
    files = sorted(set(names_in(folder) if names is None else names) - {MARKER})
    write_whole(folder / MARKER, (json.dumps({"files": files}, indent=1) + "\n").encode())


def marked_files(folder: Path) -> frozenset[str]:
    """The files that a folder's marker lists, and the marker; none where there is no marker, or one that is not ours.
    They are compared with names, and never opened: a marker may come from a stranger."""
    path = folder / MARKER
    try:
        if path.is_symlink():
            return frozenset()
        files = load_json(path)["files"]
        return frozenset({MARKER, *map(str, files)}) if isinstance(files, list) else frozenset()
    except (OSError, Malformed, KeyError, TypeError):
        return frozenset()


def names_in(folder: Path) -> Iterator[str]:
    """The files in a folder and below, by their path in it, in order; links and empty folders, too."""
    for place, below, files in os.walk(folder):
        below.sort()
        links = [name for name in below if os.path.islink(os.path.join(place, name))]
        if not below and not files and place != str(folder):
            links = [""]
        for name in sorted([*files, *links]):
            yield Path(place, name).relative_to(folder).as_posix()


def foreign_files(folder: Path) -> Iterator[str]:
    """What a folder holds that its marker does not list. A link is never ours."""
    ours = marked_files(folder)
    return (name for name in names_in(folder) if name not in ours or (folder / name).is_symlink())


def refuse_strangers(folder: Path) -> None:
    """Raise CheckpointError if a folder that is to be replaced holds a file that this program did not write."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder}: is a file; name a folder")
    remove_abandoned(folder)
    if (stranger := next(foreign_files(folder), None)) is not None:
        raise _refusal(folder, stranger)


def refuse_unmarked(folder: Path) -> None:
    """Raise CheckpointError if a folder that is to be written into has files and no marker of ours."""
    if not marked_files(folder):
        refuse_strangers(folder)


def claim(folder: Path, names: Iterable[str]) -> None:
    """List files that are about to be written into a folder, which is made; what else lies in it stays.

    Raises CheckpointError where a file of such a name is there that this program did not write, where the folder has
    files and no marker, and where it cannot be written.
    """
    ours, names = marked_files(folder), list(names)
    refuse_unmarked(folder)
    for name in names:
        path = folder / name
        linked = [p for p in (path, *path.parents) if folder in p.parents and p.is_symlink()]
        if linked or (name not in ours and path.exists()):
            raise _refusal(folder, name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not ours.issuperset(names):
            mark(folder, {*ours, *names})
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be written ({error.strerror}); name another folder") from None


def _refusal(folder: Path, stranger: str) -> CheckpointError:
    what = f"holds {stranger}, which {MARKER} does not list as written by transformula, so nothing is replaced"
    return CheckpointError(f"{folder}: {what}; name another folder, or move the file away")
