"""Text -> tree. Python's `ast` reads the text; a closed list rebuilds it node by node; nothing is ever evaluated.

Bounds: 20,000 characters, 500 lines, 1,000 calls, 50 levels of nesting (a chain of sums counts once). What `ast.parse`
itself may raise on hostile input (SyntaxError, ValueError, MemoryError, RecursionError) becomes a FormulaError.
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

from .messages import FormulaError
from .source import Place, Source
from .syntax import (
    Binary,
    CallNode,
    Choice,
    Compare,
    Flag,
    Index,
    Keyword,
    Line,
    Logic,
    Name,
    Negative,
    Node,
    Number,
    Tap,
    Text,
)

MOST_CHARACTERS = 20_000
MOST_LEVELS = 50
MOST_LINES = 500
MOST_CALLS = 1_000

BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**"}
COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}

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
}


def check_text(source: Source) -> None:
    """Refuse, before Python's parser sees it, what is too long, too deep or not ASCII."""
    text = source.text
    if len(text) > MOST_CHARACTERS:
        raise FormulaError("too-long", Place(source, 1, 0, 1, 10), count=len(text))
    if not text.isascii():
        at = next(i for i, c in enumerate(text) if not c.isascii())
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1)
        raise FormulaError("not-ascii", Place(source, line, column, line, column + 1), char=text[at])
    for what, count, most in (("lines", text.count("\n") + 1, MOST_LINES), ("calls", text.count("("), MOST_CALLS)):
        if count > most:
            raise FormulaError("too-many-parts", Place(source, 1, 0, 1, 10), count=count, what=what)
    depth, line, start = 0, 1, 0
    for at, char in enumerate(text):
        if char == "\n":
            line, start = line + 1, at + 1
        elif char in "([{":
            depth += 1
            if depth > MOST_LEVELS:
                raise FormulaError("too-deep", Place(source, line, at - start, line, at - start + 1))
        elif char in ")]}":
            depth -= 1


def parse_python(source: Source, mode: str) -> ast.AST:
    check_text(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source.text, mode=mode)
    except SyntaxError as error:
        line = min(error.lineno or 1, max(1, len(source.text.splitlines())))
        column = max(0, (error.offset or 1) - 1)
        end = error.end_offset - 1 if error.end_offset and error.end_lineno == error.lineno else column + 1
        place = Place(source, line, min(column, len(source.line(line))), line, max(end, column + 1))
        raise FormulaError("syntax", place, detail=error.msg) from None
    except ValueError as error:
        raise FormulaError("syntax", Place(source, 1, 0, 1, 1), detail=str(error)) from None
    except (MemoryError, RecursionError):
        raise FormulaError("too-deep", Place(source, 1, 0, 1, 10)) from None


