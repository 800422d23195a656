"""Built-in data: text that every Python installation carries, so that a first model trains without a download.

The standard library's files are read with `ast`, never imported. What comes out depends on the version of Python; two
installations of one version give the same. `docs/reference/data.md` states contents and split.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import importlib.util
import json
import platform
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..registry import Registry
from .cache import cached_entry

builtin: Registry[Callable[[], list[str]]] = Registry("built-in data set")
"""Built-in sets: a function that returns the documents."""

VERSION = 1
"""Raised when what is read, or how, changes: then cached documents are made again."""

LEFT_OUT = frozenset(
    # tests; packages that are not Python's; then what not every installation has; what later versions dropped; tables
    "test tests idle_test site-packages dist-packages __pycache__ ensurepip"
    " idlelib turtledemo"
    " distutils lib2to3"
    " encodings pydoc_data".split()
)
"""Folders of the standard library that are not read."""


def library_files(root: Path | None = None) -> list[Path]:
    """The files of the standard library that are read, sorted by their path in it."""
    root = root or Path(sysconfig.get_path("stdlib"))
    found = []
    for path in root.rglob("*.py"):
        inside = path.relative_to(root)
        folders = inside.parts[:-1]
        if LEFT_OUT.isdisjoint(folders) and not inside.parts[0].startswith(("config-", "_sysconfigdata")):
            found.append((inside.as_posix(), path))
    return [path for _, path in sorted(found)]


def docstrings(source: str) -> str:
    """The docstrings of a module, its own first, then those of its classes and functions as they stand.

    A blank line stands between them. Indentation is removed as `inspect.cleandoc` does it. Empty if there is none, or
    if the source is no Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    return "\n\n".join(text for text in _docstrings(tree) if text.strip())


def _docstrings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        yield ast.get_docstring(node) or ""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _docstrings(child)


def topics() -> list[str]:
    """The reference topics of Python's help, read from pydoc_data/topics.py; none where it is not installed."""
    found = importlib.util.find_spec("pydoc_data")
    folders = list(found.submodule_search_locations or []) if found else []
    for folder in folders:
        path = Path(folder) / "topics.py"
        if path.is_file():
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                    return [str(text) for text in ast.literal_eval(node.value).values()]
    return []


@builtin.register("python-docs")
def python_docs() -> list[str]:
    """Prose: the help topics, and the docstrings of each module of the standard library, a document each."""
    return _kept("python-docs", lambda: [*topics(), *map(docstrings, _sources())])


@builtin.register("python-code")
def python_code() -> list[str]:
    """Code: the source of each module of the standard library, a document each."""
    return _kept("python-code", lambda: list(_sources()))


def _sources() -> Iterator[str]:
    for path in library_files():
        try:
            yield path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):  # a few old files declare another encoding
            continue


def _kept(name: str, make: Callable[[], list[str]]) -> list[str]:
    """Documents without duplicates and in sorted order, cached: parsing the library takes seconds."""
    python = f"{platform.python_implementation()} {platform.python_version()} {sysconfig.get_path('stdlib')}"
    key = f"{name} {VERSION} {python}"

    def write(folder: Path) -> dict[str, Any]:
        # Syntax trees are millions of objects; the collector would walk through them again and again.
        on = gc.isenabled()
        gc.disable()
        try:
            texts = {_whole(text) for text in make()}
        finally:
            if on:
                gc.enable()
        documents = sorted(text for text in texts if text.strip())
        if not documents:
            raise DataError(
                f"{name}: this Python carries no standard library as files; name a text file of your own instead",
                path=sysconfig.get_path("stdlib"),
            )
        (folder / "documents.json").write_text(json.dumps(documents), encoding="utf-8")
        return {"data": name, "documents": len(documents), "python": platform.python_version()}

    folder = cached_entry("builtin", hashlib.sha256(key.encode()).hexdigest()[:32], write)
    return list(json.loads((folder / "documents.json").read_text(encoding="utf-8")))


def _whole(text: str) -> str:
    """The text with half characters, which a docstring's escapes can write, replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")
