"""Python's syntax trees, in short."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=ast.AST)


def load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def attribute(of: ast.expr, name: str) -> ast.expr:
    return ast.Attribute(of, name, ast.Load())


def subscript(of: ast.expr, place: str | int) -> ast.expr:
    return ast.Subscript(of, ast.Constant(place), ast.Load())


def result(trees: Sequence[ast.expr]) -> ast.Return:
    """`return a`, or `return a, b`."""
    return ast.Return(trees[0] if len(trees) == 1 else ast.Tuple([*trees], ast.Load()))


def assignment(names: Sequence[str], tree: ast.expr) -> ast.Assign:
    """`a = tree`, or `a, b = tree`."""
    targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
    return ast.Assign([targets[0] if len(targets) == 1 else ast.Tuple(targets, ast.Store())], tree)


def deletion(names: Sequence[str]) -> ast.Delete:
    return ast.Delete([ast.Name(name, ast.Del()) for name in names])


def definition(name: str, parameters: Sequence[str], body: Sequence[ast.stmt], defaults: int = 0) -> ast.FunctionDef:
    """A function, whose last `defaults` parameters are None by default."""
    arguments = ast.arguments([], [*map(ast.arg, parameters)], None, [], [], None, [ast.Constant(None)] * defaults)
    tree = ast.FunctionDef(name, arguments, [*body], [])
    if hasattr(tree, "type_params"):
        tree.type_params = []
    return tree


def located(tree: T, span: Mapping[str, int]) -> T:
    """A tree whose nodes that have no place yet stand at this one."""
    if not hasattr(tree, "lineno"):
        if "lineno" in tree._attributes:
            vars(tree).update(span)
        for part in ast.iter_child_nodes(tree):
            located(part, span)
    return tree
