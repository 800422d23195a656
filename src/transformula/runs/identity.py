"""What decides a run's numbers beside its configuration, in a few digits: code, packages, versions."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib import metadata, util
from pathlib import Path
from typing import Any

from ..plain import plain
from ..structured import is_yaml

PACKAGE = Path(__file__).parents[1]
ASIDE = ("comparison", "cli", "diagram", "gallery", "inspection", "recipes")  # rooms that change no number of a run
LIBRARIES = ("torch", "numpy", "tokenizers", "transformula")


def content_hash(path: Path) -> str:
    """The hash of a file's bytes; computed again only for a file that has changed."""
    stamp = path.stat()
    return _content_hash(path.resolve(), stamp.st_size, stamp.st_mtime_ns)


@lru_cache(maxsize=4096)
def _content_hash(path: Path, size: int, changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, hashlib.blake2b).hexdigest()[:32]


@lru_cache
def code_identity() -> str:
    """The program's own code, as far as it decides numbers."""
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in ASIDE]
    return digest([[str(path.relative_to(PACKAGE)), content_hash(path)] for path in files])


def package_identity(name: str) -> Any:
    """The code of a package that the user named, or the content of a family's data file."""
    if is_yaml(name):
        return content_hash(Path(name).expanduser())
    found = util.find_spec(name)
    if found is None or found.origin is None:
        return name
    origin = Path(found.origin)
    inside = [path for ending in ("*.py", "*.yaml") for path in origin.parent.rglob(ending)]
    files = sorted(inside) if found.submodule_search_locations else [origin]
    return [content_hash(path) for path in files]


@lru_cache
def versions() -> dict[str, str]:
    """Versions of what decides numbers."""
    known = {"python": ".".join(map(str, sys.version_info[:2]))}
    for name in LIBRARIES:
        try:
            known[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            known[name] = "not installed"
    return known


def digest(value: Any) -> str:
    """32 hexadecimal digits that say plain data."""
    text = json.dumps(plain(value), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def describe_code(use: Sequence[str]) -> dict[str, Any]:
    """For a run's manifest: the code, that of the packages which it uses, and the versions of libraries."""
    packages = {name: digest(package_identity(name)) for name in use}
    return {"code": code_identity(), "versions": versions(), **({"packages": packages} if packages else {})}
