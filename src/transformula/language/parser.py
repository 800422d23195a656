"""Text -> tree. Python's `ast` reads the text; a closed list rebuilds it node by node; nothing is ever evaluated.

Bounds: 20,000 characters, 500 lines, 1,000 calls, 50 levels of nesting (a chain of sums counts once). What `ast.parse`
itself may raise on hostile input (SyntaxError, ValueError, MemoryError, RecursionError) becomes a FormulaError.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import re
import warnings
from functools import lru_cache
from typing import Any

from ..plain import python_tree
from .messages import FormulaError
from .source import Place, Source
from .syntax import (
    Binary,
    CallNode,
    Choice,
    Compare,
    Index,
    Line,
    Listing,
    Literal,
    Logic,
    Name,
    Negative,
    Node,
    Number,
    Tap,
)

MOST_CHARACTERS = 20_000
MOST_LEVELS = 50
MOST_LINES = 500
MOST_CALLS = 1_000
MOST_TERMS = 2_000  # of one sum or product; up to Python 3.12 its own parser ends at some 3,000

BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**"}
COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}

# What is Python's and not the language's: what it is, and what to write.
REMEDIES = {
    ast.AugAssign: ("an assignment like +=", "write it out: x = x + ..."),
    ast.AnnAssign: ("an annotation", "write: name = expression"),
    ast.Tuple: ("a tuple", "a line gives one value one name"),
    ast.List: ("a list", "lists are made by history: x[:]"),
    ast.ListComp: ("a comprehension", "write the terms out"),
    ast.GeneratorExp: ("a comprehension", "write the terms out"),
    ast.Lambda: ("a lambda", "write a definition under words:"),
    ast.Attribute: ("an attribute", "taps are LABEL.NAME after the call of that label"),
    ast.JoinedStr: ("a formatted string", "strings are plain, and values of options"),
    ast.NamedExpr: ("an assignment inside an expression", "give it a line of its own"),
    ast.Starred: ("a starred argument", "write the arguments out"),
    ast.Import: ("an import", "words come from --use PACKAGE, named by whoever runs the program"),
    ast.ImportFrom: ("an import", "words come from --use PACKAGE, named by whoever runs the program"),
    ast.MatMult: ("the operator @", "use linear(x, size) or dot(a, b)"),
    ast.BoolOp: ("a test as a value", "tests stand in: a if test else b"),
}
LANGUAGE = "a formula has names, numbers, calls, + - * / // % **, `a if test else b`: docs/reference/language.md"
OPERATORS = "operators are + - * / // % **"


def parse_python(source: Source, mode: str) -> ast.AST:
    """Python's tree of a text; what is too long, too deep or not ASCII is refused before Python's parser sees it."""
    text, start = source.text, Place(source, 1, 0, 1, 10)

    def place(at: int) -> Place:
        line, column = text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1)
        return Place(source, line, column, line, column + 1)

    if len(text) > MOST_CHARACTERS:
        raise FormulaError("too-long", start, count=len(text))
    if not text.isascii():
        at = next(i for i, c in enumerate(text) if not c.isascii())
        raise FormulaError("not-ascii", place(at), char=text[at])
    for what, count, most in (("lines", text.count("\n") + 1, MOST_LINES), ("calls", text.count("("), MOST_CALLS)):
        if count > most:
            raise FormulaError("too-many-parts", start, count=count, what=what)
    levels = itertools.accumulate((char in "([{") - (char in ")]}") for char in text)
    too_deep = next((at for at, level in enumerate(levels) if level > MOST_LEVELS), None)
    if too_deep is not None:
        raise FormulaError("too-deep", place(too_deep))
    code = "syntax" if mode == "exec" else "expression-syntax"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return python_tree(text, mode=mode)
    except SyntaxError as error:
        line = min(error.lineno or 1, max(1, len(text.splitlines())))
        column = max(0, (error.offset or 1) - 1)
        end = error.end_offset - 1 if error.end_offset and error.end_lineno == error.lineno else column + 1
        wrong = Place(source, line, min(column, len(source.line(line))), line, max(end, column + 1))
        raise FormulaError(code, wrong, detail=error.msg) from None
    except ValueError as error:
        raise FormulaError(code, Place(source, 1, 0, 1, 1), detail=str(error)) from None
    except (MemoryError, RecursionError):
        raise FormulaError("too-deep", start) from None


class Rebuilder:
    """Rebuilds a tree node by node. `tests` are values in formulas over scores and records, `strings` in records."""

    def __init__(self, source: Source, tests: bool = False, strings: bool = False) -> None:
        self.source, self.tests, self.strings = source, tests, strings
        self.level = 0

    def place(self, node: Any) -> Place:
        return Place(self.source, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)

    def refused(self, node: ast.AST, what: str = "", remedy: str = "") -> FormulaError:
        if not what:
            kind: type = type(node.op) if isinstance(node, ast.BinOp) else ast.BoolOp if is_test(node) else type(node)
            other = f"the operator `{kind.__name__}`" if isinstance(node, ast.BinOp) else f"`{kind.__name__}` of Python"
            what, remedy = REMEDIES.get(kind, (other, OPERATORS if isinstance(node, ast.BinOp) else LANGUAGE))
        return FormulaError("not-allowed", self.place(node), what=what, remedy=remedy)

    def line(self, node: ast.stmt) -> Line:
        wrong: ast.AST = node
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return Line(name, self.value(value), self.place(node))
            case ast.Assign(targets=[ast.Tuple() | ast.Attribute() | ast.List() as target]):
                raise self.refused(target)
            case ast.Assign(targets=[wrong]):
                what = "the left side is not a name"
            case ast.Assign():
                what = "this line has two"
            case ast.Expr():
                what = "this line has no `=`"
            case _:
                raise self.refused(node)
        raise FormulaError("not-assignment", self.place(wrong), what=what)

    def value(self, node: ast.expr, test: bool = False) -> Node:
        """An expression, one level further down. `test`: a test stands there, else a value or a number."""
        self.level += 1
        try:
            if self.level > MOST_LEVELS:
                raise FormulaError("too-deep", self.place(node))
            return self.test_at(node) if test else self.value_at(node)
        finally:
            self.level -= 1

    def value_at(self, node: ast.expr) -> Node:
        place = self.place(node)
        match node:
            case ast.Constant():
                return self.constant(node, self.strings)
            case ast.Name(id=name):
                return Name(place, name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Negative(place, self.value(operand))
            case ast.BinOp():
                return self.chain(node)
            case ast.IfExp(test=test, body=body, orelse=other):
                return Choice(place, self.value(test, True), self.value(body), self.value(other))
            case ast.Call():
                return self.call(node)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Slice() as part):
                if part.upper or part.step:
                    remedy = (
                        "write x[:] for all of it, x[n:] for what layer n and later ones left, or x[n] for one; the "
                        "channels of a value: slice(x, first, size)"
                    )
                    raise self.refused(node, "a part of a history that ends before its last", remedy)
                return Index(place, name, None, None if part.lower is None else self.value(part.lower))
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return Index(place, name, self.value(index))
            case ast.Attribute(value=ast.Name(id=call), attr=tap):
                return Tap(place, call, tap)
        if self.tests and is_test(node):
            return self.test_at(node)
        raise self.refused(node)

    def test_at(self, node: ast.expr) -> Node:
        place = self.place(node)
        match node:
            case ast.Compare(left=left, ops=ops, comparators=parts):
                for op in ops:
                    if type(op) not in COMPARE:
                        raise self.refused(node, f"the test `{type(op).__name__}`", "tests are < <= > >= == !=")
                return Compare(
                    place, tuple(COMPARE[type(op)] for op in ops), tuple(map(self.constant_or_value, [left, *parts]))
                )
            case ast.BoolOp(op=op, values=parts):
                operator = "and" if isinstance(op, ast.And) else "or"
                return Logic(place, operator, tuple(self.value(part, True) for part in parts))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Logic(place, "not", (self.value(operand, True),))
            case ast.Name() | ast.Subscript() if not self.strings:
                return Logic(place, "flag", (self.value(node),))
        if self.strings:
            return self.value(node)
        raise self.refused(node, "this as a test", "a test compares numbers, e.g. layer % 2 == 0, or reads a flag")

    def constant_or_value(self, node: ast.expr) -> Node:
        """A string or a flag, where it may stand beside values."""
        return self.constant(node, True) if isinstance(node, ast.Constant) else self.value(node)

    def constant(self, node: ast.Constant, strings: bool) -> Node:
        """A number; a string or a flag where these may stand."""
        value, place = node.value, self.place(node)
        if isinstance(value, (str, bool)) and strings:
            return Literal(place, value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            what = {str: "a string", bool: "True or False"}.get(type(value), f"{value!r}")
            raise self.refused(node, f"{what} here", "strings, True and False are values of options")
        if not abs(value) <= 1e9:
            raise FormulaError("number-too-large", place)
        return Number(place, value)

    def chain(self, node: ast.BinOp) -> Node:
        """A chain of operators that lean to the left is walked, not recursed into: it counts as one level."""
        spine: list[ast.BinOp] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            spine.append(left)
            left = left.left
        if len(spine) >= MOST_TERMS:
            raise FormulaError("too-many-parts", self.place(node), count=len(spine) + 1, what="terms")
        result = self.value(left)
        for part in reversed(spine):
            if type(part.op) not in BINARY:
                raise self.refused(part)
            result = Binary(self.place(part), BINARY[type(part.op)], result, self.value(part.right))
        return result

    def call(self, node: ast.Call) -> CallNode:
        match node.func:
            case ast.Name(id=word):
                label = ""
            case ast.Attribute(value=ast.Name(id=word), attr=label):
                pass
            case _:
                raise self.refused(node.func, "a call of this", "write word(...) or word.label(...)")
        for argument in node.args if not self.strings else ():
            if isinstance(argument, ast.Constant) and isinstance(argument.value, (str, bool)):
                raise FormulaError("definition-value", self.place(argument), name=word, what="streams and numbers here")
        items, options = tuple(map(self.value, node.args)), tuple(map(self.option, node.keywords))
        return CallNode(self.place(node), word, label, items, options, self.place(node.func))

    def option(self, keyword: ast.keyword) -> Line:
        if keyword.arg is None:
            raise self.refused(keyword, *REMEDIES[ast.Starred])
        return Line(keyword.arg, self.constant_or_value(keyword.value), self.place(keyword))


def is_test(node: ast.AST) -> bool:
    """Whether an expression is a comparison, or `and`, `or`, `not`."""
    return isinstance(getattr(node, "op", node), (ast.Compare, ast.boolop, ast.Not))


def parse(source: Source, *, second: bool = False) -> list[Line]:
    """The lines of a formula. `second`: a formula over scores, where a comparison is a value. Raises FormulaError."""
    return list(parsed(source, second))


@lru_cache(maxsize=2048)  # a text is compared with hundreds, which share most of their formulas
def parsed(source: Source, second: bool) -> tuple[Line, ...]:
    """As `parse`. Trees are never changed, so that many may hold one."""
    tree = parse_python(source, "exec")
    if not isinstance(tree, ast.Module) or not tree.body:
        raise FormulaError("empty", source.start)
    return tuple(Rebuilder(source, second).line(statement) for statement in tree.body)


def parse_expression(source: Source, *, strings: bool = False) -> Node:
    """One expression: a number of a file, or (`strings`) an expression of a word's record."""
    source = dataclasses.replace(source, text=source.text.strip())
    if not source.text:
        raise FormulaError("empty", source.start)
    tree = parse_python(source, "eval")
    assert isinstance(tree, ast.Expression)
    return Rebuilder(source, strings, strings).value(tree.body)


