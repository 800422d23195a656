"""Text that every Python carries, so that a first model trains without a download.

    python-docs, python-code   the documentation, or the code, of the standard library: a document a module
    python-summaries           a function, without its docstring and its indentation -> the docstring's first line

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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...plain import python_tree
from ..built_in import Rows, built_in
from ..cache import cached_entry

VERSION = 2  # raised when what is read, or how, changes: then cached rows are made again

LEFT_OUT = frozenset(  # folders that are not read
    # tests; packages that are not Python's; then what not every installation has; what later versions dropped; tables
    "test tests idle_test site-packages dist-packages __pycache__ ensurepip"
    " idlelib turtledemo distutils lib2to3 encodings pydoc_data".split()
)
EMPTY = "functions with hardly a body"  # nothing but `pass`, `...` or `raise NotImplementedError`: no pair
SAME = "functions that equal one before"  # but for blanks: no pair either

Function = ast.FunctionDef | ast.AsyncFunctionDef


def library_files(root: Path | None = None) -> list[Path]:
    """The files of the standard library that are read, sorted by their path in it."""
    root = root or Path(sysconfig.get_path("stdlib"))
    inside = {path.relative_to(root): path for path in root.rglob("*.py")}
    wanted = [
        (name.as_posix(), path)
        for name, path in inside.items()
        if LEFT_OUT.isdisjoint(name.parts[:-1]) and not name.parts[0].startswith(("config-", "_sysconfigdata"))
    ]
    return [path for _, path in sorted(wanted)]


def module_of(path: Path, root: Path | None = None) -> str:
    """The name of the module that a file of the standard library holds."""
    return ".".join(path.relative_to(root or sysconfig.get_path("stdlib")).with_suffix("").parts)


def text_of(path: Path) -> str:
    """The text of a file; nothing where it declares an encoding of its own, as a few old ones do."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def tree_of(source: str) -> ast.Module:
    """The syntax tree of a module; an empty one where it is no Python."""
    try:
        return python_tree(source)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def docstrings(source: str) -> str:
    """The docstrings of a module, its own first, then those of its classes and functions as they stand, a blank line
    between them, indented as `inspect.cleandoc` does it. Empty if there is none, or if the source is no Python."""

    def inside(node: ast.AST) -> Iterator[str]:
        if isinstance(node, (ast.Module, ast.ClassDef, Function)):
            yield ast.get_docstring(node) or ""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield from inside(child)

    return "\n\n".join(text for text in inside(tree_of(source)) if text.strip())


def topics() -> list[str]:
    """The reference topics of Python's help, read from pydoc_data/topics.py; none where it is not installed."""
    package = importlib.util.find_spec("pydoc_data")
    for folder in (package and package.submodule_search_locations) or []:
        path = Path(folder) / "topics.py"
        for node in python_tree(path.read_text(encoding="utf-8")).body if path.is_file() else ():
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                return [str(text) for text in ast.literal_eval(node.value).values()]
    return []


@built_in("python-docs", ("text",))
def python_docs(variant: str) -> Rows:
    """Prose: the help topics, and the docstrings of each module of the standard library, a document each."""
    return from_library(
        "python-docs", variant, lambda: _documents([*topics(), *map(docstrings, map(text_of, library_files()))])
    )


@built_in("python-code", ("text",))
def python_code(variant: str) -> Rows:
    """Code: the source of each module of the standard library, a document each."""
    return from_library("python-code", variant, lambda: _documents(map(text_of, library_files())))


def _documents(texts: Iterable[str]) -> Rows:
    distinct = sorted({whole_characters(text) for text in texts if text.strip()})
    return Rows([(f"document {number}", text) for number, text in enumerate(distinct, 1)])


