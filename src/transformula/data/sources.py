"""Where text comes from: a file, several, a folder, a glob, or a built-in set by its name."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..errors import DataError, did_you_mean, nearest
from .builtin import builtin
from .format import extension, formats, read_file


@dataclass(frozen=True)
class Corpus:
    """The text that was asked for.

    name       as a person named it
    documents  texts, none of them empty, in the order of the files
    files      how many files they come from (0: built in)
    left_out   empty documents, which are not among them
    """

    name: str
    documents: list[str]
    files: int = 0
    left_out: int = 0

    @cached_property
    def digests(self) -> list[bytes]:
        """A hash of each document, 32 bytes."""
        return [hashlib.sha256(document.encode("utf-8")).digest() for document in self.documents]

    @cached_property
    def identity(self) -> str:
        """A hash of the whole content, order included; names of files do not count."""
        return hashlib.sha256(b"".join(self.digests)).hexdigest()


def read_corpus(data: str | Path | Sequence[str | Path], column: str | None = None) -> Corpus:
    """The documents of one or several sources.

    data    a built-in set, a file, a folder (all files of known extensions in it, at any depth, hidden ones left out),
            a pattern with *, ? or **; or a list of such
    column  for files with columns: which holds the text

    Raises DataError for what is missing, empty or broken, with place and remedy.
    """
    sources = [data] if isinstance(data, (str, Path)) else list(data)
    if not sources:
        raise DataError("no data is named; name a file, a folder, a pattern or one of: " + ", ".join(builtin.names()))
    documents: list[str] = []
    files = 0
    for source in sources:
        if isinstance(source, str) and source in builtin:
            documents += builtin.get(source)()
            continue
        for path in files_of(source):
            documents += read_file(path, column)
            files += 1
    name = ", ".join(map(str, sources))
    kept = [document for document in documents if document.strip()]
    if not kept:
        raise DataError("holds no text: every document in it is empty", path=name)
    return Corpus(name, kept, files, len(documents) - len(kept))


def files_of(source: str | Path) -> list[Path]:
    """The files of one source, sorted."""
    try:
        return _found(Path(source).expanduser(), str(source))
    except (OSError, ValueError, RuntimeError) as error:  # a name too long, a zero in it, the home of an unknown user
        said = getattr(error, "strerror", None) or error
        shown = str(source) if len(str(source)) <= 80 else f"{str(source)[:77]}..."
        raise DataError(
            f"cannot be looked up ({said}); expected the name of a file, not its text", path=shown
        ) from None


def _found(path: Path, source: str) -> list[Path]:
    if path.is_dir():
        inside = [p for p in sorted(path.rglob("*")) if p.is_file() and not _hidden(p.relative_to(path))]
        known = [p for p in inside if extension(p) in formats]
        if not known:
            others = sorted({p.suffix or p.name for p in inside})
            held = f"it holds {', '.join(others[:8])}" if others else "it is empty"
            raise DataError(
                f"the folder has no file of a known format ({held}; known: {', '.join(formats.names())});"
                f" read others as text by a pattern, such as '{path}/**/*'",
                path=path,
            )
        return known
    if path.is_char_device() or path.is_block_device():
        raise DataError("is a device; expected a file", path=path)
    if path.exists():
        return [path]
    if glob.has_magic(source):
        found = [Path(p) for p in sorted(glob.glob(str(path), recursive=True)) if Path(p).is_file()]
        if not found:
            raise DataError("the pattern fits no file", path=source)
        return found
    raise DataError(_missing(path), path=source)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _missing(path: Path) -> str:
    """What to say of a file that is not there: the nearest names in its folder, and the built-in sets."""
    folder = path.parent
    beside: Iterable[str] = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    near = [str(folder / name) if str(folder) != "." else name for name in nearest(path.name, beside)]
    near += nearest(path.name, builtin.names())
    where = "" if folder.is_dir() else f"; there is no folder {folder} either"
    return f"there is no such file{where};{did_you_mean(near)} built in: {', '.join(builtin.names())}"
