"""Folders that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial-"
"""How the name of a folder starts that is still being written. What a killed process left is removed by the next."""


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        if not path.is_dir():  # some file systems cannot do it for folders
            raise
    finally:
        os.close(handle)


def remove_partial(parent: Path) -> None:
    """Remove what processes that were killed left half written in `parent`, or put back what they were replacing."""
    for left in parent.glob(f"{PARTIAL}*"):
        kept = left / "replaced"
        target = parent / left.name.removeprefix(PARTIAL).rsplit("-", 1)[0]
        if kept.is_dir() and not target.exists():
            os.rename(kept, target)
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to fill that becomes `target` when the block ends, replacing what stood there, and vanishes if it fails.

        with whole_folder(path) as folder:
            (folder / "a.txt").write_text("...")

    Every file is synced before the rename. Where `target` exists, it is set aside for the moment between two renames;
    `remove_partial` puts it back if the process is killed right there. A block that removes the folder it was given
    leaves what stood at `target`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{PARTIAL}{target.name}-"))
    try:
        folder = place / "new"
        folder.mkdir()
        yield folder
        if not folder.exists():
            return
        for path in sorted(folder.rglob("*")):
            sync(path)
        sync(folder)
        if target.exists():
            os.rename(target, place / "replaced")
        os.rename(folder, target)
        sync(target.parent)
    finally:
        if (place / "replaced").is_dir() and not target.exists():
            os.rename(place / "replaced", target)
        shutil.rmtree(place, ignore_errors=True)
