"""python-summaries: a function of the standard library, and what its docstring says of it first.

    source  the function from `def` on, as it is written, without its docstring and without its indentation
    target  the first line of the docstring

Left out are functions with hardly a body (nothing but `pass`, `...` or `raise NotImplementedError`), and those whose
source is, but for blanks, that of one before. Modules and their functions come in the order of path and line.
"""

from __future__ import annotations

import ast
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..built_in import Rows, built_in
from .python_library import from_library, library_files, text_of

EMPTY = "functions with hardly a body"
SAME = "functions that equal one before"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@built_in("python-summaries", ("source", "target"), grouped=True)
def read_summaries(variant: str) -> Rows:
    """The pairs of this Python, made once and cached. Raises DataError."""
    return from_library("python-summaries", variant, lambda: _made(Path(sysconfig.get_path("stdlib"))))


def _made(root: Path) -> Rows:
    rows: list[tuple[str, str, str]] = []
    left_out = Counter({EMPTY: 0, SAME: 0})
    seen: set[str] = set()
    for path in library_files(root):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for line, source, target in summaries(text_of(path)):
            words = " ".join(source.split())
            if not source or words in seen:
                left_out[SAME if source else EMPTY] += 1
                continue
            seen.add(words)
            rows.append((f"{module}:{line}", source, target))
    return Rows(rows, left_out)


def summaries(module: str) -> Iterator[tuple[int, str, str]]:
    """(line, source, target) of the functions of a module that say what they do, in their order; methods and inner
    functions too. The source is empty where there is hardly a body. Nothing comes of what is no Python."""
    try:
        tree = ast.parse(module)
    except (SyntaxError, ValueError, RecursionError):
        return
    lines = module.encode().splitlines(keepends=True)
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    for node in sorted(functions, key=lambda node: (node.lineno, node.col_offset)):
        target = " ".join((ast.get_docstring(node) or "").partition("\n")[0].split())
        # Half characters, which the escapes of a docstring can write, have no UTF-8.
        target = target.encode("utf-8", "replace").decode()
        if target:
            yield node.lineno, "" if _hardly(node.body[1:]) else _without_docstring(node, lines), target


def _hardly(body: list[ast.stmt]) -> bool:
    """Whether statements say next to nothing."""

    def empty(statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Expr):
            return isinstance(statement.value, ast.Constant)
        return isinstance(statement, ast.Pass) or (
            isinstance(statement, ast.Raise)
            and any(isinstance(n, ast.Name) and n.id == "NotImplementedError" for n in ast.walk(statement))
        )

    return all(map(empty, body))


def _without_docstring(node: Function, lines: list[bytes]) -> str:
    """The source of a function without its first statement. Columns of a syntax tree count bytes."""
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
    return b"".join(_moved(line, node.col_offset) for line in [*head, *rest]).decode().rstrip()


def _moved(line: bytes, columns: int) -> bytes:
    """A line moved to the left, as far as there are blanks."""
    return line[min(columns, len(line) - len(line.lstrip())) :] if line.strip() else b"\n"