def parse_constant(source: Source) -> Node:
    """What a file says of one of its names: an expression of numbers, a string, a flag or a test, or a list of these in
    brackets. A name alone may be any, Python's keywords too: it may be a string."""
    source = dataclasses.replace(source, text=source.text.strip())
    text, place = source.text, Place(source, 1, 0, 1, len(source.text))
    if text[:1] == "[" and text[-1:] == "]":
        return Listing(place, tuple(map(parse_constant, split_list(source))))
    if re.fullmatch(r"[A-Za-z_]\w*", text):
        return Name(place, text)
    tree = parse_python(source, "eval")
    assert isinstance(tree, ast.Expression)
    return Rebuilder(source, tests=True).constant_or_value(tree.body)


def split_list(source: Source) -> list[Source]:
    """The parts of a list in brackets; those of a list within it are not told apart. Raises FormulaError."""
    inside = source.text[1:-1]
    levels = itertools.accumulate((char in "([{") - (char in ")]}") for char in inside)
    ends = [at for at, (char, level) in enumerate(zip(inside, levels, strict=True)) if char == "," and level == 0]
    starts = [0, *(end + 1 for end in ends)]
    parts = [inside[start:end] for start, end in zip(starts, [*ends, len(inside)], strict=True)]
    if not all(part.strip() and part.strip()[0] != "[" for part in parts):
        detail = "a list holds numbers, names and flags, with commas between them"
        raise FormulaError("syntax", source.start, detail=detail)
    return [
        dataclasses.replace(source, text=part, indent=source.indent + 1 + start)
        for start, part in zip(starts, parts, strict=True)
    ]
