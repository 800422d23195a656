"""The cache: what can be made again from the data and takes time. `TRANSFORMULA_CACHE`, or ~/.cache/transformula.

    KIND/KEY/about.json     what it is, for people
    KIND/KEY/...            the files

A key is a hash of all that the content depends on, so nothing in the cache is ever out of date; changed data has
another key. An entry is made beside its place, by one process at a time, and moved there when it is whole. What it
holds is compared with the hash in its `about` whenever it is used (a second for 1.2 GB): training on zeros that a disk
left would show nowhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..atomic_io import bytes_in, flocked, new_folder, sync
from ..errors import DataError
from ..structured import load_json
from .preview import working

ABOUT = "about.json"
WAIT = 0.1  # seconds between two looks at whether another process is done
KINDS = ("tokens", "tokenizer", "builtin", "baselines", "reference", "teacher")
UNFINISHED = re.compile(r"\..{1,16}\.([0-9a-f]{1,8}|[0-9]+\.old)")  # see `_make` and `_move`


def cache_folder() -> Path:
    """Where the cache lies. Raises DataError where no home folder is known and no other is named."""
    named = os.environ.get("TRANSFORMULA_CACHE")
    try:
        return Path(named).expanduser() if named else Path.home() / ".cache" / "transformula"
    except RuntimeError:
        raise DataError(
            "no home folder is known for the cache: set HOME, or TRANSFORMULA_CACHE to a folder that may be written"
        ) from None


@dataclass(frozen=True)
class CacheEntry:
    """One thing in the cache."""

    kind: str
    key: str
    path: Path
    about: dict[str, Any]  # what was written beside it: of which data, made how
    bytes: int
    made: float  # in seconds since 1970


def cached_entry(kind: str, key: str, make: Callable[[Path], dict[str, Any]]) -> Path:
    """The folder of an entry, made by `make(folder) -> about` if it is not there, or not as it was written. If that
    fails nothing is left behind. Raises DataError where the cache cannot be written."""
    place = cache_folder() / kind / key
    if is_whole(place):
        return place
    with guarded(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        for left in place.parent.glob(".*"):  # what processes that were killed left half made, more than a day ago
            with contextlib.suppress(FileNotFoundError):  # another process has made it whole just now
                if UNFINISHED.fullmatch(left.name) and left.is_dir() and time.time() - left.stat().st_mtime > 86400:
                    shutil.rmtree(left, ignore_errors=True)
    with _alone(place):
        if not is_whole(place):
            _make(place, make)
    return place


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Wait while another process makes an entry, such as another rank of the same training. This saves work alone:
    where a file system has no locks both make it, and the first to be done wins."""
    path = place.with_name(f".{place.name}.lock")
    with guarded(place):
        handle = open(path, "ab")
    try:
        if not flocked(handle.fileno()):
            with working("waiting for another process that makes the same"):
                while not flocked(handle.fileno()):
                    time.sleep(WAIT)
        yield
    finally:
        with contextlib.suppress(OSError):  # those who wait hold the file itself, and find the entry
            path.unlink()
        handle.close()


def _make(place: Path, make: Callable[[Path], dict[str, Any]]) -> None:
    """Make an entry beside its place, and move it there."""
    with guarded(place):
        temporary = new_folder(place.parent, f".{place.name[:16]}.")
    try:
        about = make(temporary)
        with guarded(place):
            about["sha256"] = hash_of(temporary, about)
            (temporary / ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")
            for path in temporary.iterdir():
                sync(path)
            _move(temporary, place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def is_whole(place: Path) -> bool:
    """Whether an entry is there, and all of it as it was written."""
    try:
        about = load_json(place / ABOUT)
        return bool(about.pop("sha256") == hash_of(place, about))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def hash_of(folder: Path, about: Mapping[str, Any]) -> str:
    """SHA-256 of what is said of an entry and of its files."""
    files = {}
    for path in sorted(path for path in folder.iterdir() if path.name != ABOUT):
        with path.open("rb") as file:
            files[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(json.dumps([about, files], sort_keys=True).encode()).hexdigest()


@contextmanager
def guarded(place: Path) -> Iterator[None]:
    """Raise DataError where what is done at a place of the cache fails, as on a full disk."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        message = f"the cache cannot be written ({reason}); name a folder that can with TRANSFORMULA_CACHE"
        raise DataError(message, path=place) from None


def _move(fresh: Path, place: Path) -> None:
    """Put a whole entry into its place. If another process was faster, its entry, of the same content, stays; what else
    is there, a crash, a hand or a disk left. At every moment an entry is there or not, never in part."""
    for attempt in range(10):
        try:
            fresh.rename(place)
            return
        except OSError:
            if is_whole(place):
                return
            if attempt == 9:
                raise
        aside = place.with_name(f".{place.name[:16]}.{os.getpid()}.old")
        with contextlib.suppress(OSError):
            place.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def cache_entries() -> list[CacheEntry]:
    """What the cache holds, newest first."""
    entries = []
    for file in cache_folder().glob(f"*/[!.]*/{ABOUT}"):  # a dot: being made at this moment
        with contextlib.suppress(OSError, ValueError):
            folder, about = file.parent, load_json(file)
            made = file.stat().st_mtime
            entries.append(CacheEntry(folder.parent.name, folder.name, folder, about, bytes_in(folder), made))
    return sorted(entries, key=lambda entry: -entry.made)


def clear_cache() -> int:
    """Empty the cache: everything is made again when it is needed. Returns how many bytes became free. A folder is
    removed if its `about.json` has the hash that is written there, so that a folder that is named as the cache by
    mistake loses nothing else."""
    freed = 0
    for kind in KINDS:
        folder = cache_folder() / kind
        for path in sorted(folder.glob("*")):
            if path.is_symlink() or not (UNFINISHED.fullmatch(path.name) or is_entry(path)):
                continue
            freed += bytes_in(path)
            shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):  # something else lies in it
            folder.rmdir()
    return freed


def is_entry(folder: Path) -> bool:
    """Whether a folder was written as an entry, whole or damaged since."""
    try:
        return len(load_json(folder / ABOUT)["sha256"]) == 64
    except (OSError, ValueError, KeyError, TypeError):
        return False
