"""Where text comes from: a file, several, a folder, a glob, or a built-in set by its name."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..errors import DataError, did_you_mean, nearest
from ..tokenizers.texts import Content, Texts, pieces_of
from .builtin import builtin
from .files import check_regular, unreadable
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
    documents: Texts
    files: int = 0
    left_out: int = 0

    @cached_property
    def identity(self) -> str:
        """A hash of the whole content, order included; names of files do not count."""
        return hashlib.sha256(b"".join(self.documents.digests)).hexdigest()


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
    contents: list[Content] = []
    files = 0
    for source in sources:
        if isinstance(source, str) and source in builtin:
            contents += Texts.of(builtin.get(source)()).contents
            continue
        for path in files_of(source):
            contents += read_file(path, column).contents
            files += 1
    name = ", ".join(map(str, sources))
    kept = [content for content in contents if not _blank(content)]
    if not kept:
        raise DataError("holds no text: every document in it is empty", path=name)
    return Corpus(name, Texts(kept), files, len(contents) - len(kept))


def _blank(content: Content) -> bool:
    """Whether a document holds nothing but white space."""
    return all(not piece.strip() for piece in pieces_of(content))


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
        inside = [p for p in _inside(path) if p.is_file() and not _hidden(p.relative_to(path))]
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
    if path.exists() or path.is_symlink():
        check_regular(path)
        return [path]
    if glob.has_magic(source):
        found = [Path(p) for p in sorted(glob.glob(str(path), recursive=True)) if Path(p).is_file()]
        if not found:
            raise DataError("the pattern fits no file", path=source)
        return found
    raise DataError(_missing(path), path=source)


def _inside(folder: Path) -> list[Path]:
    """All files of a folder, at any depth, sorted. Raises DataError for a folder in it that may not be read."""

    def refused(error: OSError) -> None:
        raise unreadable(Path(error.filename or folder), error)

    return sorted(Path(place) / name for place, _, names in os.walk(folder, onerror=refused) for name in names)


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