class Rebuilder:
    """Rebuilds one tree. `second` allows comparisons as values (formulas over scores); `strings` allows strings and
    flags anywhere (the expressions of words' records)."""

    def __init__(self, source: Source, second: bool = False, strings: bool = False) -> None:
        self.source, self.second, self.strings = source, second, strings
        self.level = 0

    def place(self, node: Any) -> Place:
        return Place(self.source, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)

    def refuse(self, node: ast.AST) -> FormulaError:
        what, remedy = REMEDIES.get(
            type(node),
            (
                f"`{type(node).__name__}` of Python",
                "a formula has names, numbers, calls, + - * / // % **, `a if test else b`: docs/reference/language.md",
            ),
        )
        return FormulaError("not-allowed", self.place(node), what=what, remedy=remedy)

    def line(self, node: ast.stmt) -> Line:
        if isinstance(node, ast.Expr):
            raise FormulaError("not-assignment", self.place(node), what="this value has none")
        if not isinstance(node, ast.Assign):
            raise self.refuse(node)
        if len(node.targets) != 1:
            raise FormulaError("not-assignment", self.place(node), what="this line has two")
        target = node.targets[0]
        if not isinstance(target, ast.Name):
            if isinstance(target, (ast.Tuple, ast.Attribute, ast.List)):
                raise self.refuse(target)
            raise FormulaError("not-assignment", self.place(target), what="the left side is not a name")
        return Line(target.id, self.value(node.value), self.place(node))

    def value(self, node: ast.expr) -> Node:
        """An expression where a value or a number stands."""
        self.level += 1
        if self.level > MOST_LEVELS:
            raise FormulaError("too-deep", self.place(node))
        try:
            return self._value(node)
        finally:
            self.level -= 1

    def _value(self, node: ast.expr) -> Node:
        place = self.place(node)
        match node:
            case ast.Constant(value=bool() as flag) if self.strings:
                return Flag(place, flag)
            case ast.Constant(value=str() as text) if self.strings:
                return Text(place, text)
            case ast.Constant(value=value) if isinstance(value, (int, float)) and not isinstance(value, bool):
                if not abs(value) <= 1e9:
                    raise FormulaError("number-too-large", place)
                return Number(place, value)
            case ast.Constant(value=value):
                what = {str: "a string", bool: "True or False"}.get(type(value), f"{value!r}")
                raise FormulaError(
                    "not-allowed", place, what=f"{what} here", remedy="strings, True and False are values of options"
                )
            case ast.Name(id=name):
                return Name(place, name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Negative(place, self.value(operand))
            case ast.BinOp():
                return self.chain(node)
            case ast.IfExp(test=test, body=body, orelse=other):
                return Choice(place, self.test(test), self.value(body), self.value(other))
            case ast.Call():
                return self.call(node)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                if isinstance(index, ast.Slice):
                    if index.lower or index.upper or index.step:
                        raise FormulaError(
                            "not-allowed",
                            place,
                            what="a part of a history",
                            remedy="write x[:] for all of it, or x[n] for one",
                        )
                    return Index(place, name, None)
                return Index(place, name, self.value(index))
            case ast.Attribute(value=ast.Name(id=call), attr=tap):
                return Tap(place, call, tap)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()) if self.second or self.strings:
                return self.test(node)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                raise FormulaError(
                    "not-allowed", place, what="a test as a value", remedy="tests stand in: a if test else b"
                )
        raise self.refuse(node)

    def chain(self, node: ast.BinOp) -> Node:
        """A chain of operators that lean to the left is walked, not recursed into: it counts as one level."""
        spine: list[ast.BinOp] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            spine.append(left)
            left = left.left
        result = self.value(left)
        for part in reversed(spine):
            operator = BINARY.get(type(part.op))
            if operator is None:
                what, remedy = REMEDIES.get(
                    type(part.op), (f"the operator `{type(part.op).__name__}`", "operators are + - * / // % **")
                )
                raise FormulaError("not-allowed", self.place(part), what=what, remedy=remedy)
            result = Binary(self.place(part), operator, result, self.value(part.right))
        return result

    def call(self, node: ast.Call) -> CallNode:
        match node.func:
            case ast.Name(id=word):
                label = ""
            case ast.Attribute(value=ast.Name(id=word), attr=label):
                pass
            case _:
                raise FormulaError(
                    "not-allowed",
                    self.place(node.func),
                    what="a call of this",
                    remedy="write word(...) or word.label(...)",
                )
        items = []
        for argument in node.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, (str, bool)) and not self.strings:
                raise FormulaError("definition-value", self.place(argument), name=word, what="streams and numbers here")
            items.append(self.value(argument))
        options = []
        for keyword in node.keywords:
            if keyword.arg is None:
                raise FormulaError(
                    "not-allowed", self.place(keyword), what="a starred argument", remedy="write the arguments out"
                )
            options.append(Keyword(keyword.arg, self.option(keyword.value), self.place(keyword)))
        return CallNode(self.place(node), word, label, tuple(items), tuple(options), self.place(node.func))

    def option(self, node: ast.expr) -> Node:
        match node:
            case ast.Constant(value=bool() as flag):
                return Flag(self.place(node), flag)
            case ast.Constant(value=str() as text):
                return Text(self.place(node), text)
        return self.value(node)

    def test(self, node: ast.expr) -> Node:
        self.level += 1
        if self.level > MOST_LEVELS:
            raise FormulaError("too-deep", self.place(node))
        try:
            place = self.place(node)
            match node:
                case ast.Compare(left=left, ops=ops, comparators=parts):
                    operators = []
                    for op in ops:
                        if type(op) not in COMPARE:
                            raise FormulaError(
                                "not-allowed",
                                place,
                                what=f"the test `{type(op).__name__}`",
                                remedy="tests are < <= > >= == !=",
                            )
                        operators.append(COMPARE[type(op)])
                    return Compare(place, tuple(operators), tuple(self.value(p) for p in [left, *parts]))
                case ast.BoolOp(op=op, values=parts):
                    return Logic(place, "and" if isinstance(op, ast.And) else "or", tuple(self.test(p) for p in parts))
                case ast.UnaryOp(op=ast.Not(), operand=operand):
                    return Logic(place, "not", (self.test(operand),))
            if self.strings:
                return self.value(node)
            raise FormulaError(
                "not-allowed", place, what="this as a test", remedy="a test compares numbers, e.g. layer % 2 == 0"
            )
        finally:
            self.level -= 1


def parse(source: Source, *, second: bool = False) -> list[Line]:
    """The lines of a formula. `second`: a formula over scores, where a comparison is a value.

    Raises FormulaError; nothing is executed, whatever the text.
    """
    tree = parse_python(source, "exec")
    rebuilder = Rebuilder(source, second=second)
    if not isinstance(tree, ast.Module) or not tree.body:
        raise FormulaError("empty", Place(source, 1, 0, 1, max(1, len(source.line(1)))))
    return [rebuilder.line(statement) for statement in tree.body]


def parse_expression(source: Source, *, strings: bool = False, test: bool = False) -> Node:
    """One expression: a number of a file, or (`strings`) an expression of a word's record."""
    text = source.text.strip()
    if not text:
        raise FormulaError("empty", Place(source, 1, 0, 1, 1))
    source = Source(source.name, text, source.file, source.first_line, source.indent)
    tree = parse_python(source, "eval")
    if not isinstance(tree, ast.Expression):
        raise FormulaError("empty", Place(source, 1, 0, 1, 1))
    rebuilder = Rebuilder(source, strings=strings)
    return rebuilder.test(tree.body) if test else rebuilder.value(tree.body)
