"""Lines of a layer that are made again in the backward pass: in the code of a section each becomes a function of its
own, which only keeps what it is given.

    v0 = v0 + self._modules['attention'](self._modules['attention_input_norm'](v0))

becomes

    def piece(self, v0):
        v0 = v0 + self._modules['attention'](self._modules['attention_input_norm'](v0))
        return v0
    v0 = recomputed(piece, self, v0)
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from ..analysis.residual_path import line_of
from ..language.graph import Section
from .trees import assignment, definition, deletion, load, located, result

NONE, ALL, LAYERS = "none", "all", "layers"


def in_pieces(
    statements: Sequence[ast.stmt], runs: Sequence[tuple[int, int]], given: Sequence[str], call: ast.expr
) -> list[ast.stmt]:
    """The statements with each run in a function of its own. given: the function's parameters; call: `recomputed`."""
    new: list[ast.stmt] = []
    local = {*given[1:], *(name.id for one in statements for name in names(one, ast.Store))}
    at = 0
    for number, (first, end) in enumerate(runs):
        inside, later = statements[first:end], statements[end:]
        new += statements[at:first]
        new += piece(inside, later, local, f"piece{number}", call)
        at = end
    return [*new, *statements[at:]]


def piece(
    inside: Sequence[ast.stmt], later: Sequence[ast.stmt], local: Collection[str], name: str, call: ast.expr
) -> Sequence[ast.stmt]:
    """A run of statements as a function, and its call."""
    here: set[str] = set()
    read: dict[str, None] = {}  # of what stands before the run
    gone: set[str] = set()
    for one in inside:
        read |= {n.id: None for n in names(one, ast.Load, ast.Del) if n.id in local and n.id not in here}
        stored = {n.id for n in names(one, ast.Store)}
        deleted = {n.id for n in names(one, ast.Del)}
        here |= stored
        gone = (gone - stored) | deleted
    needed = {n.id for one in later for n in names(one, ast.Load, ast.Del)}
    left = sorted((here - gone) & needed)
    if not left:
        return inside
    function = definition(name, ["self", *read], [*inside, result([*map(load, left)])])
    called = assignment(left, ast.Call(call, [load(n) for n in (name, "self", *read)], []))
    over = sorted(gone & {*read} - {*left})
    span = {key: getattr(inside[0], key) for key in ("lineno", "col_offset", "end_lineno", "end_col_offset")}
    return [located(one, span) for one in (function, called, *([deletion(over)] if over else []))]


def names(tree: ast.AST, *kinds: type[ast.expr_context]) -> Iterator[ast.Name]:
    """The names in a tree that are read, stored or deleted; a name that is read and then stored comes twice."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, kinds))


def chosen_lines(section: Section, what: str) -> frozenset[int] | None:
    """Which lines of a layer, from 0, `what` names; None: the layer as a whole.

    what  "none", "all", "layers", or numbers of lines, from 1, and names of words or labels that stand in them,
          divided by commas
    """
    if what == LAYERS:
        return None
    numbers, wanted = range(len(section.lines)), set(what.split(","))
    return frozenset(n for n in numbers if what == ALL or wanted & {str(n + 1), *names_in_line(section, n)})


def names_in_line(section: Section, index: int) -> list[str]:
    """Words and labels in a line."""
    calls = [value.called for value in section.calls() if line_of(section, value) == index]
    names = [name for call in calls for name in (call.word.name, *call.path.split("."))]
    return [*dict.fromkeys(name for name in names if not name.isdigit())]
