"""python-modules: a docstring of the standard library -> the module, or package, that it belongs to."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..built_in import Rows, built_in
from .python_library import Function, from_library, library_files, module_of, text_of, tree_of, whole_characters

MIN_WORDS = 5  # of a docstring
MIN_DOCSTRINGS = 60  # docstrings of a module
SHORT, SAME = f"docstrings of fewer than {MIN_WORDS} words", "docstrings that equal one before"
RARE = f"docstrings of modules that have fewer than {MIN_DOCSTRINGS}"


@built_in("python-modules", ("text", "label"), grouped=True)
def read_python_modules(variant: str) -> Rows:
    """Docstrings without the names of these modules, in the order of modules and lines."""
    return from_library("python-modules", variant, lambda: labeled_docstrings(library_files()))


def labeled_docstrings(files: list[Path]) -> Rows:
    """The rows of some files. The name of a module would tell it: those of all labels are taken out of all texts."""
    left_out = Counter({SHORT: 0, SAME: 0, RARE: 0})
    texts: dict[str, tuple[str, str]] = {}  # each with its place and its label
    for path in files:
        module = module_of(path)
        for line, owner, text in docstrings_of(text_of(path)):
            words = " ".join(text.split())
            if len(words.split()) < MIN_WORDS or words in texts:
                left_out[SAME if words in texts else SHORT] += 1
            else:
                texts[words] = f"{module}.{owner}:{line}", module.partition(".")[0]
    counts = Counter(label for _, label in texts.values())
    labels = sorted(label for label, count in counts.items() if count >= MIN_DOCSTRINGS)
    names = re.compile(rf"\b(?:{'|'.join(map(re.escape, labels))})\b", re.IGNORECASE)
    rows = [
        (place, " ".join(names.sub("", text).split()), label)
        for text, (place, label) in texts.items()
        if label in labels
    ]
    left_out[RARE] = len(texts) - len(rows)
    return Rows(rows, left_out)


def docstrings_of(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, the outermost class or function that it is in, docstring) of a module, of its classes and functions."""
    tree = tree_of(source)
    for top in [tree, *tree.body]:
        inside = [top] if isinstance(top, ast.Module) else ast.walk(top)
        for node in inside:
            if isinstance(node, (ast.Module, ast.ClassDef, Function)) and (text := ast.get_docstring(node)):
                yield node.body[0].lineno, getattr(top, "name", ""), whole_characters(text)