def whole_characters(text: str) -> str:
    """A text whose half characters, which a docstring's escapes can write and UTF-8 cannot, are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


@built_in("python-summaries", ("source", "target"), grouped=True)
def read_summaries(variant: str) -> Rows:
    """A function -> what its docstring says of it first. Modules and functions come in the order of path and line."""
    return from_library("python-summaries", variant, lambda: _pairs(Path(sysconfig.get_path("stdlib"))))


def _pairs(root: Path) -> Rows:
    rows: list[tuple[str, str, str]] = []
    left_out = Counter({EMPTY: 0, SAME: 0})
    seen: set[str] = set()
    for path in library_files(root):
        module = module_of(path, root)
        for line, source, target in summaries(text_of(path)):
            words = " ".join(source.split())
            if not source or words in seen:
                left_out[SAME if source else EMPTY] += 1
            else:
                seen.add(words)
                rows.append((f"{module}:{line}", source, target))
    return Rows(rows, left_out)


def summaries(module: str) -> Iterator[tuple[int, str, str]]:
    """(line, source, target) of the functions of a module that say what they do, in their order; methods and inner
    functions too. The source is empty where there is hardly a body. Nothing comes of what is no Python."""
    lines = module.encode().splitlines(keepends=True)
    functions = [node for node in ast.walk(tree_of(module)) if isinstance(node, Function)]
    for node in sorted(functions, key=lambda node: (node.lineno, node.col_offset)):
        target = whole_characters(" ".join((ast.get_docstring(node) or "").partition("\n")[0].split()))
        if target:
            hardly = all(map(_says_nothing, node.body[1:]))
            yield node.lineno, "" if hardly else _without_docstring(node, lines), target


def _says_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Expr(ast.Constant()):
            return True
        case ast.Raise():
            return any(isinstance(n, ast.Name) and n.id == "NotImplementedError" for n in ast.walk(statement))
    return False


def _without_docstring(node: Function, lines: list[bytes]) -> str:
    """The source of a function without its first statement, moved to the left. Columns of a syntax tree count bytes."""
    docstring, following = node.body[0], node.body[1]
    last = docstring.end_lineno or docstring.lineno
    head = lines[node.lineno - 1 : docstring.lineno - 1]
    start = lines[docstring.lineno - 1][: docstring.col_offset]
    rest = lines[last : node.end_lineno]
    if following.lineno == last:  # """It says."""; return 1
        rest = [start + lines[last - 1][following.col_offset :], *rest]
    elif start.strip():  # def f(): """It says."""
        rest = [start.rstrip() + b"\n", *rest]
    while not rest[0].strip():
        rest = rest[1:]
    moved = (
        line[min(node.col_offset, len(line) - len(line.lstrip())) :] if line.strip() else b"\n"
        for line in [*head, *rest]
    )
    return b"".join(moved).decode().rstrip()


def from_library(name: str, variant: str, make: Callable[[], Rows]) -> Rows:
    """The rows of a set that is read from the standard library; cached, as parsing it takes seconds. Raises DataError
    for a variant, and where this Python has no such files."""
    if variant:
        raise DataError(f"there is one such set; leave out :{variant}", path=name)
    library = sysconfig.get_path("stdlib")
    python = f"{platform.python_implementation()} {platform.python_version()} {library}"

    def write(folder: Path) -> dict[str, Any]:
        collecting = gc.isenabled()
        gc.disable()  # it would walk through the millions of objects of syntax trees again and again
        try:
            content = make()
        finally:
            if collecting:
                gc.enable()
        rows = list(content.rows)
        if not rows:
            raise DataError(
                f"{name}: this Python carries no standard library as files; name data of your own instead", path=library
            )
        plain = {"rows": rows, "left_out": dict(content.left_out)}
        (folder / "rows.json").write_text(json.dumps(plain), encoding="utf-8")
        return {"data": name, "rows": len(rows), "python": platform.python_version()}

    key = hashlib.sha256(f"{name} {VERSION} {python}".encode()).hexdigest()[:32]
    folder = cached_entry("builtin", key, write)
    return Rows(**json.loads((folder / "rows.json").read_text(encoding="utf-8")))
