"""Families from outside: a data file that the user names, or a text in a package of the user's."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import CheckpointError
from ...plain import python_tree
from ...structured import Malformed, is_yaml, load_yaml, parse_yaml
from .entries import FOLDER, OUTSIDE, content, put_outside

BLOCK = b"folder:"  # what a data file of a family has
CALL = "add_family"  # in a file of Python, the text of whose family is read without running it


def add_family(source: str | Path) -> str:
    """Make a family known for this process, of its data file, or of the text of one; its name. A family of the same
    name that came from outside is replaced.

    Raises CheckpointError with every mistake in it.
    """
    text = str(source)
    if isinstance(source, Path) or (is_yaml(text) and "\n" not in text):
        path = Path(source).expanduser()
        return add_content(read(path), str(path), path.stem)
    try:
        return add_content(parse_yaml(text), "the text of a family", "")
    except Malformed as error:
        raise CheckpointError(f"the text of a family: {error}") from None


def read(path: Path) -> Any:
    try:
        return load_yaml(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such file; give the data file of a family, or a package") from None
    except (OSError, Malformed) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from None


def add_content(own: Any, where: str, name: str) -> str:
    """Make known what a file says; `name` is the family's where it does not say one."""
    from .valid import mistakes_in

    if not isinstance(own, dict):
        raise CheckpointError(f"{where}: expected a mapping: a model file with a block `folder`")
    name = str(own.get("name", name))
    if not name:
        raise CheckpointError(f"{where}: name: is missing; give the family a name")
    if (FOLDER / f"{name}.yaml").is_file():
        what = f"{where}: {name} is a family of transformula's own"
        raise CheckpointError(f"{what}; give yours another name, `name: ...`: it is asked first for its model_type")
    before = OUTSIDE.get(name)
    if before == own:
        return name
    put_outside(name, own)
    try:
        mistakes = mistakes_in(name, content(name))
    except CheckpointError as error:  # of a family that it is like
        mistakes = [f"like: {error}"]
    except RecursionError:
        mistakes = ["like: it is like itself"]
    except (TypeError, AttributeError):
        mistakes = ["expected a model file: formulas, and a block `folder` of mappings and lists"]
    if mistakes:
        put_outside(name, before)
        raise CheckpointError("\n".join(f"{where}: {mistake}" for mistake in mistakes))
    return name


def add_families_of(folder: Path | None, files: Mapping[str, str]) -> None:
    """Make the families of a package known: those of the data files in its folder, and the texts that its files of
    Python (text by name) give to `add_family`."""
    for path in sorted(folder.rglob("*.yaml")) if folder is not None else ():
        if BLOCK not in path.read_bytes():  # of another kind, perhaps a template that is no YAML yet
            continue
        own = read(path)
        if isinstance(own, dict) and isinstance(own.get("folder"), dict):
            add_content(own, str(path), path.stem)
    for name, text in files.items():
        for family in stated_families(text):
            try:
                add_content(parse_yaml(family), name, "")
            except Malformed as error:
                raise CheckpointError(f"{name}: the text of a family: {error}") from None


def stated_families(text: str) -> Iterator[str]:
    """The texts that a file of Python gives to `add_family` as literals, or as names of literals."""
    if CALL not in text:
        return
    tree = python_tree(text)
    literals = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).split(".")[-1] == CALL:
            given = node.args[0]
            value = given.value if isinstance(given, ast.Constant) else literals.get(ast.unparse(given))
            if isinstance(value, str) and not is_yaml(value):
                yield value
