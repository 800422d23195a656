"""Rules of the house that are read from its source: what breaks each of them, as lines that name the place.

`python tests/rules.py` prints these lines.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "transformula"
METHODS, LINES = 25, 6

UNCOUNTED = re.compile(r"(#.*|import .*|from .* import .*|\W*)")
"""Lines that a run of equal lines passes over: comments, imports, lone punctuation."""


@cache
def trees() -> dict[str, ast.Module]:
    """Path below the package -> its syntax tree."""
    return {
        str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


@cache
def nodes(path: str) -> list[ast.AST]:
    """The statements of a file, those inside others after them."""
    found: list[ast.AST] = [trees()[path]]
    for node in found:
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            found.extend(
                inner
                for inner in getattr(node, part, ())
                if isinstance(inner, (ast.stmt, ast.excepthandler, ast.match_case))
            )
    return found


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for path in trees():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                yield path, node


def named_twice() -> set[str]:
    """Class names that stand for two or more things."""
    places = defaultdict(list)
    for path, node in classes():
        places[node.name].append(path)
    return {f"class name {name}" for name, found in places.items() if len(found) > 1}


def many_methods() -> set[str]:
    """Classes of more than 25 methods, those of their bases of ours counted, each name once."""
    bodies = defaultdict(list)
    for _, node in classes():
        bodies[node.name].append(node)

    def methods(node: ast.ClassDef, inside: frozenset[str] = frozenset()) -> set[str]:
        own = {part.name for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))}
        for base in node.bases:
            name = ast.unparse(base).split("[")[0].split(".")[-1]
            for other in bodies[name] if name not in inside else []:
                own |= methods(other, inside | {node.name})
        return own

    return {f"methods {path} {node.name}" for path, node in classes() if len(methods(node)) > METHODS}


def imported(path: str) -> Iterator[str]:
    """Files of ours that a file imports, inside functions and for types alone too."""
    package = ["transformula", *Path(path).parts[:-1]]
    for node in nodes(path):
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            names = [".".join([*base, *filter(None, [node.module]), name]) for name in names]
        for name in names:
            if name.split(".")[0] == "transformula" and (file := file_of(name.split(".")[1:])):
                yield file


def file_of(parts: list[str]) -> str | None:
    """The file of a dotted name below the package, or of the module that holds it."""
    for module in (parts, parts[:-1]):
        for file in (f"{'/'.join(module)}.py", "/".join([*module, "__init__.py"])):
            if file in trees():
                return file
    return None


def in_circles() -> set[str]:
    """Files that import each other in a circle, be it for types alone."""
    graph = {path: set(imported(path)) - {path} for path in trees()}
    while ends := {path for path, others in graph.items() if not others}:
        graph = {path: others - ends for path, others in graph.items() if path not in ends}
    reached = {path: closure(path, graph) for path in graph}
    return {f"circle {path}" for path in graph if path in reached[path]}


def closure(start: str, graph: dict[str, set[str]]) -> set[str]:
    """All that is reached from `start` in one or more steps."""
    seen: set[str] = set()
    ahead = [start]
    while ahead:
        for other in graph[ahead.pop()] - seen:
            seen.add(other)
            ahead.append(other)
    return seen


def written_twice() -> set[str]:
    """Pairs of files that share six or more lines in a row to the letter; white space folded."""
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for path in trees():
        lines = [" ".join(line.split()) for line in (SOURCE / path).read_text(encoding="utf-8").splitlines()]
        counted = [line for line in lines if not UNCOUNTED.fullmatch(line)]
        for start in range(len(counted) - LINES + 1):
            places[tuple(counted[start : start + LINES])].append((path, start))
    pairs = set()
    for found in places.values():
        for (path, start), (other, again) in zip(found, found[1:], strict=False):
            if path != other or again - start >= LINES:
                pairs.add(f"lines twice {path} {other}")
    return pairs


def without_a_subject() -> set[str]:
    """Docstrings that begin with "Of": what of it?"""
    found = set()
    for path in trees():
        lines = (SOURCE / path).read_text(encoding="utf-8").splitlines()
        numbered = enumerate(lines, 1)
        found |= {f"docstring {path}:{number}" for number, line in numbered if line.lstrip().startswith('"""Of ')}
    return found


RULES = (named_twice, many_methods, in_circles, written_twice, without_a_subject)


def broken() -> set[str]:
    return {line for rule in RULES for line in rule()}


if __name__ == "__main__":
    print(*sorted(broken()), sep="\n")
