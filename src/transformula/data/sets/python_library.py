"""python-docs, python-code: text that every Python carries, so that a first model trains without a download.

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

from ...errors import DataError
from ..built_in import Rows, built_in
from ..cache import cached_entry

VERSION = 2
"""Raised when what is read, or how, changes: then cached rows are made again."""

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


@built_in("python-docs", ("text",))
def python_docs(variant: str) -> Rows:
    """Prose: the help topics, and the docstrings of each module of the standard library, a document each."""
    return from_library("python-docs", variant, lambda: _documents([*topics(), *map(docstrings, _sources())]))


@built_in("python-code", ("text",))
def python_code(variant: str) -> Rows:
    """Code: the source of each module of the standard library, a document each."""
    return from_library("python-code", variant, lambda: _documents(list(_sources())))


def _sources() -> Iterator[str]:
    return filter(None, map(text_of, library_files()))


def text_of(path: Path) -> str:
    """The text of a file; nothing where it declares an encoding of its own, as a few old ones do."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _documents(texts: list[str]) -> Rows:
    """Documents without duplicates and in sorted order; half characters, which a docstring's escapes can write, are
    replaced."""
    distinct = sorted({text.encode("utf-8", "replace").decode("utf-8") for text in texts if text.strip()})
    return Rows([(f"document {number}", text) for number, text in enumerate(distinct, 1)])


def from_library(name: str, variant: str, make: Callable[[], Rows]) -> Rows:
    """The rows of a set that is read from the standard library; cached, as parsing it takes seconds.

    Raises DataError for a variant, and where this Python has no such files.
    """
    if variant:
        raise DataError(f"there is one such set; leave out :{variant}", path=name)
    python = f"{platform.python_implementation()} {platform.python_version()} {sysconfig.get_path('stdlib')}"

    def write(folder: Path) -> dict[str, Any]:
        # Syntax trees are millions of objects; the collector would walk through them again and again.
        collecting = gc.isenabled()
        gc.disable()
        try:
            found = make()
        finally:
            if collecting:
                gc.enable()
        rows = list(found.rows)
        if not rows:
            raise DataError(
                f"{name}: this Python carries no standard library as files; name data of your own instead",
                path=sysconfig.get_path("stdlib"),
            )
        content = {"rows": rows, "left_out": dict(found.left_out)}
        (folder / "rows.json").write_text(json.dumps(content), encoding="utf-8")
        return {"data": name, "rows": len(rows), "python": platform.python_version()}

    key = hashlib.sha256(f"{name} {VERSION} {python}".encode()).hexdigest()[:32]
    folder = cached_entry("builtin", key, write)
    content = json.loads((folder / "rows.json").read_text(encoding="utf-8"))
    return Rows(content["rows"], content["left_out"])
