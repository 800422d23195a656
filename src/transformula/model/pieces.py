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
from ..language.graph import Section, Value

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
    taken: dict[str, None] = {}
    gone: set[str] = set()
    for one in inside:
        taken |= {n.id: None for n in names(one, ast.Load, ast.Del) if n.id in local and n.id not in here}
        stored = {n.id for n in names(one, ast.Store)}
        deleted = {n.id for n in names(one, ast.Del)}
        here |= stored
        gone = (gone - stored) | deleted
    needed = {n.id for one in later for n in names(one, ast.Load, ast.Del)}
    left = sorted((here - gone) & needed)
    if not left:
        return inside
    span = {key: getattr(inside[0], key) for key in ("lineno", "col_offset", "end_lineno", "end_col_offset")}
    loads: list[ast.expr] = [ast.Name(n, ast.Load()) for n in left]
    result = loads[0] if len(loads) == 1 else ast.Tuple(loads, ast.Load())
    parameters = [ast.arg("self"), *(ast.arg(n) for n in taken)]
    arguments = ast.arguments([], parameters, None, [], [], None, [])
    body = [*inside, ast.Return(result)]
    definition = ast.FunctionDef(name, arguments, body, [])
    if hasattr(definition, "type_params"):
        definition.type_params = []
    stores: list[ast.expr] = [ast.Name(n, ast.Store()) for n in left]
    target = stores[0] if len(stores) == 1 else ast.Tuple(stores, ast.Store())
    reads: list[ast.expr] = [ast.Name(n, ast.Load()) for n in (name, "self", *taken)]
    made: list[ast.stmt] = [definition, ast.Assign([target], ast.Call(call, reads, []))]
    over = sorted(gone & {*taken} - {*left})
    if over:
        made.append(ast.Delete([ast.Name(n, ast.Del()) for n in over]))
    for one in made:
        for node in ast.walk(one):
            if "lineno" in node._attributes and not hasattr(node, "lineno"):
                vars(node).update(span)
    return made


def names(tree: ast.AST, *kinds: type[ast.expr_context]) -> Iterator[ast.Name]:
    """The names in a tree that are read, stored or deleted; a name that is read and then stored comes twice."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, kinds))


def chosen_lines(section: Section, what: str) -> frozenset[int] | None:
    """Which lines of a layer, from 0, `what` names; None: the layer as a whole.

    what  "none", "all", "layers", or numbers of lines, from 1, and names of words or labels that stand in them,
          divided by commas
    """
    wanted = [one.strip() for one in what.split(",") if one.strip()]
    if wanted in ([NONE], []):
        return frozenset()
    if wanted == [LAYERS]:
        return None
    if wanted == [ALL]:
        return frozenset(range(len(section.lines)))
    lines: set[int] = set()
    for index in range(len(section.lines)):
        here = set(named_in(section, index))
        lines |= {index for one in wanted if one == str(index + 1) or one in here}
    return frozenset(lines)


def named_in(section: Section, index: int) -> list[str]:
    """Words and labels in a line."""
    calls: list[Value] = [value for value in section.calls() if line_of(section, value) == index]
    found = [name for value in calls for name in (value.called.word.name, *value.called.path.split("."))]
    return [*dict.fromkeys(name for name in found if not name.isdigit())]
